"""Traffic profiles of other programs as [[stream]] tables of a scenario.

`templates`  a profile of captures (YAML), as the engine reads it
`sandboxed`  runs a profile that is a program (Python), with `stl` and `layers`, stand-ins for the names that it uses
`declared`   starts `sandboxed` without privileges, and reads what it prints strictly: nothing from there is trusted
`streams`    the declared streams as those of a scenario; what no stream does is refused with its line
`text`       streams as a scenario file
"""
