"""A balancer in XDP between two veth ports: the kernel runs a small program for each frame that comes to the clients'
port, before its stack sees the frame.

`pinchpoint-engine balance-xdp` loads the program and holds it there. A segment to the virtual server gets the Ethernet
address of the backend to which a table of Maglev's hash leads, and leaves by the servers' port; backends answer the
client themselves. It has no state: no table can be full, and a flush has nothing to forget. The kernel answers those
who ask for the service's address.

Or the program is one of the user's, in an object file, that `ip link` attaches, and entries of its maps are set by
bpftool. What it counts is its own affair. Sources: Eisenbud et al., Maglev, NSDI 2016; bpf-helpers(7), ip-link(8),
bpftool-map(8).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.requirements import Probe, command
from pinchpoint.bench.resource import AnyResource, Command, Relay
from pinchpoint.dut import addresses, attach, checks, softirq
from pinchpoint.dut.device import Bench, Keys, Pages, RawScenario, Read, Types, dut_of, programs
from pinchpoint.dut.services import Services, served
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.keys.reader import Values
from pinchpoint.model.errors import DutError
from pinchpoint.model.hops import HopGraph, Place
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import DIRECT_MAC, Guest, Mode, Port, Scenario, Scheduler
from pinchpoint.observe.relay import parse_account
from pinchpoint.observe.snapshot import Collector, Snapshot

PROCESS: Final = "xdp"
COMMAND: Final = "balance-xdp"  # of the engine
OWN_MAC: Final = "02:00:00:00:0a:01"  # from which frames leave to the backends
_MOST_ENTRIES: Final = 4096
_Octet = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-f]{2}$")]


class Attach(StrEnum):
    """Where the kernel runs a program."""

    GENERIC = "generic"  # in the stack, behind the driver
    NATIVE = "native"  # in the driver


_WORDS: Final = {Attach.GENERIC: "xdpgeneric", Attach.NATIVE: "xdpdrv"}  # of ip-link(8)


_INDEX: Final = """
index=$(ip -o link show dev "$0" | cut -d: -f1) || exit
bytes=$(printf %08x "$index" | sed 's/\\(..\\)\\(..\\)\\(..\\)\\(..\\)/\\4 \\3 \\2 \\1/')
exec bpftool map update name "$1" key hex $2 value hex $bytes
"""
"""Sets an entry to the index of an interface, in little-endian order. Arguments: interface, map, key."""


@dataclass(frozen=True)
class Entry:
    """An entry of a map; bytes in hexadecimal digits."""

    name: str  # of the map
    key: str
    value: str | None = None
    port: str | None = None  # whose interface index is the value

    @property
    def argv(self) -> tuple[str, ...]:
        """What sets it, in the namespace of the ports: the kernel looks there for an interface."""
        key = _octets(self.key)
        if self.port is None:
            update = ("bpftool", "map", "update", "name", self.name, "key", "hex")
            return (*update, *key.split(), "value", "hex", *_octets(self.value or "").split())
        return ("sh", "-c", _INDEX, self.port, self.name, key)


def _octets(text: str) -> str:
    """Hexadecimal digits by twos."""
    return " ".join(text[at : at + 2] for at in range(0, len(text), 2))


@dataclass(frozen=True)
class XdpDut(softirq.KernelDut):
    """A program at a port, and the CPUs on which the kernel runs it."""

    cpus: tuple[int, ...]
    object: str | None = None  # None: the engine's own program
    section: str = "xdp"
    attach: str = Attach.GENERIC.value
    counter: str | None = None  # the map of `object` that counts what it sends on; None: none does
    entries: tuple[Entry, ...] = ()
    kind: str = "xdp"


class Account(msgspec.Struct, frozen=True, tag=COMMAND):
    """What the engine prints of the program."""

    balanced: int  # segments that were sent to a backend


class Balanced(Collector):
    """What the program counts."""

    name = "xdp"

    def __init__(self, host: Host, process: Relay, port: str) -> None:
        """`port`: at which it is."""
        self._host, self._process, self._port = host, process, port

    def read(self, at_s: float) -> Snapshot:
        """`xdp/port/NAME/balanced`: segments of the service that came to the port and were sent to a backend."""
        told = parse_account(ask_relay(self._process, self._host), Account, "XDP balancer")
        return Snapshot(at_s, {f"xdp/port/{self._port}/balanced": told.balanced})


class Counted(Collector):
    """What a program of the user's counts in a map."""

    name = "xdp"

    def __init__(self, host: Host, map_name: str, port: str) -> None:
        """`port`: at which the program is."""
        self._host, self._map, self._port = host, map_name, port

    def read(self, at_s: float) -> Snapshot:
        """`xdp/port/NAME/balanced`: the sum of the map's numbers. Raises DutError where it has none."""
        try:
            balanced = summed(self._host.run(("bpftool", "-j", "map", "dump", "name", self._map)))
        except CommandFailed as error:
            raise DutError(f"the map {self._map} cannot be read: {error.output}", "dut.counter names it") from error
        return Snapshot(at_s, {f"xdp/port/{self._port}/balanced": balanced})


def summed(text: str) -> int:
    """The sum of the values of a map as `bpftool -j map dump` prints it, over all CPUs. Raises DutError."""
    try:
        entries = msgspec.json.decode(text, type=list[_Dumped])
    except msgspec.DecodeError as error:
        raise DutError(
            f"bpftool prints {text[:100]!r}: {error}", "dut.counter: expected an array of numbers"
        ) from error
    values = [value for entry in entries for value in (entry.value, *(cpu.value for cpu in entry.values)) if value]
    return sum(int.from_bytes(bytes(int(octet, 16) for octet in value), "little") for value in values)


class _OnCpu(msgspec.Struct, frozen=True):
    value: tuple[_Octet, ...]


class _Dumped(msgspec.Struct, frozen=True):
    value: tuple[_Octet, ...] = ()
    values: tuple[_OnCpu, ...] = ()  # of a map that has one for each CPU


class Stateless:
    """A balancer that remembers no connection."""

    def limits(self) -> tuple[Limit, ...]:
        """The backlog of its CPUs, and what stands before its ports."""
        backlog = Limit(Resource.SOFTIRQ, None, None, "netdev_max_backlog", refused=("host/link/*/rx_dropped",))
        return backlog, softirq.QDISC

    def flush(self) -> None:
        """There is nothing to forget."""

    def tracked(self) -> int:
        """No connection."""
        return 0


class XdpLive(softirq.KernelLive):
    """A program that is attached."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._process = process(bench, ())

    def own(self) -> list[Collector]:
        """The counter of the program."""
        dut, port = dut_of(self._scenario, XdpDut), served(self._scenario).client_port
        if dut.object is None:
            return [Balanced(self.places.machine, self._process, port)]
        return [Counted(self.places.machine, dut.counter, port)] if dut.counter else []

    def unchanging(self) -> Mapping[str, str]:
        """Which program is attached, and where."""
        port = served(self._scenario).client_port
        (link,) = json.loads(self.run("ip", "-j", "-d", "link", "show", "dev", port))
        attached = link.get("xdp") or {}
        program = (attached.get("prog") or {}).get("id")
        return {f"XDP program of {port}": f"{program}, mode {attached.get('mode')}" if program else "none"}

    def balancer(self) -> Stateless:
        """It, without any state."""
        return Stateless()


def process(bench: Bench, engine: Sequence[str]) -> Relay:
    """What loads the program and counts."""
    service, places = served(bench.scenario), bench.places
    ends = ("--from", service.client_port, "--to", service.server_port, "--netns", places.dut_netns)
    macs = [word for number in range(len(service.backends)) for word in ("--backend", DIRECT_MAC.format(number))]
    argv = (*engine, COMMAND, *ends, "--service", service.end, "--own", OWN_MAC, *macs)
    pairs = [(service.client_port, service.server_port)]
    return attach.engine_process(places, PROCESS, argv, pairs, bench.scenario.dut.cpus[0], awaited=True)


class XdpBench(softirq.KernelBench):
    """One bench of a balancer in XDP, planned."""

    live_type = XdpLive

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, the service's address, the program."""
        return [
            *softirq.ports(self.scenario, self.places, pages),
            *self._receiving(),
            *addresses.ip_batch(self.places, "addresses.ip", addresses.batch(served(self.scenario))),
            *self._program(engine),
        ]

    def _receiving(self) -> Iterator[Command]:
        """The engine's ends take frames that a driver redirects, which they do where they have GRO (veth.c).

        It joins none of the engine's segments: no two of a connection follow on each other.
        """
        if dut_of(self.scenario, XdpDut).attach == Attach.NATIVE:
            for port in self.scenario.ports:
                yield Command(("ethtool", "-K", port.name, "gro", "on"), self.places.engine_netns)

    def _program(self, engine: Sequence[str]) -> list[AnyResource]:
        dut, netns = dut_of(self.scenario, XdpDut), self.places.dut_netns
        if dut.object is None:
            return [process(self, engine)]
        port, word = served(self.scenario).client_port, _WORDS[Attach(dut.attach)]
        link = ("ip", "-n", netns, "link", "set", "dev", port, word, "obj", dut.object, "sec", dut.section)
        return [Command(link), *(Command(entry.argv, netns) for entry in dut.entries)]


class XdpDevice(softirq.KernelDevice):
    """The kind `xdp`: a program of the engine's at a port, with direct return."""

    bench_type = XdpBench
    forwards = Place("XDP program", ("xdp/port/{port}/balanced",), softirq.SENT_OR_DROPPED)
    settles = (*softirq.SETTLES, "xdp/")

    def read(self, raw: RawScenario) -> Callable[[], Read]:
        """Its program, entries of maps, ports."""
        self.check(raw)

        def made() -> Read:
            entries = tuple(Entry(**entry.values) for entry in raw.arrays["map"])
            return Read(XdpDut(**raw.dut, entries=entries), tuple(Port(**port.values) for port in raw.ports))

        return made

    def check(self, raw: RawScenario) -> None:
        """Two ports; the engine's own program has no maps to be set, and one place."""
        super().check(raw)
        if not raw.dut.get("object"):
            for entry in raw.arrays["map"]:
                raw.problem(entry.at, "expected none without dut.object: the engine fills the maps of its own program")
            if raw.dut.get("counter"):
                raw.problem(("dut", "counter"), "expected none without dut.object: the engine's own program is counted")
            if raw.dut.get("attach") == Attach.NATIVE:
                raw.mismatch(("dut", "attach"), f'"{Attach.GENERIC}" without dut.object', Attach.NATIVE.value)
        names = [port.values.get("name") for port in raw.ports]
        for entry in raw.arrays["map"]:
            value, port = (entry.values.get(key) for key in ("value", "port"))
            if (value is None) == (port is None):
                raw.problem(entry.at, f"expected value or port, found {'neither' if port is None else 'both'}")
            elif port is not None and port not in names:
                raw.mismatch((*entry.at, "port"), f"the name of a [[port]] ({', '.join(map(str, names))})", port)
        checks.two_ports(raw)

    def has_engine(self, scenario: Scenario) -> bool:
        """It loads its own program."""
        return dut_of(scenario, XdpDut).object is None

    def why_no_guest(self, dut: Values) -> str:
        """The engine, which loads it, runs on this machine."""
        return "the engine loads its program into this machine's kernel"

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Its programs, and receive packet steering; the object file, and what sets entries of its maps."""
        yield from self.probes(host)
        dut = dut_of(scenario, XdpDut)
        if dut.object is not None:
            there = host.exists(dut.object)
            detail = dut.object if there else f"{dut.object}: missing"
            yield Probe("dut.object", there, detail, "give the path of an object file on the bench's host")
        if dut.entries or dut.counter:
            yield command(host, "bpftool", "bpftool")

    def graph(self, scenario: Scenario) -> HopGraph:
        """From port to port, by the program's counter; without one it is not known what it sends on."""
        dut = dut_of(scenario, XdpDut)
        if dut.object is None or dut.counter:
            return super().graph(scenario)
        places = softirq.RECEIVE, softirq.forwarding("XDP program"), softirq.QUEUES, softirq.SEND
        return HopGraph(softirq.REFUSED, places, self.settles)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """The same for every scenario."""
        yield from programs(host, {"ip": "iproute2", "taskset": "util-linux", "ethtool": "ethtool"})
        yield softirq.steering(host)


_HEX = kinds.matching("(?:[0-9A-Fa-f]{2}){1,256}", 'bytes in hexadecimal digits, like "0a000064"')
_MAP = kinds.matching("[A-Za-z0-9_.]{1,15}", "the name of a map")
_KEYS = Keys(
    dut=(
        softirq.CPUS,
        Key("object", kinds.absolute_path(),
            "An object file with an XDP program of your own, attached to the clients' port instead of the "
            "engine's. Taken from the command line only (`--set dut.object=/path/to/lb.o`): a file must not choose "
            "what runs in the kernel.", Unset("the engine's own"), command_line_only=True),
        Key("section", kinds.matching("[A-Za-z0-9_./-]{1,64}", "the name of a section"), "Its section.", "xdp"),
        Key("attach", kinds.word(*Attach),
            '"generic": in the stack, behind the driver; "native": in the driver, for `dut.object`.',
            Attach.GENERIC.value),
        Key("counter", _MAP,
            "The map of `dut.object` in which it counts the frames that it sends on: an array of numbers of 8 bytes, "
            "which are added up, also of all CPUs.", Unset("what it sends on is not known")),
    ),
    arrays=(
        Table("map",
            "An entry of a map of `dut.object`, set once the program is attached (bpftool-map(8)).", (
            Key("name", _MAP,
                "The map, by a name that no other map of the machine has: bpftool looks among all of them."),
            Key("key", _HEX, "Bytes of the key."),
            Key("value", _HEX, "Bytes of the value.", Unset("`port` says it")),
            Key("port", kinds.port_name(),
                "The [[port]] whose interface index is the value, 4 bytes: of a map of devices, to which a program "
                "redirects frames.", Unset("`value` says it")),
        ), at_most=_MOST_ENTRIES),
    ),
    services=Services((Scheduler.HASH,), (Mode.DIRECT,), is_required=True),
)  # fmt: skip
DEVICE = XdpDevice("xdp", "a balancer in XDP: Maglev's hash, direct return", Types(XdpDut), _KEYS)
