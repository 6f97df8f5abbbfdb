"""The kernel's bridge between veth ports, its forwarding table filled beforehand.

The address to which a stream is sent has a static entry at the stream's receiving port, so that no frame is flooded.
Spanning tree, multicast snooping and, unless asked for, learning are off. Sources: ip-link(8), bridge(8).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.bench.requirements import Probe, kernel_module
from pinchpoint.bench.resource import AnyResource, Command
from pinchpoint.dut import softirq
from pinchpoint.dut.device import Keys, Pages, Starter, Types, dut_of, in_force, programs
from pinchpoint.host.interface import Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key
from pinchpoint.model.errors import InputError
from pinchpoint.model.frames import macs
from pinchpoint.model.headers import mac_text
from pinchpoint.model.scenario import Guest, Scenario

BRIDGE = "br0"
MOST_ENTRIES = 4096
_OFF = ("stp_state", "forward_delay", "mcast_snooping")


@dataclass(frozen=True)
class BridgeDut(softirq.KernelDut):
    """The kernel's bridge between the ports: on which CPUs its softirqs run, and whether it learns addresses."""

    cpus: tuple[int, ...]
    learning: bool
    kind: str = "bridge"


def entries(scenario: Scenario) -> dict[str, str]:
    """Where each stream's frames are forwarded: address -> port. Raises InputError where that is not one port."""
    softirq.require_unicast(scenario, "which a bridge floods")
    ports_by_mac: dict[str, str] = {}
    for stream in scenario.streams:
        if stream.pcap is not None:
            continue  # its frames keep their addresses: the bridge learns them, or floods
        to = macs(stream)
        if to.drawn is not None or to.count > MOST_ENTRIES:
            told = f"{scenario.path}: eth_dst = {to.written}: a bridge's table has an entry for each address"
            raise InputError(told, f"give a range or a list of at most {MOST_ENTRIES:,}")
        for mac in map(mac_text, to.numbers):
            if (port := ports_by_mac.setdefault(mac, stream.rx_port)) != stream.rx_port:
                raise InputError(
                    f"{scenario.path}: streams to {port} and to {stream.rx_port} have the same eth_dst {mac}: a bridge "
                    "forwards by it, to one port",
                    "give the streams to each port an eth_dst of their own",
                )
    return ports_by_mac


class BridgeLive(softirq.KernelLive):
    """A bridge that stands."""

    def settings(self) -> Mapping[str, str]:
        """Those of the bridge and its ports. Raises BenchError where one is not in force."""
        told = json.loads(self.run("ip", "-d", "-j", "link", "show"))
        links = {link["ifname"]: link.get("linkinfo", {}) for link in told}
        settings = {name: in_force(name, 0, int(links[BRIDGE]["info_data"][name])) for name in _OFF}
        learning = int(dut_of(self._scenario, BridgeDut).learning)
        for port in self._scenario.ports:
            name = f"learning of {port.name}"
            settings[name] = in_force(name, learning, int(links[port.name]["info_slave_data"]["learning"]))
        return {**super().settings(), **settings}

    def dumps(self) -> Mapping[str, str]:
        """The bridge's counters, those of its ports, and its forwarding table."""
        table = self.run("bridge", "-s", "fdb", "show", "br", BRIDGE)
        return {"bridge-links.txt": self.run("ip", "-s", "-d", "link", "show"), "bridge-fdb.txt": table}


class BridgeBench(softirq.KernelBench):
    """One bench of a bridge, planned: ports, the bridge between them, its forwarding table."""

    live_type = BridgeLive

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, the bridge between them, its forwarding table. Raises InputError."""
        netns, table = self.places.dut_netns, entries(self.scenario)
        learning = "on" if dut_of(self.scenario, BridgeDut).learning else "off"
        off = [word for name in _OFF for word in (name, "0")]
        ip, bridge = ("ip", "-n", netns, "link"), ("bridge", "-n", netns)
        words: list[tuple[str, ...]] = [(*ip, "add", "name", BRIDGE, "type", "bridge", *off)]
        for port in self.scenario.ports:
            words.append((*ip, "set", "dev", port.name, "master", BRIDGE))
            words.append((*bridge, "link", "set", "dev", port.name, "learning", learning))
        words += ((*bridge, "fdb", "add", mac, "dev", port, "master", "static") for mac, port in table.items())
        words.append((*ip, "set", "dev", BRIDGE, "up"))
        return [*softirq.ports(self.scenario, self.places, pages), *map(Command, words)]


class BridgeDevice(softirq.KernelDevice):
    """The kind `bridge`: the kernel's own, which forwards by address in softirqs; it counts no frame itself."""

    bench_type = BridgeBench
    forwards = softirq.forwarding("bridge")

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Its programs and the kernel's module."""
        return self.probes(host, scenario.guest)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """Its programs, the kernel's module, receive packet steering."""
        yield from programs(host, {"ip": "iproute2", "bridge": "iproute2"})
        yield kernel_module(host, "bridge", "use another dut.kind", guest)
        yield softirq.steering(host, guest)


_LEARNING = Key("learning", kinds.boolean(), "Whether the bridge looks up and learns the source of every frame.", False)
_KEYS = Keys(dut=(softirq.CPUS, _LEARNING), cabled=lambda _: True)
_STARTER = Starter(rank=30, kind="bridge", words="the kernel's bridge", title="The kernel's bridge",
    why="every kernel with the module has it", dut='kind = "bridge"\ncpus = {cpus}')  # fmt: skip
DEVICE = BridgeDevice("bridge", "the kernel's bridge", Types(BridgeDut), _KEYS, starters=(_STARTER,))
