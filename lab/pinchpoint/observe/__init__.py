"""What the DUT and the host can count. One collector per file: `can_run` says why not, `snapshot` reads.

Counters only ever grow and are never cleared, since someone else may be reading
them; a trial is bracketed by two snapshots and sees the differences. What could
not be read is absent: missing is never zero.

`host`      steal, run delay and switches of the threads in use
`sockets`   drops of packet sockets, by port
`functions` what functions forwarding threads are in, sampled
`bracket`   two rounds of snapshots round something, and their differences
"""
