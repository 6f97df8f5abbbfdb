"""A forwarder whose truth is known: rate, ring, losses, pauses; its counters may lie (`pinchpoint-engine forward`).
With a [service] it is a balancer whose limits, time-outs and faults are known (`pinchpoint-engine balance`).

What the lab says of it can be compared with what is true, with real frames. A trial of T seconds loses nothing at up
to `dut.rate_fps` + `dut.ring` / T: what the ring holds when the sending ends is still forwarded.

`spec`     what a scenario says of it: its keys
`device`   the kind: resources, hop graph
`account`  what the running device prints of itself, and the truth

`balancing`  the balancer: its options, its limits, its table
`balanced`   what the running balancer prints of itself; its hop graph
"""

from pinchpoint.dut.reference.device import DEVICE

__all__ = ["DEVICE"]
