"""What the DUT and the host can count. Of each collector `can_run` says why not, `snapshot` reads.

Counters only ever grow and are never cleared, since someone else may be reading
them; a trial is bracketed by two snapshots and sees the differences. What could
not be read is absent: missing is never zero.

`snapshot`  the form of what is read; two rounds of snapshots round something, and their differences
`cpu`       processor time of CPUs, processes and threads: steal, run delay and switches of those in use
`printed`   links, packet sockets, queueing disciplines, neighbours and TCP of a namespace
`relay`     what programs of the engine print of themselves
`perf`      recordings: why the kernel dropped frames, what functions forwarding threads are in
"""
