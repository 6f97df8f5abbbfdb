"""A namespace that routes between veth ports, with rules of nftables: source and destination NAT, filters.

`device`    the kind, as the rest of the lab knows it
`balancing` a [service] as rules and addresses
`tracking`  the limits of its connections, and their table
`rebalancing`  backends of a service removed and added while it runs
`routing`   addresses, routes and neighbours of its ports
`keys`      its scenario keys
`needs`     what a machine must have for it
`counters`  what its IP layer, connection tracking and rules count
"""

from pinchpoint.dut.nft.device import DEVICE

__all__ = ["DEVICE"]
