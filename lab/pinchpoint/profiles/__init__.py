"""Traffic profiles of other programs as [[stream]] tables of a scenario.

`sandboxed`  runs a profile that is a program (Python), with `stl`, stand-ins for the names that it uses
`declared`   starts `sandboxed` without privileges, and reads what it prints strictly: nothing from there is trusted
`fields`     where the fields of packets stand, and the keys of [[stream]] that say them
`streams`    the declared streams as tables of a scenario, or those of captures (YAML), which the engine reads; what no
             stream does is refused with its line
"""
