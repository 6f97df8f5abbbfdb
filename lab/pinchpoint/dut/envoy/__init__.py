"""Envoy's TCP proxy in a namespace between two veth ports.

`device`  the kind: configuration and command
`live`    the running program: its admin interface at a Unix socket
"""

from pinchpoint.dut.envoy.device import DEVICE

__all__ = ["DEVICE"]
