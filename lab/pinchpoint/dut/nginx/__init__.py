"""nginx with its stream module, in a namespace between two veth ports.

`device`  the kind: configuration and command
`live`    the running program: its workers, its status page, its log of connections that failed
"""

from pinchpoint.dut.nginx.device import DEVICE

__all__ = ["DEVICE"]
