"""A private Open vSwitch: own database, daemons, sockets and namespace.

`device`       the kind, as the rest of the lab knows it, and what a machine must have for it
`spec`, `reading`   scenario keys and what they say, and their checks
`bench`        what a bench consists of: `places`, `ports`, `balancing`
`live`         the running switch, ours or one in service: `settings`, `collectors`, `text`, `flows`, `bulk`
`hops`, `counters`   where frames are counted, what its counters mean, and what can be done against a cause
"""

from pinchpoint.dut.ovs.device import DEVICE

__all__ = ["DEVICE"]
