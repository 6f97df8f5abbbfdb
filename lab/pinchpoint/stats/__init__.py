"""Numbers with their intervals. Pure.

`estimate`       one figure from repeats
`ratio`, `paired`, `duet`, `alternating`, `turns`  two benches, by how they were measured
`variance`       which level of repeating varies most
`change_points`  where the level of a series changes
"""
