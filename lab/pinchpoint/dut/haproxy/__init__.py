"""HAProxy, mode tcp, in a namespace between two veth ports.

`device`  the kind: configuration and command
`live`    the running program: its stats socket
"""

from pinchpoint.dut.haproxy.device import DEVICE

__all__ = ["DEVICE"]
