"""What pinched a number. Pure.

`verdict`      what limited a rate, with its evidence and what was ruled out
`ceiling`      whether the generator is the limit
`modes`        what explains the band of a rate
`catalogue`    the causes that are known, one row each; `signature` has the parts of a row
`losses`       the frames that trials lost, by reason; what is left without those of one kind
`signs`        what losing trials show, as typed observations
`likely`       which causes fit them
`experiments`  counter-experiments that any device allows
`explained`    what the counter-experiments confirm and exclude
`document`     docs/causes.md
"""
