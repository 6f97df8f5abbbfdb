"""Numbers with their intervals. Pure.

`estimate`       one figure from repeats, and the MRR from trials; `variance`: which level of repeating varies most
`ratio`, `paired`, `duet`, `alternating`  two benches, by how they were measured
`change_points`  where the level of a series changes
"""
