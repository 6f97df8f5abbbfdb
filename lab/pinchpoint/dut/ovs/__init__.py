"""A private Open vSwitch: own database, daemons, sockets and namespace.

`device`       the kind, as the rest of the lab knows it
`keys`, `reading`, `bridges`, `placeholders`, `spec`   scenario keys, their checks, and what they say
`bench`        what a bench consists of: `places`, `daemons`, `ports`, `tunnels`, `rules`, `extra_ports`, `relayed`
`live`         the running switch: `unixctl`, `settings`, `collectors`, `text`, `actions`, `bulk_flows`, `bulk_ports`
`hops`, `load`, `metrics`   what its counters mean
`needs`, `programs`         what a machine must have for it
"""

from pinchpoint.dut.ovs.device import DEVICE

__all__ = ["DEVICE"]
