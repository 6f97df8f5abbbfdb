"""IPVS, the kernel's layer-4 balancer, in a namespace between two ports.

`device`     the kind, as the rest of the lab knows it, and its scenario keys
`balancing`  a service as ipvsadm's and iptables' commands
`table`      what bounds its connections, as read back, and how they are forgotten
`needs`      what a machine must have for it
`counters`   what it and connection tracking count
"""

from pinchpoint.dut.ipvs.device import DEVICE

__all__ = ["DEVICE"]
