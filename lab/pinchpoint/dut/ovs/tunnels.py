"""VXLAN tunnels between two bridges of one userspace switch, over an underlay of its own.

Each tunnel has two underlay bridges joined by a patch, with an address each on
their local ports. The switch encapsulates at one and decapsulates at the other
(ovs-vswitchd(8), "NATIVE TUNNELING": `tnl_push`, `tnl_pop`), all in one pass of
its datapath. Both addresses lie in one namespace, so the kernel's routes, which
would call either of them local, are ignored (--disable-system-route) and both
routes and neighbours are static. For the same reason the tunnel ports name no
local address: the switch would look for a local route to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from pinchpoint.bench.resource import AnyResource, Command
from pinchpoint.dut.ovs.daemons import appctl
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.spec import Tunnel, spec
from pinchpoint.model.scenario import Scenario

_UNDERLAY = int(IPv4Address("172.31.0.0"))  # four addresses a tunnel
_PREFIX = 30
_LONGEST_AGE_S = 3600  # of a neighbour: the most that the switch takes


@dataclass(frozen=True)
class End:
    """One end of a tunnel: a port of an overlay bridge, and an underlay bridge with its address."""

    tunnel: Tunnel
    bridge: str
    underlay: str
    address: str
    mac: str

    @property
    def port(self) -> str:
        """The interface of the tunnel on this bridge: names are unique in a switch."""
        return f"{self.tunnel.name}-{self.bridge}"


def ends(scenario: Scenario) -> Iterator[tuple[End, End]]:
    """Both ends of every tunnel, each with the other: (near, far)."""
    for number, tunnel in enumerate(spec(scenario).tunnels):
        first, second = (
            End(tunnel, bridge, f"ul{number}{side}", _address(number, place), f"02:70:70:00:{number:02x}:0{place}")
            for place, (side, bridge) in enumerate((("a", tunnel.first), ("b", tunnel.second)), start=1)
        )
        yield first, second
        yield second, first


def _address(number: int, place: int) -> str:
    return str(IPv4Address(_UNDERLAY + 4 * number + place))


def underlay_bridges(scenario: Scenario) -> list[str]:
    """The words of the transaction that makes the underlay of every tunnel."""
    words: list[str] = []
    for near, far in ends(scenario):
        words += ["--", "add-br", near.underlay, "--", "set", "bridge", near.underlay, "datapath_type=netdev"]
        words.append(f'other_config:hwaddr="{near.mac}"')
        patch, peer = f"{near.underlay}-{far.underlay}", f"{far.underlay}-{near.underlay}"
        words += ["--", "add-port", near.underlay, patch, "--", "set", "interface", patch]
        words += ["type=patch", f"options:peer={peer}"]
    return words


def underlay_routes(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """Addresses, routes and neighbours, once the bridges are there."""
    resources: list[AnyResource] = []
    for near, far in ends(scenario):
        ip = ("ip", "-n", places.dut_netns)
        # With a prefix route of either device the kernel would choose between the two.
        address = (f"{near.address}/{_PREFIX}", "dev", near.underlay, "noprefixroute")
        resources += [
            Command((*ip, "address", "add", *address)),
            Command((*ip, "link", "set", "dev", near.underlay, "up")),
            appctl(places, "ovs/route/add", f"{far.address}/32", near.underlay),
            appctl(places, "tnl/neigh/set", near.underlay, far.address, far.mac),
        ]
    if resources:
        resources.append(appctl(places, "tnl/neigh/aging", str(_LONGEST_AGE_S)))
    return resources
