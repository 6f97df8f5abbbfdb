"""The traffic engine as the lab sees it: an Instrument.

`instrument`   the interface and its data
`process`      the real engine, behind its JSON lines
`multi_engine` several engines as one, and the engine that sends back
`protocol`     messages of the seam, exactly as protocol/schema.json defines them; `streams` and `sockets` hold what
               they consist of
`trials`       a trial in the words of the seam, and its account in the lab's
`histogram`    latencies of several engines, added up
`workloads`    workloads over kernel sockets, which need no ports
`connections`  loads of connections over the open ports

A twin with a virtual clock, for tests of the logic around a measurement, is benchmarks/simulated.py.
"""
