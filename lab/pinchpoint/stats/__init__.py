"""Numbers with their intervals. Pure.

`estimate`       one figure from repeats, and the MRR from trials
`ratio`, `paired`, `duet`, `alternating`  two benches, by how they were measured
`change_points`  where the level of a series changes
"""
