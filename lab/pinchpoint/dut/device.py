"""What a kind of device declares, and all that the rest of the lab knows of it.

A kind is a package in this folder, or one that an installed distribution names as an entry point of the group
`pinchpoint.devices`; its attribute `DEVICE` is a `Device`. A device goes through three states, each a base class:

`Device`  what the kind is: its keys, what it needs, how its counters are read. Pure but for the probes of `needs`
`Bench`   one bench of it, planned: names, places and resources. Nothing has been done yet
`Live`    the same once it stands: its counters, its settings as read back, what may happen to it

A kind inherits from each of them and declares what is its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeVar, cast

from msgspec import UNSET, UnsetType

from pinchpoint.bench.requirements import Probe, command
from pinchpoint.bench.resource import AnyResource, Daemon, Relay
from pinchpoint.bulk.making import VETH_METHODS, Bulk
from pinchpoint.dut.places import Places
from pinchpoint.dut.services import Balancer, Rebalanced, Services
from pinchpoint.engine.protocol import BackendName
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.interface import Host as Machine
from pinchpoint.host.numa import Topology
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.kinds import Kind
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.model.causes import Experiment, Sign
from pinchpoint.model.errors import BenchError, InputError, PinchpointError
from pinchpoint.model.hops import HopGraph
from pinchpoint.model.measurement import Metric
from pinchpoint.model.offload import OffloadLimit
from pinchpoint.model.scenario import Batch, Change, Dut, Guest, Host, Measure, Port, Scenario
from pinchpoint.model.trial import ThreadFigure, ThreadLoad
from pinchpoint.observe.snapshot import Collector

ENGINE_MEMORY_MB = 256
"""Hugepage memory of the engine where a scenario does not say."""

Check = Callable[[], None]
Step = Callable[[Check], object]
Seen = Mapping[str, float]


def between(seen: Seen, begin: str, end: str) -> dict[str, float]:
    """The counters whose names begin and end so, by what stands between the two."""
    names = (name for name in seen if name.startswith(begin) and name.endswith(end))
    return {name.removeprefix(begin).removesuffix(end): seen[name] for name in names}


@dataclass(frozen=True)
class Items:
    """What can be made in bulk."""

    words: str  # a plural noun phrase
    methods: tuple[str, ...]  # by which they can be made
    shown_by: str  # whoever is asked whether all are there, with the verb: "the datapath showed"
    why_slower: Mapping[str, str] = field(default_factory=dict)  # method -> why time per item grows with their number


_BY_NAME = "because the kernel finds links by name in 256 buckets of a namespace, whatever their number"
_SHOWN_BY = "the kernel listed, at both ends,"
_BY_ANY = dict.fromkeys(VETH_METHODS, _BY_NAME)
VETHS: Final = {"veths": Items("pairs of linked interfaces", VETH_METHODS, _SHOWN_BY, _BY_ANY)}
"""What the kernel of any bench can make."""


@dataclass(frozen=True)
class Keys:
    """The scenario keys of a kind. Parsing, checks and docs/scenario.md come from them."""

    dut: tuple[Key, ...]  # of [dut], beside `kind`
    port: tuple[Key, ...] = ()  # of [[port]], beside those of every kind
    host: tuple[Key, ...] = ()  # of [[host]], likewise
    arrays: tuple[Table, ...] = ()  # arrays of tables of its own
    actions: Mapping[str, str] = field(default_factory=dict)  # what may happen to it: word -> what that is
    settings: Kind | None = None  # of the settings that may change while it runs; None: none may
    items: Mapping[str, Items] = field(default_factory=dict)  # what can be made of it in bulk, by its word
    services: Services | None = None  # None: it balances nothing
    cabled: Callable[[Values], bool] | None = None  # of [dut]: whether ports may be interfaces that exist; None: never


def made_by(keys: Keys) -> Mapping[str, Items]:
    """All that can be made in bulk on a bench of a device with these keys, by its word."""
    return {**keys.items, **VETHS}


@dataclass(frozen=True)
class Types:
    """The dataclasses in which a stored run has a kind's device, ports and hosts."""

    dut: type
    port: type[Port] = Port
    host: type[Host] = Host


@dataclass(frozen=True)
class RawScenario:
    """What a scenario file gives for a device, each value already of its key's kind."""

    source: Source  # notes what is wrong with it
    measure: type[Measure] | None  # None: the file's is wrong
    dut: Values
    ports: Sequence[Element]
    hosts: Sequence[Element]
    arrays: Mapping[str, Sequence[Element]]  # the kind's own, by the name of the table
    tables: Mapping[str, Values]  # of the measures

    def problem(self, at: Path, problem: str) -> None:
        """Note a problem of the key at a place."""
        self.source.problem(at, problem)

    def mismatch(self, at: Path, expected: str, value: object) -> None:
        """Note that the key at a place has another value than expected."""
        self.source.mismatch(at, expected, value)


@dataclass(frozen=True)
class Read:
    """The device, its ports and its hosts as the model has them."""

    dut: Dut
    ports: tuple[Port, ...]
    hosts: tuple[Host, ...] = ()


_Dut = TypeVar("_Dut", bound=Dut)


def dut_of(scenario: Scenario, kind: type[_Dut]) -> _Dut:
    """What a scenario says of its device, which is of this kind."""
    dut: object = scenario.dut
    assert isinstance(dut, kind)
    return dut


@dataclass(frozen=True)
class Attachment:
    """How the engine opens its end of one port."""

    backend: BackendName
    device: str  # an interface, a DPDK device or a PCI address
    netns: str | None = None
    ring_behind: int | UnsetType = UNSET  # frames that the device's own smallest ring takes, where that is known

    @property
    def word(self) -> str:
        """As the engine's command line has it."""
        return f"{self.backend}:{self.device}" + (f"@{self.netns}" if self.netns else "")


@dataclass(frozen=True)
class Pages:
    """The pool of 2 MiB pages as a bench finds it."""

    total: int
    free: int


def _nothing(check: Check) -> None:
    """A step of an action that needs none."""


@dataclass(frozen=True)
class Action:
    """Something that happens to a device, in steps; what each is called with raises when it shall stop."""

    act: Step = _nothing  # lets it happen; returns when its command has returned and it shows
    prepare: Step = _nothing  # makes what must be there before, without traffic
    restore: Step = _nothing  # undoes it, the traffic having ended
    ends_processes: bool = False  # of the bench


class Live:
    """A device that stands."""

    words: str  # that name one in errors: "a wire"

    def collectors(self) -> list[Collector]:
        """All of its counters; the last one is nearest to the traffic."""
        raise NotImplementedError

    def witnesses(self) -> list[Collector]:
        """Readers of what its threads did, cheap enough to run while frames are sent; none: it has no threads."""
        return []

    def settings(self) -> Mapping[str, str]:
        """Every setting that the bench applied, as read back. Raises BenchError where it is not in force."""
        return {}

    def ready(self) -> Mapping[str, str]:
        """Facts, versions among them, once the engine has opened its ports. Raises BenchError if it is not ready."""
        return self.versions()

    def versions(self) -> Mapping[str, str]:
        """What the running device says of itself."""
        return {}

    def unchanging(self) -> Mapping[str, str]:
        """What is the same as long as nobody interferes, beside its settings: rules without their counts, processes.

        By what they are, as read back now. Raises BenchError where they cannot be read, DutError if it has died.
        """
        return {}

    def dumps(self) -> Mapping[str, str]:
        """Files to keep beside a result: name -> text."""
        return {}

    def log(self) -> tuple[str, str] | None:
        """The name and the text of its log, which ends with the bench; None: it has none."""
        return None

    def action(self, change: Change, resources: Sequence[AnyResource]) -> Action:
        """What the scenario wants to happen to it. Raises InputError where nothing can."""
        raise InputError(f"nothing can happen to {self.words}: {change.action}")

    def items(self, batch: Batch, probed: bool) -> AbstractContextManager[Bulk]:
        """What the scenario wants to be made in bulk; `probed`: each item forwards frames once it is there.

        Raises InputError where it has nothing of the kind.
        """
        raise InputError(f"{self.words} has no {batch.what}")

    def balancer(self) -> Balancer | None:
        """Where it balances a [service]: its limits, its table of connections. By default itself, if it has them."""
        return self if isinstance(self, Balancer) else None

    def rebalanced(self) -> Rebalanced | None:
        """Its balancer, if that can be changed while it runs."""
        balancer = self.balancer()
        return balancer if isinstance(balancer, Rebalanced) else None

    def close(self) -> None:
        """Close every connection to it."""


def in_force(name: str, wanted: object, actual: object) -> str:
    """A setting as it was read back. Raises BenchError where another one was set."""
    if actual != wanted:
        raise BenchError(f"{name}: {wanted} was set, {actual} is in force")
    return str(actual)


@dataclass(frozen=True)
class Bench:
    """One bench of a device, planned."""

    scenario: Scenario
    places: Places  # where everything of it is found

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Everything to build, in order of dependency; `engine` is the command that starts one."""
        raise NotImplementedError

    def attachment(self, number: int, port: Port) -> Attachment:
        """How the engine opens the far end of its port `number`. Raises InputError."""
        raise NotImplementedError

    def facts(self) -> Mapping[str, str]:
        """Of the program that will run."""
        return {}

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """A command's failure in terms of the scenario; None if it is of another kind."""
        return None

    def ends_with_it(self, resources: Sequence[AnyResource]) -> list[AnyResource]:
        """Those of its resources that must be made again once the device has ended: its daemons and relays."""
        return [resource for resource in resources if isinstance(resource, Daemon | Relay)]

    def open(self) -> Live:
        """The device, now that it stands."""
        raise NotImplementedError


@dataclass(frozen=True)
class Freezing:
    """Whether a device leaves its cores when its process is stopped (SIGSTOP), as a duet needs."""

    daemon: str = ""  # the name of its Daemon among the resources
    why_not: str = ""  # why it cannot be frozen


@dataclass(frozen=True)
class Starter:
    """A plain scenario of a kind for `pinchpoint init`, between the ports left and right."""

    rank: int  # lower ones are preferred
    kind: str
    words: str  # what it is, a noun phrase
    why: str  # why one would begin with it, after a colon
    title: str  # of the scenario
    dut: str  # the keys of [dut], TOML; `{cpus}` stands for a list of one CPU
    polls: bool = False  # whether its CPU is busy without traffic
    ring: int = 0  # descriptors of each port; 0: it has none to choose


@dataclass(frozen=True)
class Flavour:
    """A plain flavour of a kind, with one of its datapaths for instance, and what a machine must have for it."""

    words: str  # what it is, a noun phrase
    probes: tuple[Probe, ...]
    backend: str = "af_packet"  # of the engine's ends
    starter: Starter | None = None
    fits_guest: bool = False  # whether it can be in one


@dataclass(frozen=True)
class Device:
    """One kind of device under test."""

    kind: str
    title: str  # a noun phrase for people
    types: Types
    keys: Keys
    figures: Mapping[str, ThreadFigure] = field(default_factory=dict)  # of a thread: by their key in its detail
    is_default: bool = False  # of one kind: it is meant where a scenario names none
    starters: tuple[Starter, ...] = ()  # plain scenarios of it to begin with

    bench_type: ClassVar[type[Bench]]
    backend: ClassVar[str] = "af_packet"  # of the engine's ends, in its plainest scenario
    largest_frame: ClassVar[int] = 9022  # bytes that it takes, with the check sequence; of most an MTU of 9,004
    rule_syntax: ClassVar[str] = ""  # where its rules are described

    def read(self, raw: RawScenario) -> Callable[[], Read]:
        """Check what the file gives, noting its problems; returns what makes the device if there are none."""
        self.check(raw)
        return lambda: Read(self.types.dut(**raw.dut), tuple(self.types.port(**port.values) for port in raw.ports))

    def check(self, raw: RawScenario) -> None:
        """Whether what the file gives fits together; problems are noted."""
        raise NotImplementedError

    def needs(self, scenario: Scenario, host: Machine) -> Iterator[Probe]:
        """What the machine of its bench must have for it, each with the command that provides it."""
        raise NotImplementedError

    def refused(self, scenarios: Sequence[Scenario], host: Machine, folder: str) -> Iterator[str]:
        """What a program of this machine refuses of these, with its place in the file; `folder` takes files."""
        return iter(())

    def probes(self, host: Machine, guest: Guest | None = None) -> Iterator[Probe]:
        """What the plainest scenario of this kind needs, for `doctor` and `init`; in a guest where `guest` is given."""
        return iter(())

    def flavours(self, host: Machine, guest: Guest | None = None) -> Iterator[Flavour]:
        """Its plain flavours; one, unless the kind says more."""
        starter, probes = next(iter(self.starters), None), tuple(self.probes(host, guest))
        words = starter.words if starter else self.title
        yield Flavour(words, probes, self.backend, starter, not self.why_no_guest({}))

    def pages(self, scenario: Scenario) -> int:
        """2 MiB pages that its bench takes, engine included."""
        return 0

    def standing_s(self, scenario: Scenario) -> float:
        """Seconds that building and removing its bench takes, about."""
        return 3.0

    def contents(self, scenario: Scenario) -> Mapping[str, int]:
        """What it is filled with, by name, e.g. its rules: what its datapath may or may not notice."""
        return {}

    def relayed(self, scenario: Scenario) -> tuple[Host, ...]:
        """Hosts that reach it by way of a relay on the engine's first CPU."""
        return ()

    def has_engine(self, scenario: Scenario) -> bool:
        """Whether the engine's program is a part of its bench: as a relay, or as the device itself."""
        return bool(self.relayed(scenario)) or scenario.dut.polls

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """The scenario with the device on other CPUs."""
        return replace(scenario, dut=replace(cast(Any, scenario.dut), cpus=cpus))

    def on_nodes(self, scenario: Scenario, topology: Topology) -> Scenario:
        """The scenario with the device's memory on the NUMA nodes of its CPUs, where the kernel places none there."""
        return scenario

    def bench(self, scenario: Scenario, places: Places) -> Bench:
        """A bench of this kind for the scenario, planned; nothing is built."""
        return self.bench_type(scenario, places)

    def why_no_guest(self, dut: Values) -> str:
        """Where it cannot run in a guest, which has no device but its kernel: `dut.KEY is VALUE`; else empty."""
        return f'dut.kind is "{self.kind}"'

    def is_in_kernel(self, scenario: Scenario) -> bool:
        """Whether the kernel forwards, as for every device that can run in a guest."""
        return not self.why_no_guest(vars(scenario.dut))

    def freezing(self, scenario: Scenario) -> Freezing:
        """How it can be frozen while another device is measured."""
        return Freezing(why_not=f"{self.title} has no process that could be frozen")

    def graph(self, scenario: Scenario) -> HopGraph:
        """Where frames are counted on their way through it."""
        raise NotImplementedError

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """How loaded each of its forwarding threads was, from counter differences over `traffic_s` seconds."""
        return ()

    def metrics(self, seen: Seen) -> Iterator[Metric]:
        """What its own counters say of one trial, beside the threads' load."""
        return iter(())

    def handled(self, seen: Seen) -> int | None:
        """Frames that it handled, where no thread of it counts them; None: not known."""
        return None

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """What its own counters say of one trial's causes, beside drops and the threads' load."""
        return {}

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        """What its user can set against a cause, by its name in docs/causes.md; nothing that `seen` says is in force.

        Imperatives; a key of the scenario is written with its table, as `dut.KEY`.
        """
        return self.keys.services.advice(cause) if self.keys.services else ()

    def commands(self, cause: str, seen: Seen) -> Sequence[str]:
        """The same of one that no scenario built: whole commands, at the ports that `seen` names."""
        return ()

    def offload_limits(self, seen: Seen) -> Mapping[OffloadLimit, float]:
        """The share of the frames that each known limit of its offload keeps in software."""
        return {}

    def experiments(self, scenario: Scenario) -> Mapping[Experiment, Scenario]:
        """The counter-experiments that only it can make, each as the scenario changed in one respect."""
        return {}


def programs(host: Machine, packages: Mapping[str, str], dnf: str = "") -> Iterator[Probe]:
    """Whether each program is there; `packages`: program -> the Debian package that provides it; `dnf`: Fedora's."""
    return (command(host, name, package, dnf) for name, package in packages.items())
