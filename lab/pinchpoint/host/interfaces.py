"""Interfaces that exist before a bench does: looked at, lent to a namespace of the bench, given back as they were.

Sources: ip-link(8), ip-address(8), ip-route(8), ss(8), ethtool(8). Needs the standard library alone, so that a
host can give them back without the lab (`lease`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.host.interface import NAMESPACES, SYS, CommandFailed, Host, printed_by
from pinchpoint.model.errors import RequirementError

# The shell stays in the host's own namespace, so that its number names it. The number of a container's first process
# would not: that may have other interfaces, or be another user's.
_BRING_HOME: Final = 'ip -n "$1" link set dev "$2" netns $$ name "$3" || exit'
_SOCKET = re.compile(r"^\S+\s+\S+\s+(?P<local>\S+):\d+\s+(?P<peer>\S+):\d+\s+users:\(\((?P<who>.*)\)\)")
_SSH = re.compile(r'"sshd?(-session)?"')
_NOT_THERE = "ip link show; if a run that was killed had it: pinchpoint clean"
_COMES_BACK = "kernel"  # the protocol of routes that follow from an address
STAMP_ALL = "1"
_RX_FILTER = re.compile(r"current settings:.*?rx_filter (?P<filter>\d+)", re.DOTALL)
_OFFLOAD = re.compile(r"^([a-z-]+): (on|off)( \[fixed\])?", re.MULTILINE)
# As `ethtool -k` names them, and as `-K` takes them. Segmentation needs checksums, so it comes later.
_OFFLOADS: Final = {
    "rx-checksumming": "rx", "tx-checksumming": "tx", "scatter-gather": "sg", "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso", "generic-receive-offload": "gro", "large-receive-offload": "lro",
}  # fmt: skip


@dataclass(frozen=True)
class State:
    """What of an interface is restored."""

    mtu: int
    is_up: bool
    addresses: tuple[tuple[str, ...], ...]  # each as the words that `ip address add` takes
    steering: str = ""  # `rps_cpus` of its first queue, which a bench may change; empty: it has none
    mac: str = ""  # a router's port takes the address to which frames are sent; empty: it is left as it is
    is_promiscuous: bool = False  # a switch that is killed leaves that on
    offloads: tuple[tuple[str, str], ...] = ()  # ("tx", "on"), ... of those that can be changed; empty: no ethtool
    stamped: str = ""  # what it stamps of what it receives, a number of `hwstamp_ctl -r`; empty: left as it is


def look(host: Host, name: str) -> State:
    """The interface as it is. Raises RequirementError where it is not there, or others depend on it."""
    link = _link(host, name)
    if why := next(_dependents(host, name, link), None):
        raise RequirementError(f"{name}{_on(host)} {why}", "name an interface that nothing else uses")
    addresses = tuple(address_words(address) for address in link.get("addr_info", ()) if not is_made_anew(address))
    steering = steering_file(name)
    mask = host.read(steering).strip() if host.exists(steering) else ""
    flags = link.get("flags", ())
    mac, offloads = str(link.get("address", "")), tuple(_offloads(host, name).items())
    return State(int(link["mtu"]), "UP" in flags, addresses, mask, mac, "PROMISC" in flags, offloads)


def lend(host: Host, interface: str, netns: str, name: str, mtu: int) -> None:
    """Move it into a namespace under another name, up. Raises CommandFailed."""
    host.run(["ip", "link", "set", "dev", interface, "netns", netns, "name", name])
    host.run(["ip", "-n", netns, "link", "set", "dev", name, "mtu", str(mtu), "up"])


def give_back(host: Host, interface: str, netns: str, name: str, state: State) -> None:
    """Move it back, and make it what it was; nothing of one that is gone. Raises CommandFailed."""
    if exists(host, name, netns):
        bring_home(host, netns, name, interface)
    if not exists(host, interface):
        return
    if state.mac and host.read(f"{SYS}/class/net/{interface}/address").strip() != state.mac:
        host.run(["ip", "link", "set", "dev", interface, "down"])  # a driver may take an address only then
        host.run(["ip", "link", "set", "dev", interface, "address", state.mac])
    promiscuous, up = "on" if state.is_promiscuous else "off", "up" if state.is_up else "down"
    host.run(["ip", "link", "set", "dev", interface, "promisc", promiscuous, "mtu", str(state.mtu), up])
    for words in state.addresses:
        host.run(["ip", "address", "replace", *words, "dev", interface])
    if state.steering and host.read(steering_file(interface)).strip() != state.steering:
        host.write(steering_file(interface), state.steering)
    present = _offloads(host, interface) if state.offloads else {}
    for offload, was in state.offloads:
        if present.get(offload, was) != was:
            host.run(["ethtool", "-K", interface, offload, was])
    if state.stamped:
        stamp(host, interface, state.stamped)


def stamped(host: Host, interface: str) -> str:
    """Which frames a NIC stamps as it receives them: "0" none, "1" all, others some. Raises RequirementError."""
    if not host.which("hwstamp_ctl"):
        raise RequirementError(f"hwstamp_ctl{_on(host)}: not installed", "apt-get install linuxptp")
    try:
        found = _RX_FILTER.search(host.run(["hwstamp_ctl", "-i", interface]))
    except CommandFailed as error:
        found, why = None, error.message
    else:
        why = "hwstamp_ctl says nothing of what it stamps"
    if found is None:
        raise RequirementError(f"{interface}{_on(host)} stamps no frames: {why}", 'engine.latency_clock = "kernel"')
    return found["filter"]


def stamp(host: Host, interface: str, which: str, netns: str | None = None) -> None:
    """Have a NIC stamp those. Raises CommandFailed where it cannot: `ethtool -T` lists what it can."""
    host.run(["hwstamp_ctl", "-i", interface, "-r", which], netns)


def bring_home(host: Host, netns: str, name: str, interface: str) -> None:
    """Move it from a namespace to the host's own, where it is called `interface`. Raises CommandFailed."""
    host.run(["sh", "-c", _BRING_HOME, "sh", netns, name, interface])


def _offloads(host: Host, name: str) -> dict[str, str]:
    """Those that can be changed, "on" or "off". Empty on a host without ethtool, where a bench changes none either."""
    told = _OFFLOAD.findall(printed_by(host, "ethtool", "-k", name))
    by_long_name = {long: value for long, value, fixed in told if not fixed}
    return {short: by_long_name[long] for long, short in _OFFLOADS.items() if long in by_long_name}


def steering_file(name: str) -> str:
    """Where the kernel keeps the CPUs to which it steers what an interface receives."""
    return f"{SYS}/class/net/{name}/queues/rx-0/rps_cpus"


def exists(host: Host, name: str, netns: str | None = None) -> bool:
    """Whether a namespace has the interface; None: the host's own."""
    if netns is None:
        return host.exists(f"{SYS}/class/net/{name}")
    if not host.exists(f"{NAMESPACES}/{netns}"):
        return False
    try:
        host.run(["ip", "-n", netns, "link", "show", "dev", name])
    except CommandFailed:
        return False
    return True


def ip_json(host: Host, *words: str) -> list[dict[str, Any]]:
    """What ip(8) prints as JSON. Raises CommandFailed or RequirementError: who cannot be asked has not said no."""
    told = host.run(["ip", *words])
    try:
        answer = json.loads(told or "[]")
    except ValueError:
        answer = None
    if not isinstance(answer, list):
        wanted = f"ip {' '.join(words)}: expected a list of JSON, found {told[:80]!r}"
        raise RequirementError(wanted, "upgrade iproute2")
    return [entry for entry in answer if isinstance(entry, dict)]


def _link(host: Host, name: str) -> Mapping[str, Any]:
    links = {link["ifname"]: link for link in ip_json(host, "-j", "-d", "address", "show")}
    if name not in links:
        known = ", ".join(interface for interface in links if interface != "lo") or "none"
        raise RequirementError(f"{name}: no such interface{_on(host)}; there are {known}", _NOT_THERE)
    return {**links[name], "above": [upper for upper, link in links.items() if link.get("link") == name]}


def _dependents(host: Host, name: str, link: Mapping[str, Any]) -> Iterator[str]:
    """Why it cannot be lent, as the rest of a sentence."""
    if "LOOPBACK" in link.get("flags", ()):
        yield "is the loopback interface"
    if master := link.get("master"):
        yield f"is enslaved to {master}"
    if below := ip_json(host, "-j", "link", "show", "master", name):
        yield f"is the master of {', '.join(port['ifname'] for port in below if 'ifname' in port)}"
    if link["above"]:
        yield f"carries {', '.join(link['above'])}"
    routes = [route for family in ("-4", "-6") for route in _routes(host, family, name)]
    if any(route.get("dst") == "default" for route in routes):
        yield "carries the default route"
    if others := [str(route.get("dst")) for route in routes if route.get("protocol") != _COMES_BACK]:
        yield f"carries a route to {', '.join(others)}, which would be lost"
    own = {address.get("local") for address in link.get("addr_info", ())}
    if peers := [peer for local, peer in _ssh_connections(host) if local in own]:
        yield f"carries an ssh connection with {peers[0]}"


def _routes(host: Host, family: str, name: str) -> list[Mapping[str, Any]]:
    """Those that use it; ip-route(8) leaves routes of several next hops out where it is asked for one interface."""
    every_route = ip_json(host, "-j", family, "route", "show", "table", "all")
    hops = [(route, (route, *route.get("nexthops", ()))) for route in every_route if "dst" in route]
    return [route for route, ways in hops if any(way.get("dev") == name for way in ways)]


def _ssh_connections(host: Host) -> Iterator[tuple[str, str]]:
    """(local address, the other end's) of each connection that ssh or sshd holds."""
    for line in host.run(["ss", "-H", "-t", "-n", "-p", "state", "established"]).splitlines():
        # Without its state, a line begins with the two queues.
        match = _SOCKET.match(line.strip())
        if match and _SSH.search(match["who"]):
            yield _plain(match["local"]), _plain(match["peer"])


def _plain(address: str) -> str:
    """Without brackets, scope, or the prefix of an IPv4 address in an IPv6 socket."""
    return address.strip("[]").partition("%")[0].strip("[]").removeprefix("::ffff:")


def is_made_anew(address: Mapping[str, Any]) -> bool:
    """Whether the kernel itself gives it to an interface that goes up."""
    is_link_local = address.get("family") == "inet6" and address.get("scope") == "link"
    return is_link_local and address.get("protocol", "kernel_ll") == "kernel_ll"


def address_words(address: Mapping[str, Any]) -> tuple[str, ...]:
    """An address as ip-address(8) takes it, as `ip -j address` shows it."""
    words = [f"{address['local']}/{address['prefixlen']}"]
    for key, word in (("address", "peer"), ("broadcast", "broadcast"), ("scope", "scope"), ("label", "label")):
        if key in address and not (key == "label" and address.get("family") == "inet6"):
            words += [word, str(address[key])]
    if address.get("noprefixroute"):
        words.append("noprefixroute")
    if address.get("dynamic"):
        lifetimes = (("valid_life_time", "valid_lft"), ("preferred_life_time", "preferred_lft"))
        words += [text for key, word in lifetimes if key in address for text in (word, str(address[key]))]
    return tuple(words)


def _on(host: Host) -> str:
    return f" on {host.name}" if host.name else ""
