"""DPDK's own forwarder, dpdk-testpmd, between two ports: what a device costs that only moves frames.

`device`   the kind: keys, resources, hop graph
`live`     the running forwarder: readiness, counters, threads, log
"""

from pinchpoint.dut.testpmd.device import DEVICE

__all__ = ["DEVICE"]
