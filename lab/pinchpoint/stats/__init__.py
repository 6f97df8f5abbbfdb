"""Numbers with their intervals. Pure.

`metrics`        a measure's findings as figures; `estimate`: one figure from repeats
`ratio`, `paired`, `duet`  ratios of estimates, of pairs, of alternating slices
`variance`       which level of repeating varies most
`change_points`  where the level of a series changes
"""
