"""What pinched a number. Pure.

`verdict`      what limited a rate, with its evidence and what was ruled out; which causes fit
`sockets`      what limited a socket workload
`exhausted`    which resource ended a load of connections
`catalogue`    the causes that are known, one row each; `signature` has the parts of a row
`signs`        what losing trials show, as typed observations; whether a claimed offload is real
`evidence`     the frames that trials lost, by reason; how busy threads and links were
`bounds`       a rate against overload, the pauses that rings bear, and the generator's ceiling
`experiments`  counter-experiments that any device allows; what they confirm and exclude
"""
