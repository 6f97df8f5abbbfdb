"""The traffic engine as the lab sees it: an Instrument.

`instrument`  the interface and its data
`process`     the real engine, behind its JSON lines
`protocol`    messages of the seam, exactly as protocol/schema.json defines them; `streams`,
              `sockets` and `parts` hold what they consist of
`simulated`   a twin with a virtual clock, for the logic around the measurement
`workload`    workloads over kernel sockets, which need no ports
"""
