"""What many points or two benches say together: curves, comparisons, trends, and their sentences. Pure.

`curves`          every metric of a sweep against its factors; whether the device saw the factor
`findings`        the sentences that a study asks for; `find_shape`: those about one curve's shape
`conclusions`     the original's, judged by what was measured; `point_pairs`: the two points of each
`comparing`       A against B in turns, and what a ratio says: its sentence, which side is better, a regression;
                  `paired_benches`: in slices and alternating trials; `stored_runs`: as stored
`differences`     what differs between two benches
`trend`           change points over stored runs
`answers`         whether a run answers what it was asked
"""
