"""Traffic profiles of other programs as [[stream]] tables of a scenario.

`templates`  a profile of captures (YAML), as the engine reads it
`python`     a profile that is a program (Python), run without privileges
`inside`     what runs it there, with `stl` and `layers`, stand-ins for the names that it uses
`said`       what it said, read strictly: nothing that comes from there is trusted
`field`      where an instruction writes
`streams`    what was said as streams; what no stream does is refused with its line
`text`       streams as a scenario file
"""
