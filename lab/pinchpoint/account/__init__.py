"""What happened to every frame of a trial, and what the host did meanwhile. Pure.

`ledger`       the engine's account and counter differences, arranged by the device's hop graph
`unexplained`  lost frames that no counter names, and between which places they vanish
`validity`     whether a trial's account can be used; `rejection`: which trials of a search were discarded, and why
`load`         how the forwarding threads had to wait for their cores
`workers`      which part of the load went through each engine core
`facts`        what the host did to the device; `cache_line`, `neighbour`: the distance of the cores, a slowed core
"""
