"""From a list of scenarios to their results.

`scenario`   one scenario: build, measure, take down; `ceiling`: the generator's own limit, measured once a day
`run`        one unit after the other; `order`, `estimate`, `budget`: which, in what order, in what time
`growing`    results, curves and findings while a run goes on; `same`: whether an interrupted run may go on
`duet`, `duet_run`, `together`  two benches at once, in alternating slices
`relative`, `beside`  the points of a sweep beside a reference; `compared`: the comparison of a run
`pilot`      which level of repeating varies most
"""
