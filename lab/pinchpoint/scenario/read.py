"""From a scenario file to the model: every key read by its kind, then the checks across keys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath

from pinchpoint.dut import multi_host, registry, remote_device, remote_endpoints, vm
from pinchpoint.dut.device import RawScenario, Read
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Table
from pinchpoint.keys.reader import Element, Reader, Values, lookup
from pinchpoint.keys.source import Source, read_text
from pinchpoint.measure import registry as measures
from pinchpoint.measure.kind import needed
from pinchpoint.model.scenario import (
    LAB,
    Engine,
    Guest,
    Measure,
    NumaPlacement,
    Point,
    Scenario,
    Search,
    SearchMethod,
    Stream,
    Validity,
)
from pinchpoint.scenario import checks, keys, service_keys
from pinchpoint.scenario.bench_keys import MACHINE
from pinchpoint.scenario.measure_keys import SEARCH


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
    tables = {table.name: _single(reader, table, word) for table in known.single}
    arrays = {table.name: _array(reader, table, word) for table in known.arrays}
    if tables["service"] and word in service_keys.THROUGH and not tables["established"]:
        tables["established"] = reader.table(service_keys.ESTABLISHED)
    dut = tables["dut"]
    checks.check_name(source, source.path)
    checks.check_engine(source, tables["engine"], arrays["port"])
    checks.check_search(source, tables["search"])
    service_keys.check(source, device, tables, arrays)
    if not source.problems:
        arrays["stream"] += service_keys.streams(tables)
    checks.check_streams(source, arrays["stream"], arrays["port"], device.largest_frame(dut))
    checks.check_hosts(source, arrays["host"])
    if measure:
        own_streams = not tables["service"]  # others follow from the service
        needed(source, {key: n for key, n in measure.needs.items() if own_streams or key != "stream"}, arrays)
        own = measure.table(device.keys).name
        measure.check(source, tables[own], arrays, device.keys)
        service_keys.check_pool(source, measure, tables, arrays, own)
    asked = measure.made if measure else None
    raw = RawScenario(asked, dut, arrays["port"], arrays["host"], arrays, tables)
    made = device.read(raw, source)
    vm.check(raw, source, device)
    machines = _machines(reader, tables, arrays)
    remote_device.check(raw, source, machines)
    remote_endpoints.check(raw, source, device)
    over_engines, by_any = bool(measure and measure.over_engines), bool(measure and measure.by_any_engine)
    multi_host.check(raw, source, machines, device, over_engines=over_engines, by_any_engine=by_any)
    if source.problems:
        return None
    assert measure is not None, "a wrong one is a problem"
    given_measure = tables[measure.table(device.keys).name]
    scenario = _scenario(
        source.path, measure.made(**given_measure), tables, arrays, made(), frozenset(reader.defaulted)
    )
    scenario = replace(scenario, remote=remote_device.remote_of(tables[""]["runs_on"], machines))
    remotes = {name: remote for name in machines if (remote := remote_device.remote_of(name, machines))}
    return replace(
        scenario, engines=(*multi_host.engines_of(scenario, remotes), *remote_endpoints.ends_of(scenario, remotes))
    )


def _machines(
    reader: Reader, tables: Mapping[str, Values], arrays: Mapping[str, Sequence[Element]]
) -> dict[str, Values]:
    """Other machines by their names. Beside [[host]], which has their table's name, each `runs_on` is one."""
    if not arrays["host"]:
        return reader.named(MACHINE)
    ends = (name for host in arrays["host"] if (name := host.values.get("runs_on")) != LAB)
    named = filter(None, dict.fromkeys((tables[""].get("runs_on"), *ends)))
    return {name: reader.unwritten(MACHINE, name) for name in named}


def _single(reader: Reader, table: Table, measure: str | None) -> Values:
    """The values of a table; empty where the measure does not read it."""
    return reader.table(table) if _is_read(reader.source, table, measure) else {}


def _array(reader: Reader, table: Table, measure: str | None) -> list[Element]:
    return reader.array(table) if _is_read(reader.source, table, measure) else []


def _is_read(source: Source, table: Table, measure: str | None) -> bool:
    is_there = lookup(source.data, (table.name,)) is not None
    if table.is_read_by(measure, is_there):
        return True
    if measure and is_there:
        readers = " or ".join(f'"{reader}"' for reader in table.readers)
        source.problem((table.name,), f'expected measure = {readers} where there is {table.header}, found "{measure}"')
    return False


def _scenario(
    path: str,
    measure: Measure,
    tables: Mapping[str, Values],
    arrays: Mapping[str, Sequence[Element]],
    read: Read,
    defaulted: frozenset[str],
) -> Scenario:
    name = FilePath(path).stem or "scenario"
    top = tables[""]
    return Scenario(
        name=name,
        title=top.get("title", name),
        path=path,
        measure=measure,
        numa=NumaPlacement(top["numa"]),
        dut=read.dut,
        ports=read.ports,
        hosts=read.hosts,
        engine=Engine(**tables["engine"]),
        guest=Guest(**tables["guest"]) if tables["guest"] else None,
        streams=tuple(Stream(**stream.values) for stream in arrays["stream"]),
        search=_search(tables["search"] or _defaults(SEARCH)),
        validity=Validity(**tables["validity"]),
        point=Point(name, {}),
        service=service_keys.service_of(tables, arrays),
        established=service_keys.established_of(tables),
        defaulted=defaulted,
    )


def _search(values: Values) -> Search:
    return Search(**{**values, "method": SearchMethod(values["method"])})


def _defaults(table: Table) -> Values:
    """The values of a table that the measure does not read."""
    return {key.model_field: key.kind.read(key.default) for key in table.keys}
