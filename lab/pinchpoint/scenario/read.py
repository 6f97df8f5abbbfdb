"""From a scenario file to the model: every key read by its kind, then the checks across keys."""

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from pinchpoint.dut.ovs import bridges
from pinchpoint.model.scenario import (
    ArpResponder,
    Blocked,
    Bridge,
    Build,
    Burst,
    Datapath,
    Engine,
    ExtraPorts,
    Host,
    Latency,
    Load,
    LossCurve,
    MeasureKind,
    NumaPlacement,
    OvsDut,
    Point,
    Port,
    Recovery,
    Scenario,
    Search,
    SearchMethod,
    Soak,
    Sockets,
    Stream,
    Tuning,
    Tunnel,
    Validity,
)
from pinchpoint.scenario import checks, keys
from pinchpoint.scenario.bench_keys import TUNING
from pinchpoint.scenario.key import Table
from pinchpoint.scenario.measure_keys import LATENCY, SEARCH
from pinchpoint.scenario.reader import Element, Reader, Values, lookup
from pinchpoint.scenario.source import Source, read_text

NO_LOAD = Load((), 1.0, 1)


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
    reader = Reader(source, keys.TABLES)
    reader.refuse_unknown_keys()
    measure = reader.table(keys.TOP).get("measure")
    tables = {table.name: _single(reader, table, measure) for table in keys.SINGLE}
    arrays = {table.name: _array(reader, table, measure) for table in keys.ARRAYS}
    dut = tables["dut"]
    checks.check_name(source, source.path)
    checks.check_program(source, dut)
    checks.check_needs(source, measure, tables["build"], arrays)
    checks.check_cpus(source, measure, tables)
    checks.check_engine(source, tables["engine"], dut, arrays["port"])
    checks.check_search(source, tables["search"])
    checks.check_names(source, arrays)
    bridges.check_bridges(source, dut, arrays)
    checks.check_ports(source, arrays["port"], dut)
    checks.check_streams(source, arrays["stream"], arrays["port"], dut)
    checks.check_burst(source, measure, arrays)
    checks.check_hosts(source, arrays["host"])
    if tables["sockets"]:
        checks.check_sockets(source, tables["sockets"], arrays["host"], measure)
    checks.check_build(source, tables["build"])
    checks.check_over_time(source, tables)
    made = bridges.Rules(source, dut, arrays).bridges(needs_rules=measure != "build")
    if source.problems:
        return None
    return _scenario(source.path, tables, arrays, made=made, defaulted=frozenset(reader.defaulted))


def _single(reader: Reader, table: Table, measure: str | None) -> Values:
    """The values of a table; empty where the measure does not read it."""
    return reader.table(table) if _is_read(reader.source, table, measure) else {}


def _array(reader: Reader, table: Table, measure: str | None) -> list[Element]:
    return reader.array(table) if _is_read(reader.source, table, measure) else []


def _is_read(source: Source, table: Table, measure: str | None) -> bool:
    if not table.measures or measure in table.measures:
        return True
    if measure and lookup(source.data, (table.name,)) is not None:
        readers = " or ".join(f'"{one}"' for one in table.measures)
        source.problem((table.name,), f'expected measure = {readers} where there is {table.header}, found "{measure}"')
    return False


def _scenario(
    path: str,
    tables: Mapping[str, Values],
    arrays: Mapping[str, Sequence[Element]],
    *,
    made: tuple[Bridge, ...],
    defaulted: frozenset[str],
) -> Scenario:
    name = FilePath(path).stem or "scenario"
    top = tables[""]
    return Scenario(
        name=name,
        title=top.get("title", name),
        path=path,
        measure=MeasureKind(top["measure"]),
        numa=NumaPlacement(top["numa"]),
        dut=_dut(tables["dut"], arrays, made),
        ports=tuple(Port(**port.values) for port in arrays["port"]),
        hosts=tuple(Host(**host.values) for host in arrays["host"]),
        engine=Engine(**tables["engine"]),
        streams=tuple(Stream(**stream.values) for stream in arrays["stream"]),
        search=_search(tables["search"] or _defaults(SEARCH)),
        validity=Validity(**tables["validity"]),
        latency=Latency(**(tables["latency"] or _defaults(LATENCY))),
        load=Load(**tables["load"]) if tables["load"] else NO_LOAD,
        sockets=Sockets(**tables["sockets"]) if tables["sockets"] else None,
        build=Build(**tables["build"]) if tables["build"] else None,
        point=Point(name, {}),
        defaulted=defaulted,
        soak=Soak(**tables["soak"]) if tables["soak"] else None,
        recovery=Recovery(**tables["recovery"]) if tables["recovery"] else None,
        blocked=Blocked(**tables["blocked"]) if tables["blocked"] else None,
        burst=Burst(**tables["burst"]) if top["measure"] == MeasureKind.BURST else None,
        loss_curve=LossCurve(**tables["loss_curve"]) if top["measure"] == MeasureKind.LOSS_CURVE else None,
    )


def _search(values: Values) -> Search:
    return Search(**{**values, "method": SearchMethod(values["method"])})


def _defaults(table: Table) -> Values:
    """The values of a table that the measure does not read."""
    return {key.model_field: key.kind.read(key.default) for key in table.keys}


def _dut(dut: Values, arrays: Mapping[str, Sequence[Element]], made: tuple[Bridge, ...]) -> OvsDut:
    return OvsDut(
        datapath=Datapath(dut["datapath"]),
        pmd_cpus=dut["pmd_cpus"],
        memory_mb=dut["memory_mb"],
        other_config=dut["other_config"],
        tuning=Tuning(**{key.model_field: dut[key.model_field] for key in TUNING}),
        bridges=made,
        patches=bridges.patches(dut, arrays["patch"]),
        tunnels=tuple(Tunnel(**tunnel.values) for tunnel in arrays["tunnel"]),
        arp_responders=tuple(ArpResponder(**responder.values) for responder in arrays["arp_responder"]),
        extra_ports=ExtraPorts(dut["extra_ports"], dut["extra_ports_kind"]),
        vswitchd=dut["vswitchd"],
    )
