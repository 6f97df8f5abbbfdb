"""DPVS: a balancer on DPDK, of the user's own build.

`device`  the kind, as the rest of the lab knows it, and its scenario keys
`config`  its configuration file, and the commands that describe a service to it
`live`    one that runs: settings, counters, limits
`text`    what its tools print
"""

from pinchpoint.dut.dpvs.device import DEVICE

__all__ = ["DEVICE"]
