"""Commands against causes, for a switch in service: ovs-vsctl(8), ovs-appctl(8), at the port concerned. Pure.

Words in capitals are for the reader to replace. What is in force is not named.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pinchpoint.dut.device import Seen, between
from pinchpoint.dut.ovs.collectors import CONFIGURED

SMC: Final = f"{CONFIGURED}smc-enable"
EMC: Final = f"{CONFIGURED}emc-insert-inv-prob"
AUTO_LB: Final = f"{CONFIGURED}pmd-auto-lb"
_SET: Final = "ovs-vsctl set Open_vSwitch . other_config:"


def _worst(seen: Seen, begin: str, end: str) -> str:
    """The port whose counter grew most; empty where none grew."""
    counts = between(seen, begin, end)
    port = max(counts, key=lambda name: counts[name], default="")
    return port if port and counts[port] > 0 else ""


def _policer(seen: Seen) -> Iterator[str]:
    entering = _worst(seen, "ovs/port/", "/ovs_rx_qos_drops") or _worst(seen, "host/queue/dut/", "/filtered")
    if entering:
        yield f"ovs-vsctl set interface {entering} ingress_policing_rate=KBPS, 0 for no limit"
    if leaving := _worst(seen, "ovs/port/", "/ovs_tx_qos_drops") or _worst(seen, "host/queue/dut/", "/shaped"):
        yield f"ovs-vsctl clear port {leaving} qos"


def _mtu(seen: Seen) -> Iterator[str]:
    port = _worst(seen, "ovs/port/", "/ovs_tx_mtu_exceeded_drops") or "PORT"
    yield f"ovs-vsctl set interface {port} mtu_request=BYTES"


def _tracking(seen: Seen) -> Iterator[str]:
    limits, counts = (between(seen, "ovs/conntrack/zone ", end) for end in ("/limit", "/connections"))
    shares = {zone: counts.get(zone, 0.0) / limit for zone, limit in limits.items() if limit}
    if shares and max(shares.values()) >= 0.99:
        yield f"ovs-appctl dpctl/ct-set-limits zone={max(shares, key=lambda zone: shares[zone])},limit=N"
    else:
        yield "ovs-appctl dpctl/ct-set-maxconns N"


def _imbalance(seen: Seen) -> Iterator[str]:
    yield f"ovs-vsctl set interface {_worst(seen, 'ovs/port/', '/rx_pkts') or 'PORT'} options:n_rxq=N"
    if not seen.get(AUTO_LB):
        yield f"{_SET}pmd-auto-lb=true"


def _main_thread(seen: Seen) -> Iterator[str]:
    """At the interface that its packet socket loses most of, or that receives most by one."""
    lossy = _worst(seen, "host/socket/", "/drops")
    by_socket = between(seen, "host/socket/", "/drops").keys()
    received = {port: n for port, n in between(seen, "ovs/port/", "/rx_pkts").items() if port in by_socket}
    port = lossy or max(received, key=lambda name: received[name], default="PORT")
    yield f"ovs-vsctl set interface {port} type=afxdp"
    yield f"for a NIC ovs-vsctl set interface {port} type=dpdk options:dpdk-devargs=PCI"


def _caches(seen: Seen) -> Iterator[str]:
    if not seen.get(SMC):
        yield f"{_SET}smc-enable=true"


def _insertions(seen: Seen) -> Iterator[str]:
    yield from _caches(seen)
    if seen.get(EMC) != 0:
        yield f"{_SET}emc-insert-inv-prob=0"


def _always(*commands: str) -> Callable[[Seen], Iterator[str]]:
    return lambda seen: iter(commands)


_LIMIT: Final = f"{_SET}flow-limit=N"
_BY_CAUSE: Final[Mapping[str, Callable[[Seen], Iterator[str]]]] = {
    "policer": _policer, "mtu": _mtu, "tracking-limit": _tracking, "imbalance": _imbalance,
    "main-thread": _main_thread, "masks": _caches, "many-flows": _insertions,
    "flow-limit": _always(_LIMIT), "slow-path": _always(_LIMIT, f"{_SET}max-idle=MS"),
    "buffers": _always(f"{_SET}dpdk-socket-mem=MB and restart it"),
    "rule-drop": _always("ovs-ofctl dump-flows BRIDGE"), "no-rule": _always("ovs-appctl ofproto/trace BRIDGE FLOW"),
    "meter": _always("ovs-ofctl -O OpenFlow13 dump-meters BRIDGE"),
}  # fmt: skip


def commands(cause: str, seen: Seen) -> tuple[str, ...]:
    """Against the cause of this name."""
    return tuple(_BY_CAUSE.get(cause, _always())(seen))
