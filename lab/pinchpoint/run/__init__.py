"""From a list of scenarios to their results.

`scenario`   one scenario: build, measure, take down; `ceiling`: the generator's own limit, measured once a day
`run`        one unit after the other; `order`, `estimate`, `budget`: which, in what order, in what time
`checkpoint` results, curves and findings while a run goes on; `resume_check`: whether an interrupted run may go on
`duet`, `duet_run`, `paired_benches`  two benches at once, in alternating slices
`relative`, `reference_bench`  the points of a sweep beside a reference; `compared`: the comparison of a run
`pilot`      which level of repeating varies most
"""
