"""Pure judgement: what happened to every frame, whether a trial counts, and what pinched a number.

`ledger`    engine's account + counter differences -> hops with named drops
`load`      counter differences -> load of every packet thread
`validity`  may this trial be judged as the DUT's own doing?
`neighbour` whether something outside this machine slowed the DUT's core
`workers`   which part of the load went through each engine core
`verdict`   what limited a rate, with evidence and what was ruled out
"""
