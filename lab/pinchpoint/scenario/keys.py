"""Every key of a scenario file, once: parsing, errors and docs/scenario.md are driven by this table."""

from dataclasses import dataclass
from functools import cache

from pinchpoint.dut import registry
from pinchpoint.dut.registry import device
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.source import Source
from pinchpoint.measure import registry as measures
from pinchpoint.model.scenario import Scenario
from pinchpoint.scenario import bench_keys, sweep_keys
from pinchpoint.scenario.bench_keys import ENGINE, GUEST, MACHINE
from pinchpoint.scenario.measure_keys import SEARCH, STREAM, VALIDITY
from pinchpoint.scenario.service_keys import BACKEND, ESTABLISHED, SERVICE

TOP = Table(
    "",
    "",
    (
        Key("title", kinds.text(), "What the scenario shows, in a few words.", Computed("the file's name")),
        Key("measure", kinds.word(*(measure.name for measure in measures.measures())),
            "; ".join(f'"{measure.name}": {measure.finds}' for measure in measures.measures()) + ".", measures.DEFAULT),
        Key("numa", kinds.word("any", "same", "different"),
            'Where the two ends of the traffic run: "any": on the CPUs named here; "same": both on one NUMA node; '
            "\"different\": on two. Between hosts, the switch and the relay are on the server's node.", "any"),
        Key("runs_on", kinds.machine_name(),
            "The host on which the bench stands: the device and, unless `engine.runs_on` says otherwise, the engine. "
            "CPUs, nodes and programs are that host's.", Unset("this machine")),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Tables:
    """The tables of scenario files for a kind of device."""

    single: tuple[Table, ...]
    arrays: tuple[Table, ...]
    every: tuple[Table, ...]  # in the order of docs/scenario.md


@cache
def of_kind(kind: str) -> Tables:
    """Those of a kind that there is. Raises InputError where its device cannot be used."""
    declared = device(kind).keys
    dut, own = bench_keys.dut(kind), declared.arrays
    of_measures = {table.name: table for table in (measure.table(declared) for measure in measures.measures())}
    own_tables = (SEARCH, VALIDITY, *of_measures.values())
    ends = (bench_keys.port(kind), bench_keys.host(kind))
    every = (
        TOP,
        dut,
        *own,
        *ends,
        SERVICE,
        BACKEND,
        ESTABLISHED,
        MACHINE,
        GUEST,
        ENGINE,
        STREAM,
        *own_tables,
        *sweep_keys.TABLES,
    )
    return Tables((TOP, dut, SERVICE, ESTABLISHED, GUEST, ENGINE, *own_tables), (*own, *ends, BACKEND, STREAM), every)


def kind_of(source: Source) -> str:
    """The kind of device that a file names; the default one where it names none, or one that there is not."""
    dut = source.data.get("dut")
    kind = dut.get("kind") if isinstance(dut, dict) else None
    return kind if isinstance(kind, str) and kind in registry.kinds() else registry.default()


@cache
def known() -> tuple[Table, ...]:
    """The tables of all kinds: what a study, which does not know the kind of each file, may name."""
    return tuple(table for kind in registry.kinds() for table in of_kind(kind).every)


@cache
def foreign(kind: str) -> dict[str, str]:
    """Keys and tables that devices of other kinds have and this one has not, each with what to say of it."""
    mine = _names(kind)
    foreign_keys: dict[str, list[str]] = {}
    for other in registry.kinds():
        for name in _names(other) - mine:
            foreign_keys.setdefault(name, []).append(f'"{other}"')
    return {
        name: f'it belongs to a device of kind {" or ".join(of)}, this one is "{kind}"'
        for name, of in foreign_keys.items()
    }


def _names(kind: str) -> set[str]:
    """Of every table and of every key, dotted."""
    tables = of_kind(kind).every
    return {name for table in tables for name in (table.name, *(f"{table.name}.{key.name}" for key in table.keys))}


@cache
def by_hand() -> frozenset[str]:
    """Keys that only the command line may set, such as `dut.PROGRAM`."""
    return frozenset(f"dut.{key.name}" for kind in registry.kinds() for key in _by_hand(kind))


def chosen_by_hand(scenario: Scenario) -> list[tuple[str, str]]:
    """Those of a scenario that are set, each with its value."""
    values = ((key, getattr(scenario.dut, key.model_field)) for key in _by_hand(scenario.dut.kind))
    return [(f"dut.{key.name}", str(value)) for key, value in values if value is not None]


def _by_hand(kind: str) -> list[Key]:
    return [key for key in device(kind).keys.dut if key.command_line_only]


def program_key(scenario: Scenario) -> tuple[str, str] | None:
    """The key that chooses the device's program, and how its file is called; None where there is no such key."""
    keys = (key for key in _by_hand(scenario.dut.kind) if key.program)
    return next(((f"dut.{key.name}", key.program) for key in keys), None)
