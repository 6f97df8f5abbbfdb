"""Network cards as a host's kernel shows them: their drivers, IOMMU groups, interfaces and what uses those.

Sources: sysfs(5); Documentation/ABI/testing/sysfs-bus-pci and sysfs-class-net; ip(8) and ss(8) for addresses, routes
and connections; devlink-dev(8) for the mode of an embedded switch.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.host import numa
from pinchpoint.host.interface import PROC, SYS, Host, names_in, printed_by, text_at
from pinchpoint.host.interfaces import address_words, ip_json, is_made_anew

PCI: Final = f"{SYS}/bus/pci"
DEVICES: Final = f"{PCI}/devices"
GROUPS: Final = f"{SYS}/kernel/iommu_groups"
INTERFACES: Final = f"{SYS}/class/net"
UNSAFE: Final = f"{SYS}/module/vfio/parameters/enable_unsafe_noiommu_mode"
VFIO: Final = "vfio-pci"
UIO: Final = "uio_pci_generic"
BIFURCATED: Final = ("mlx5_core", "mlx4_core", "mana")
"""Drivers that stay bound: DPDK's own works beside them (DPDK, "Bifurcated Driver")."""
_NETWORK, _BRIDGE = "0x02", "0x0604"  # beginnings of PCI class codes
_UP = 0x1  # IFF_UP (netdevice(7))
_NO_GROUP = "vfio-noiommu"  # the name of a group that vfio makes where there is no IOMMU
_LOCAL = re.compile(r"^(?:\[::ffff:|\[)?([0-9a-fA-F.:]+)(?:%[^\]:]+)?\]?(?:%[^:]+)?:(\d+)$")
_ABSENT = ("linkdown", "dead", "pervasive")  # words of a listed route that say how it is, not what it is

OPENED_BY = 'find /proc/[0-9]*/fd -lname "$1" 2>/dev/null | head -n 1'


@dataclass(frozen=True)
class Interface:
    """A network interface of a card."""

    name: str
    mtu: int
    is_up: bool  # administratively
    speed_mbps: int | None  # None: unknown, as of one that is down
    has_link: bool | None  # None: unknown, as of one that is down
    master: str = ""  # the bond or bridge that it is a port of
    uppers: tuple[str, ...] = ()  # interfaces on top of it, such as VLANs
    switch_id: str = ""  # of the embedded switch that it is a port of: the card is in switchdev mode
    port_name: str = ""  # of that switch: p0 is the uplink, pf0vf1 a representor

    @property
    def is_representor(self) -> bool:
        """Whether it stands for another function of the card."""
        return bool(self.switch_id) and re.fullmatch(r"p\d+", self.port_name) is None


@dataclass(frozen=True)
class Nic:
    """A network card's function."""

    address: str  # with its domain
    vendor: str  # hexadecimal, without 0x
    device: str
    driver: str  # empty: none is bound
    override: str  # the one driver that may be bound; empty: any
    numa_node: int | None
    group: str | None  # of the IOMMU; None: there is no IOMMU
    members: Mapping[str, str]  # the others of the group with their drivers, bridges left out
    interfaces: tuple[Interface, ...]
    virtual_functions: int  # that it has made
    is_virtual: bool  # whether it is one itself

    @property
    def stays_bound(self) -> bool:
        """Whether its kernel driver is used beside DPDK's."""
        return self.driver in BIFURCATED

    @property
    def interface(self) -> Interface | None:
        """Its own, representors left out."""
        return next((interface for interface in self.interfaces if not interface.is_representor), None)


def read(host: Host, address: str) -> Nic | None:
    """The card at a PCI address; None if nothing is there, or no network card."""
    place = f"{DEVICES}/{address}"
    if not _value(host, f"{place}/class").startswith(_NETWORK):
        return None
    group = group_of(host, address)
    node = _number(host, f"{place}/numa_node")
    return Nic(
        address=address,
        vendor=_value(host, f"{place}/vendor").removeprefix("0x"),
        device=_value(host, f"{place}/device").removeprefix("0x"),
        driver=driver(host, address),
        override=_value(host, f"{place}/driver_override").replace("(null)", ""),
        numa_node=node if node is not None and node >= 0 else None,
        group=group,
        members=_members(host, group, address) if group else {},
        interfaces=tuple(_interface(host, name) for name in interface_names(host, address)),
        virtual_functions=_number(host, f"{place}/sriov_numvfs") or 0,
        is_virtual=host.exists(f"{place}/physfn"),
    )


def all_nics(host: Host) -> tuple[Nic, ...]:
    """All network cards on the PCI bus, by address."""
    return tuple(nic for address in names_in(host, DEVICES) if (nic := read(host, address)) is not None)


def has_device(host: Host, address: str) -> bool:
    """Whether there is any device at a PCI address."""
    return host.exists(f"{DEVICES}/{address}")


def driver(host: Host, address: str) -> str:
    """The driver that is bound to a device; empty: none."""
    lines = _value(host, f"{DEVICES}/{address}/uevent").splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith("DRIVER=")), "")


def group_of(host: Host, address: str) -> str | None:
    """The device's IOMMU group; None: there is no IOMMU."""
    for group in names_in(host, GROUPS):
        if host.exists(f"{GROUPS}/{group}/devices/{address}"):
            return None if _value(host, f"{GROUPS}/{group}/name") == _NO_GROUP else group
    return None


def interrupt_cpus(host: Host, address: str) -> str:
    """The CPUs to which a device's interrupts may go; empty where it has none now."""
    numbers = names_in(host, f"{DEVICES}/{address}/msi_irqs")
    return numa.cpu_words(cpu for irq in numbers for cpu in numa.cpus_at(host, f"{PROC}/irq/{irq}/smp_affinity_list"))


def unsafe_mode(host: Host) -> str:
    """Whether vfio may do without an IOMMU: `Y` or `N`; empty: the module is not loaded, or was built without it."""
    return _value(host, UNSAFE)


def has_unsafe_mode(host: Host) -> bool:
    """Whether the kernel was built with it: the module says which parameters it has (modinfo(8))."""
    return host.exists(UNSAFE) or "enable_unsafe_noiommu_mode" in printed_by(host, "modinfo", "--field", "parm", "vfio")


def interface_names(host: Host, address: str) -> list[str]:
    """The interfaces of a device; of a virtio one they belong to its child."""
    place, names = f"{DEVICES}/{address}", list[str]()
    for folder in (place, *(f"{place}/{name}" for name in names_in(host, place) if re.fullmatch(r"virtio\d+", name))):
        names += names_in(host, f"{folder}/net")
    return sorted(names)


def addresses(host: Host, interface: str) -> tuple[str, ...]:
    """Its IP addresses as the words that ip-address(8) takes; those that the kernel itself makes are left out."""
    own = [info for info in _addresses(host, interface) if not is_made_anew(info) and "prefixlen" in info]
    return tuple(" ".join(address_words(info)) for info in own)


def routes(host: Host, interface: str) -> tuple[str, ...]:
    """The routes through it that are not the kernel's own, as `ip route replace` takes them, without the interface."""
    admin_routes = list[str]()
    for family in _families(host):
        for line in host.run(["ip", family, "route", "show", "table", "all", "dev", interface]).splitlines():
            # NetworkManager gives a kernel's route of IPv4 a metric, by which another interface goes first.
            is_kernels = "proto kernel" in line and not (family == "-4" and " metric " in line)
            if line.strip() and not is_kernels and "proto ra" not in line:
                admin_routes.append(" ".join((family, *(word for word in line.split() if word not in _ABSENT))))
    return tuple(admin_routes)


def default_routes(host: Host) -> frozenset[str]:
    """The interfaces of the default routes, and of a route with several next hops all of them."""
    interfaces = set[str]()
    for family in _families(host):
        for route in ip_json(host, family, "-j", "route", "show", "default"):
            interfaces |= {str(hop["dev"]) for hop in (route, *route.get("nexthops", ())) if "dev" in hop}
    return frozenset(interfaces)


def user_of(host: Host, nic: Nic) -> str:
    """Another program that drives the card by DPDK, as `FILE of process PID`; empty: none.

    A file of uio(4) can be opened by two programs at once, and so can that of a card whose driver stays bound.
    """
    place = f"{DEVICES}/{nic.address}"
    files = [f"/dev/{name}" for name in names_in(host, f"{place}/uio")]
    files += [f"/dev/infiniband/{name}" for name in names_in(host, f"{place}/infiniband_verbs")]
    files += [f"/dev/vfio/{nic.group}"] if nic.driver == VFIO and nic.group else []
    for file in files:
        opener = host.run(["sh", "-c", OPENED_BY, "sh", file]).strip()
        if opener:
            return f"{file} of process {opener.split('/')[2]}"
    return ""


def connected(host: Host) -> dict[str, str]:
    """Local addresses with an established TCP connection -> one of them as `OURS - PEER`."""
    connections: dict[str, str] = {}
    for line in host.run(["ss", "-Htn", "state", "established"]).splitlines():
        words = line.split()
        if len(words) >= 4 and (local := _LOCAL.match(words[2])):
            connections.setdefault(local[1], f"{words[2]} - {words[3]}")
    return connections


def eswitch(host: Host, address: str) -> str:
    """The mode of the card's embedded switch, `legacy` or `switchdev`; empty: it has none, or it was not told."""
    if host.which("devlink") is None:
        return ""
    try:
        told = json.loads(printed_by(host, "devlink", "-j", "dev", "eswitch", "show", f"pci/{address}") or "{}")
        return str(told["dev"][f"pci/{address}"].get("mode", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def why_not(nic: Nic, host: Host, ours: Collection[str]) -> list[str]:
    """Why a bench must not take the card, `ours` being all that it takes; each a clause."""
    reasons = []
    if nic.virtual_functions:
        reasons.append(f"it has {nic.virtual_functions} virtual functions, which would vanish with its driver")
    strangers = [f"{member} ({bound or 'no driver'})" for member, bound in nic.members.items() if member not in ours]
    if strangers and not nic.stays_bound:
        reasons.append(f"its IOMMU group {nic.group} has other devices: {', '.join(strangers)}")
    own = [interface.name for interface in nic.interfaces if not interface.is_representor]
    if len(own) > 1 and not nic.stays_bound:
        reasons.append(f"it has several interfaces, and a bench can restore only one: {', '.join(own)}")
    if user := user_of(host, nic):
        reasons.append(f"a program drives it already: {user}")
    return [*reasons, *uses(nic, host)]


def uses(nic: Nic, host: Host) -> Iterator[str]:
    """What needs the card's interfaces, each a clause."""
    defaults, connections = default_routes(host), connected(host)
    for interface in nic.interfaces:
        if interface.name in defaults:
            yield f"{interface.name} carries the default route"
        if interface.master:
            yield f"{interface.name} is a port of {interface.master}"
        if interface.uppers:
            yield f"{', '.join(interface.uppers)} depend on {interface.name}"
        for address in (str(info["local"]) for info in _addresses(host, interface.name)):
            if connection := connections.get(address):
                yield f"{interface.name} has {address}, which a connection uses: {connection}"


def _interface(host: Host, name: str) -> Interface:
    place = f"{INTERFACES}/{name}"
    speed, link = _number(host, f"{place}/speed"), _number(host, f"{place}/carrier")
    master = _value(host, f"{place}/master/uevent")
    return Interface(
        name=name,
        mtu=_number(host, f"{place}/mtu") or 0,
        is_up=bool(int(_value(host, f"{place}/flags") or "0", 16) & _UP),
        speed_mbps=speed if speed is not None and 0 < speed < 0xFFFFFFFF else None,
        has_link=None if link is None else bool(link),
        master=next((line[10:] for line in master.splitlines() if line.startswith("INTERFACE=")), ""),
        uppers=tuple(entry[6:] for entry in names_in(host, place) if entry.startswith("upper_")),
        switch_id=_value(host, f"{place}/phys_switch_id"),
        port_name=_value(host, f"{place}/phys_port_name"),
    )


def _members(host: Host, group: str, address: str) -> dict[str, str]:
    others = [member for member in names_in(host, f"{GROUPS}/{group}/devices") if member != address]
    of_class = {member: _value(host, f"{DEVICES}/{member}/class") for member in others}
    return {member: driver(host, member) for member, kind in of_class.items() if not kind.startswith(_BRIDGE)}


def _addresses(host: Host, interface: str) -> list[dict[str, Any]]:
    """Every address of an interface."""
    links = ip_json(host, "-j", "address", "show", "dev", interface)
    return [info for link in links for info in link.get("addr_info", ()) if "local" in info]


def _families(host: Host) -> tuple[str, ...]:
    return ("-4", "-6") if host.exists(f"{PROC}/net/if_inet6") else ("-4",)


def _value(host: Host, path: str) -> str:
    """What a file holds, without its end of line; empty: it is absent, or has nothing to tell now."""
    return text_at(host, path).strip("\0\n ")


def _number(host: Host, path: str) -> int | None:
    text = _value(host, path)
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
