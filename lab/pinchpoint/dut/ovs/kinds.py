"""Of which kinds the ports of a switch are: on a bench by their keys, in service by their types, or by what they count
where no type is known. Pure.

Sources: lib/netdev-dpdk.c, lib/netdev-afxdp.c, lib/netdev-linux.c of Open vSwitch; types: ovs-vswitchd.conf.db(5).
"""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final

from pinchpoint.dut.ovs.spec import AFXDP, LINKED, MADE_BY_SWITCH, VDPA, VETH, VHOST, Datapath, OvsPort, ports, spec
from pinchpoint.model.groups import grouped
from pinchpoint.model.scenario import Port, Scenario

KIND: Final = "ovs/kind/"
"""How gauges begin that say of which kind a port is, as the number of a PortKind."""


class PortKind(IntEnum):
    """The numbers are stored in recordings."""

    NIC = 0  # by DPDK
    VHOST = 1
    FORMER_VHOST = 2  # before Open vSwitch 3.1, whose received frames leave out those that its policer dropped
    AF_XDP = 3
    KERNEL = 4  # an interface, served by the main thread where the kernel does not forward

    @classmethod
    def of_datapath(cls, datapath: Datapath) -> "PortKind":
        """That of a port of which nothing else is known."""
        return {Datapath.DPDK: cls.VHOST, Datapath.AF_XDP: cls.AF_XDP}.get(datapath, cls.KERNEL)


_KINDS: Final[Mapping[float, PortKind]] = {float(kind): kind for kind in PortKind}
POLLED: Final[Mapping[str, Datapath]] = {"dpdk": Datapath.DPDK, "afxdp": Datapath.AF_XDP}
"""How types of ports begin that threads poll -> the datapath; where a switch has both, the first."""
_TUNNELS: Final = frozenset(
    ("vxlan", "geneve", "gre", "ip6gre", "erspan", "ip6erspan", "lisp", "stt", "gtpu", "bareudp", "srv6")
)
OWN_PORT: Final = "local"  # of a bridge, as ovs-ofctl(8) calls it, in upper case
_XDP_QUEUE, _VHOST_QUEUE, _OF_NIC = "xsk_queue_", "rx_q0_good_packets", "rx_missed_errors"


def is_counted_elsewhere(interface_type: str, *, in_kernel: bool) -> bool:
    """Whether its frames are those of other ports: of patch ports, and of tunnels that the switch itself ends."""
    return interface_type == "patch" or (interface_type in _TUNNELS and not in_kernel)


def kind_of(interface_type: str, counters: Iterable[str]) -> PortKind:
    """Of a port with this type and these counters."""
    if interface_type == "dpdk":
        return PortKind.NIC
    if interface_type.startswith("dpdk"):
        return PortKind.VHOST if _VHOST_QUEUE in counters else PortKind.FORMER_VHOST
    return PortKind.AF_XDP if interface_type.startswith("afxdp") else PortKind.KERNEL


def by_counters(counters: Iterable[str], datapath: Datapath) -> PortKind:
    """Of a port of which the counters alone are known, as in recordings of earlier versions and in texts."""
    names = frozenset(counters)
    if any(name.startswith(_XDP_QUEUE) for name in names):
        return PortKind.AF_XDP
    if _OF_NIC in names:
        return PortKind.NIC
    if _VHOST_QUEUE in names:
        return PortKind.VHOST
    # Every AF_XDP port has counters of its queues.
    return PortKind.KERNEL if names and datapath is Datapath.AF_XDP else PortKind.of_datapath(datapath)


def kinds_of(seen: Mapping[str, float], ports: Iterable[str], datapath: Datapath) -> dict[str, PortKind]:
    """Of each port of which something was read: a guest that is down has no counters."""
    told = {name.removeprefix(KIND): _KINDS[n] for name, n in seen.items() if name.startswith(KIND) and n in _KINDS}
    parts = (name.split("/", 3) for name in seen if name.startswith("ovs/port/"))
    counters = grouped((words[2], words[3]) for words in parts if len(words) == 4)
    names = [port for port in dict.fromkeys((*ports, *told)) if port in counters]
    return {port: told[port] if port in told else by_counters(counters[port], datapath) for port in names}


_OF_DATAPATH: Final = {Datapath.DPDK: VHOST, Datapath.AF_XDP: AFXDP}  # of others: VETH


def usual_kind(scenario: Scenario) -> str:
    """The kind that ports and hosts have by the datapath."""
    return _OF_DATAPATH.get(spec(scenario).datapath, VETH)


def own_kind(scenario: Scenario, port: Port) -> str:
    """The kind of a port that is no NIC."""
    own = port.kind if isinstance(port, OvsPort) else None
    return own or usual_kind(scenario)


def linked(scenario: Scenario) -> tuple[OvsPort, ...]:
    """The ports that are ends of veth pairs, or of cables in their place."""
    return _no_nics(scenario, LINKED)


def read_by_main(scenario: Scenario) -> tuple[OvsPort, ...]:
    """The ports that the switch's main thread serves beside its PMD threads."""
    by_main = {VETH, *MADE_BY_SWITCH} if spec(scenario).polls else set[str]()
    return _no_nics(scenario, by_main)


def _no_nics(scenario: Scenario, kinds: Collection[str]) -> tuple[OvsPort, ...]:
    made = (port for port in ports(scenario) if not scenario.link(port).device.nic)
    return tuple(port for port in made if own_kind(scenario, port) in kinds)


def of_other_kinds(scenario: Scenario) -> dict[str, str]:
    """The kind of each port that is not as its datapath has them; of vDPA, whose rings count as vhost-user's, none."""
    kinds = {port.name: port.kind for port in ports(scenario) if port.kind and port.kind != VDPA}
    return {name: kind for name, kind in kinds.items() if kind != usual_kind(scenario)}
