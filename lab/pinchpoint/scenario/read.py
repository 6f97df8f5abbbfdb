"""From a scenario file to the model: every key read by its kind, then the checks across keys."""

import operator
import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path as FilePath
from typing import Final

from pinchpoint.dut import registry, vm, vm_ends
from pinchpoint.dut.checks import check_machines, sites
from pinchpoint.dut.device import RawScenario, Read
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Table
from pinchpoint.keys.reader import Element, Reader, Values, lookup
from pinchpoint.keys.source import Source, read_text, show
from pinchpoint.measure import registry as measures
from pinchpoint.measure.kind import Arrays, needed
from pinchpoint.model.scenario import Engine, Guest, Measure, Point, Scenario, Search, Stream, Validity
from pinchpoint.model.site import LAB
from pinchpoint.scenario import keys, service_keys, stream_keys
from pinchpoint.scenario.keys import MACHINE, SEARCH
from pinchpoint.scenario.service_ends import ByTable

_UNREAD_SEARCH: Final = {key.model_field: key.kind.read(key.default) for key in SEARCH.keys}
"""The values of [search] where the measure does not read it."""


def load(path: FilePath) -> Scenario:
    """Read a scenario file that makes one scenario. Raises InputError listing every problem, one a line."""
    return parse(read_text(path), str(path))


def parse(text: str, path: str) -> Scenario:
    """Read a scenario's text; `path` is its name in errors. Raises InputError listing every problem."""
    source = Source(text, path)
    if "sweep" in source.data:
        source.problem(("sweep",), "expected a file without [sweep], since this command takes one scenario")
        raise source.error()
    scenario = scenario_of(source)
    if scenario is None:
        raise source.error()
    return scenario


def scenario_of(source: Source) -> Scenario | None:
    """The scenario that a file's data make, its sweep left aside; None if problems were noted in `source`."""
    kind, named = keys.kind_of(source), lookup(source.data, ("dut", "kind"))
    if isinstance(named, str) and named != kind:  # which other keys are right depends on it
        device_kind = kinds.word(*registry.kinds())
        source.mismatch(("dut", "kind"), device_kind.expected, named, device_kind.words)
        return None
    known, device = keys.of_kind(kind), registry.device(kind)
    reader = Reader(source, known.every, keys.foreign(kind))
    reader.refuse_unknown_keys()
    word = reader.table(keys.TOP).get("measure")
    measure = measures.find(word) if word else None
    tables = {table.name: reader.table(table) if _is_read(source, table, word) else {} for table in known.single}
    arrays = {table.name: reader.array(table) if _is_read(source, table, word) else [] for table in known.arrays}
    if tables["service"] and word in service_keys.THROUGH and not tables["established"]:
        tables["established"] = reader.table(service_keys.ESTABLISHED)
    dut = tables["dut"]
    _check_name(source, source.path)
    if not tables["service"]:  # its load is divided among any number of CPUs
        _check_engine(source, tables["engine"], arrays["port"])
    _check_clock(source, tables["engine"], tables["service"], arrays["port"])
    _check_search(source, tables["search"])
    service_keys.check(source, device, tables, arrays)
    if not source.problems:
        arrays["stream"] += service_keys.streams(tables)
    backend = tables["engine"].get("backend")
    stream_keys.check(source, arrays["stream"], arrays["port"], device.largest_frame, backend)
    _check_hosts(source, arrays["host"])
    own = measure.table(device.keys).name if measure else ""
    if measure:
        followed = ("stream", "host") if tables["service"] else ()  # from the service
        needed(source, {key: n for key, n in measure.needs.items() if key not in followed}, arrays)
        stream_keys.check_paced(source, arrays["stream"], measure)
        ends = {**arrays, "host": arrays["port"]} if tables["service"] else arrays
        measure.check(source, tables[own], ends, device.keys)
        service_keys.check_pool(source, measure, tables[own], tables["service"], arrays["backend"])
    raw = RawScenario(source, measure.made if measure else None, dut, arrays["port"], arrays["host"], arrays, tables)
    made = device.read(raw)
    vm.check(raw, device)
    vm_ends.check(raw, device)
    machines = _machines(reader, tables, arrays)
    over_engines, by_any = bool(measure and measure.over_engines), bool(measure and measure.by_any_engine)
    for element in arrays["stream"] if machines else ():
        if element.values.get("pcap") is not None:
            source.problem((*element.at, "pcap"), "expected none where a machine besides this one takes part")
    check_machines(raw, machines, device, over_engines=over_engines, by_any_engine=by_any)
    if source.problems:
        return None
    assert measure is not None, "a wrong one is a problem"
    scenario = _scenario(reader, measure.made(**tables[own]), tables, arrays, made())
    return replace(scenario, sites=sites(raw, machines))


def _machines(reader: Reader, tables: ByTable, arrays: Arrays) -> dict[str, Values]:
    """Other machines by their names. Beside [[host]], which has their table's name, each `runs_on` is one."""
    if not arrays["host"]:
        return reader.named(MACHINE)
    ends = (name for host in arrays["host"] if (name := host.values.get("runs_on")) != LAB)
    named = filter(None, dict.fromkeys((tables[""].get("runs_on"), *ends)))
    return {name: reader.unwritten(MACHINE, name) for name in named}


def _is_read(source: Source, table: Table, measure: str | None) -> bool:
    """Whether the measure reads the table; one that the file has for other measures is noted."""
    is_there = lookup(source.data, (table.name,)) is not None
    if table.is_read_by(measure, is_there):
        return True
    if measure and is_there:
        readers = " or ".join(f'"{reader}"' for reader in table.readers)
        source.problem((table.name,), f'expected measure = {readers} where there is {table.header}, found "{measure}"')
    return False


def _scenario(reader: Reader, measure: Measure, tables: ByTable, arrays: Arrays, read: Read) -> Scenario:
    path, top = reader.source.path, tables[""]
    name = FilePath(path).stem or "scenario"
    return Scenario(
        name=name,
        title=top.get("title", name),
        path=path,
        measure=measure,
        numa=top["numa"],
        dut=read.dut,
        ports=read.ports,
        hosts=read.hosts,
        engine=Engine(**tables["engine"]),
        guest=Guest(**tables["guest"]) if tables["guest"] else None,
        streams=tuple(Stream(**stream.values) for stream in arrays["stream"]),
        search=Search(**(tables["search"] or _UNREAD_SEARCH)),
        validity=Validity(**tables["validity"]),
        point=Point(name, {}),
        service=service_keys.service_of(tables, arrays),
        established=service_keys.established_of(tables),
        defaulted=frozenset(reader.defaulted),
    )


# A scenario's name becomes part of trial ids and file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _check_name(source: Source, path: str) -> None:
    """The file's name can name trials and files."""
    name = FilePath(path).stem
    if not _NAME.fullmatch(name):
        expected = "expected a file name of up to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        source.problem((), f"{expected}: it becomes the name of trials and files; found {show(name)}")


def _check_engine(source: Source, engine: Values, ports: Sequence[Element]) -> None:
    """A CPU without a queue would have nothing to do. One is not too many: too few ports are reported elsewhere.

    Queue q of port k belongs to CPU k + q (dut/setup.py).
    """
    cpus, most = engine.get("cpus", ()), max([1, *(k + port.values.get("queues", 1) for k, port in enumerate(ports))])
    if len(cpus) > most:
        numbers = ", ".join(str(cpu) for cpu in cpus)
        at_most = f"at most {most}, one CPU for each [[port]]{' or queue' if most > len(ports) else ''}"
        source.problem(("engine", "cpus"), f"expected {at_most}; found {len(cpus)} ({numbers})")


def _check_clock(source: Source, engine: Values, service: Values, ports: Sequence[Element]) -> None:
    """Whose clock times arrivals: with connections the engine's own, and a NIC's where every port is one."""
    place, clock = ("engine", "latency_clock"), engine.get("latency_clock", "engine")
    if clock != "engine" and service:
        source.mismatch(place, '"engine" where a [service] is loaded', clock)
    if clock != "nic":
        return
    if not all(port.values.get("engine_interface") for port in ports):
        source.mismatch(place, '"engine" or "kernel" where a port has no engine_interface', clock)
    if engine.get("clock_error_us") is None:
        told = "expected how far from the system's phc2sys may leave the NIC's clock, where latency_clock is \"nic\""
        source.problem(("engine", "clock_error_us"), f"{told}; found nothing")


_GOALS_IN_ORDER: Final = (
    ("max_load_fps", "more than", "min_load_fps", operator.gt),
    ("initial_trial_duration_s", "at most", "trial_duration_s", operator.le),
    ("duration_sum_s", "at least", "trial_duration_s", operator.ge),
)


def _check_search(source: Source, search: Values) -> None:
    """The goals of the search fit each other."""
    if 0 not in search.get("loss_ratios", (0,)):
        ratios = ", ".join(f"{ratio:g}" for ratio in search["loss_ratios"])
        source.problem(("search", "loss_ratios"), f"expected 0 (the NDR) among them, found {ratios}")
    for key, condition, other, holds in _GOALS_IN_ORDER:
        if {key, other} <= search.keys() and not holds(search[key], search[other]):
            values = f"{search[key]:g} and {search[other]:g}"
            source.problem(("search", key), f"expected {condition} search.{other}, found {values}")
    rough_s, decisive_s = search.get("initial_trial_duration_s"), search.get("duration_sum_s")
    if search.get("preceding_targets") == 0 and rough_s and decisive_s and rough_s < decisive_s:
        expected = "expected 1 or more where initial_trial_duration_s is below duration_sum_s, found 0"
        source.problem(("search", "preceding_targets"), expected)


def _check_hosts(source: Source, hosts: Sequence[Element]) -> None:
    """Hosts share one subnet, so that they reach each other, and no address."""
    seen, subnet = set[str](), None
    for host in hosts:
        address, at = host.values.get("address"), (*host.at, "address")
        if not address:
            continue
        interface = IPv4Interface(address)
        subnet = subnet or interface.network
        if interface.network != subnet:
            source.mismatch(at, f"an address in {subnet} as the first host has", address)
        if str(interface.ip) in seen:
            source.problem(at, f'expected a unique address, found "{address}" again')
        seen.add(str(interface.ip))
