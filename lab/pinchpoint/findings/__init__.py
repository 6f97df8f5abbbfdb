"""What many points or two benches say together: curves, comparisons, trends, and their sentences. Pure.

`curves`       every metric of a sweep against its factors; `visibility`: whether the device saw the factor
`findings`     the sentences that a study asks for; `find_shape`, `find_compare`, `find_state` compute them
`comparing`    A against B in turns; `comparing_slices`, `relative`: in slices; `stored_runs`: as stored
`differences`  what differs between two benches; `trend`: change points over stored runs; `wording`: their sentences
"""
