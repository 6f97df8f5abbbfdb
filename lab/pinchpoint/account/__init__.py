"""What happened to every frame of a trial, and what the host did meanwhile. Pure.

`ledger`     the engine's account and counter differences, arranged by the device's hop graph; what no counter names
`validity`   whether a trial's account can be used; which trials of a search were discarded, and why
`facts`      what the host did to the device: waits, the distance of the cores, a slowed core, and modes of these
`cpus`       what CPUs did, and how the forwarding threads had to wait for theirs
"""
