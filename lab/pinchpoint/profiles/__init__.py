"""Traffic profiles of other programs as [[stream]] tables of a scenario.

`sandboxed`  runs a profile that is a program (Python), with `stl`, stand-ins for the names that it uses
`hlt`        the same for streams of TRex's HLT API
`declared`   starts `sandboxed` without privileges, and reads what it prints strictly: nothing from there is trusted
`fields`     where the fields of packets stand, and the keys of [[stream]] that say them
`streams`    what a [[stream]] is to be for each declared stream; what no stream does is refused with its line
`captured`   the same for captured frames, which the engine reads: of profiles in YAML, or in the place of a packet
`tables`     these as text of a scenario
"""
