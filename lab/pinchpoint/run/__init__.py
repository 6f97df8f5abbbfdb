"""From a list of scenarios to their results.

`scenario`   one scenario: build, measure, take down; `bench`: what stands meanwhile; `ceiling`: the generator's own
             limit, measured once a day
`run`        one unit after the other; `order`, `budget`: which, in what order, in what time
`checkpoint` results, curves and findings of an unfinished run, and whether it may be resumed
`paired_benches`  two benches at once on one engine: in alternating slices (`duet`), in trials (`interleaved`)
`comparison`, `relative`, `explaining`  what uses such pairs: A and B, the points of a sweep, counter-experiments
`stored`     run folders as they stand
`pilot`      which level of repeating varies most
"""
