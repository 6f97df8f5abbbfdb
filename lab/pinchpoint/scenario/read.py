"""From a scenario file to the model: every key read by its kind, then the checks across keys."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path as FilePath
from typing import Any

from pinchpoint.model.scenario import (
    Bridge,
    Datapath,
    Engine,
    ExtraPorts,
    Latency,
    Load,
    MeasureKind,
    NumaPlacement,
    OvsDut,
    Point,
    Port,
    Rule,
    RuleSeries,
    Scenario,
    Search,
    Stream,
    Tuning,
    Validity,
)
from pinchpoint.scenario import keys, kinds
from pinchpoint.scenario.keys import Computed, Key, Required, Table
from pinchpoint.scenario.kinds import MismatchError, is_plain
from pinchpoint.scenario.lexical import Path
from pinchpoint.scenario.placeholders import rule_problems, series_problems
from pinchpoint.scenario.source import Source, dotted, read_text, show

# A scenario's name becomes part of trial ids and file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Values = dict[str, Any]
"""The values of one table by model field; a field whose value was refused is absent."""


def load(path: FilePath) -> Scenario:
    """Read a scenario file. Raises InputError listing every problem, one a line."""
    return parse(read_text(path), str(path))


def parse(text: str, path: str) -> Scenario:
    """Read a scenario's text; `path` is its name in errors. Raises InputError listing every problem."""
    source = Source(text, path)
    reader = _Reader(source)
    reader.refuse_unknown_keys()
    tables = {table.name: reader.table(table) for table in keys.TABLES if not table.at_most}
    arrays = {table.name: reader.array(table) for table in keys.TABLES if table.at_most}
    _check_counts(source, arrays)
    _check_cpus(source, tables)
    _check_workers(source, tables["engine"], arrays["port"])
    _check_name(source, path)
    _check_search(source, tables["search"])
    _check_ports(source, arrays["port"])
    _check_streams(source, arrays["stream"], arrays["port"], tables["dut"])
    rules, series = _rules(source, tables["dut"], arrays)
    source.raise_problems()
    return _scenario(path, tables, arrays, rules=rules, series=series, defaulted=frozenset(reader.defaulted))


class _Reader:
    """Reads tables by their keys, noting problems in the source and which keys were left to their default."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.defaulted: set[str] = set()

    def refuse_unknown_keys(self) -> None:
        for table in keys.TABLES:
            for path, found in self._found(table):
                known = _known(table)
                for name in found:
                    if name not in known:
                        self.source.unknown((*path, name), known, _elsewhere(name))

    def table(self, table: Table) -> Values:
        """The values of a table; one that the file lacks is read as empty."""
        path = _path(table.name)
        found = _lookup(self.source.data, path)
        if found is None and any(isinstance(key.default, Required) for key in table.keys):
            self.source.problem(path, f"missing; expected a table {table.header}")
            return {}
        if not isinstance(found, dict | None):
            self.source.mismatch(path, f"a table {table.header}", found)
            return {}
        return self._values(table, found or {}, path)

    def array(self, table: Table) -> list[Values]:
        """The values of each element of an array of tables; one that the file lacks is empty."""
        path = _path(table.name)
        found = _lookup(self.source.data, path)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(element, dict) for element in found):
            self.source.mismatch(path, f"tables {table.header}", found)
            return []
        if len(found) > table.at_most:
            self.source.problem(path, f"expected at most {table.at_most}, found {len(found):,}")
        chosen = found[: table.at_most]
        return [self._values(table, element, (*path, place)) for place, element in enumerate(chosen)]

    def _values(self, table: Table, found: Mapping[str, Any], path: Path) -> Values:
        values: Values = {}
        for key in table.keys:
            at = (*path, key.name)
            if key.name in found:
                self._read(key, found[key.name], at, values)
            elif isinstance(key.default, Required):
                self.source.problem(at, f"missing; expected {key.kind.expected}")
            else:
                self.defaulted.add(dotted(at))
                if not isinstance(key.default, Computed):
                    values[key.model_field] = key.kind.read(key.default)
        return values

    def _read(self, key: Key, value: object, at: Path, values: Values) -> None:
        try:
            values[key.model_field] = key.kind.read(value)
        except MismatchError as error:
            self.source.mismatch(at, str(error) or key.kind.expected, value)

    def _found(self, table: Table) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        path = _path(table.name)
        found = _lookup(self.source.data, path)
        if isinstance(found, dict):
            yield path, found
        elif isinstance(found, list):
            yield from (((*path, place), item) for place, item in enumerate(found) if isinstance(item, dict))


def _path(name: str) -> Path:
    return tuple(name.split(".")) if name else ()


def _lookup(data: Mapping[str, Any], path: Path) -> Any:
    found: Any = data
    for part in path:
        if not isinstance(found, dict):
            return None
        found = found.get(str(part))
    return found


def _known(table: Table) -> list[str]:
    """The keys of a table and the tables directly below it."""
    below = [other.name for other in keys.TABLES if other.name and other.name.rpartition(".")[0] == table.name]
    return [key.name for key in table.keys] + [name.rpartition(".")[2] for name in below]


def _elsewhere(name: str) -> str | None:
    """The full name of a key that another table has."""
    for table in keys.TABLES:
        if table.name and any(key.name == name for key in table.keys):
            return f"{table.name}.{name}"
    return None


def _check_counts(source: Source, arrays: Mapping[str, list[Values]]) -> None:
    for name, fewest in (("port", 2), ("stream", 1)):
        given = _lookup(source.data, (name,))
        if given is None or (isinstance(given, list) and len(given) < fewest):
            count = len(given or [])
            source.problem((name,), f"expected at least {fewest} table{'s' * (fewest > 1)} [[{name}]], found {count}")
    total = sum(series.get("count", 0) for series in arrays["dut.rule_series"])
    if total > keys.MOST_RULES:
        source.problem(("dut", "rule_series"), f"expected at most {keys.MOST_RULES:,} rules in all, found {total:,}")


def _check_cpus(source: Source, tables: Mapping[str, Values]) -> None:
    shared = sorted(set(tables["dut"].get("pmd_cpus", ())) & set(tables["engine"].get("cpus", ())))
    if shared:
        cpus = ", ".join(str(cpu) for cpu in shared)
        source.problem(("engine", "cpus"), f"expected CPUs other than dut.pmd_cpus, found {cpus} in both")


def _check_workers(source: Source, engine: Values, ports: Sequence[Values]) -> None:
    """A CPU without a port would have nothing to do. One is not too many: too few ports are told elsewhere."""
    cpus = engine.get("cpus", ())
    if len(cpus) > max(1, len(ports)):
        found = ", ".join(str(cpu) for cpu in cpus)
        at_most = f"at most {len(ports)}, one CPU for each [[port]]"
        source.problem(("engine", "cpus"), f"expected {at_most}; found {len(cpus)} ({found})")


def _check_name(source: Source, path: str) -> None:
    name = FilePath(path).stem
    if not _NAME.fullmatch(name):
        expected = "expected a file name of up to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        source.problem((), f"{expected}: it becomes the name of trials and files; found {show(name)}")


def _check_search(source: Source, search: Values) -> None:
    def wrong(key: str, condition: str, other: str, holds: bool) -> None:
        if not holds:
            found = f"{search[key]:g} and {search[other]:g}"
            source.problem(("search", key), f"expected {condition} search.{other}, found {found}")

    if 0 not in search.get("loss_ratios", (0,)):
        found = ", ".join(f"{ratio:g}" for ratio in search["loss_ratios"])
        source.problem(("search", "loss_ratios"), f"expected 0 (the NDR) among them, found {found}")
    if {"min_load_fps", "max_load_fps"} <= search.keys():
        lower_first = search["min_load_fps"] < search["max_load_fps"]
        wrong("max_load_fps", "more than", "min_load_fps", lower_first)
    if {"trial_duration_s", "initial_trial_duration_s"} <= search.keys():
        rough_first = search["initial_trial_duration_s"] <= search["trial_duration_s"]
        wrong("initial_trial_duration_s", "at most", "trial_duration_s", rough_first)
    if {"trial_duration_s", "duration_sum_s"} <= search.keys():
        enough = search["duration_sum_s"] >= search["trial_duration_s"]
        wrong("duration_sum_s", "at least", "trial_duration_s", enough)
    if {"preceding_targets", "initial_trial_duration_s", "duration_sum_s"} <= search.keys():
        direct = search["initial_trial_duration_s"] >= search["duration_sum_s"]
        if search["preceding_targets"] == 0 and not direct:
            source.problem(
                ("search", "preceding_targets"),
                "expected 1 or more where initial_trial_duration_s is below duration_sum_s, found 0",
            )


def _check_ports(source: Source, ports: Sequence[Values]) -> None:
    seen: set[str] = set()
    for place, port in enumerate(ports):
        name = port.get("name")
        if name in seen:
            source.problem(("port", place, "name"), f'expected a name of its own, found "{name}" again')
        if name:
            seen.add(name)


def _check_streams(source: Source, streams: Sequence[Values], ports: Sequence[Values], dut: Values) -> None:
    names = [port["name"] for port in ports if "name" in port]
    for place, stream in enumerate(streams):
        at: Path = ("stream", place)
        for key, field in (("from", "tx_port"), ("to", "rx_port")):
            if field in stream and stream[field] not in names:
                expected = f"the name of a [[port]] ({', '.join(names) or 'there is none'})"
                source.mismatch((*at, key), expected, stream[field])
        if "tx_port" in stream and stream.get("rx_port") == stream["tx_port"]:
            source.problem((*at, "to"), f'expected another port than "from", found "{stream["tx_port"]}" in both')
        limit = keys.FRAME_LIMIT.get(dut.get("kind", ""), 9022)
        if stream.get("frame_bytes", 0) > limit:
            source.mismatch((*at, "frame_bytes"), f"at most {limit:,} (MTU 1500)", stream["frame_bytes"])
        _check_flows(source, stream, at)


def _check_flows(source: Source, stream: Values, at: Path) -> None:
    """Fill in the default and compare with the product of the ranges."""
    if not all(name in stream for name in keys.RANGES):
        return
    product = prod(stream[name].count for name in keys.RANGES)
    if "flows" in stream and stream["flows"] > product:
        expected = f"at most {product:,}, the product of the four ranges"
        source.mismatch((*at, "flows"), expected, stream["flows"])
    if "flows" not in stream and product > keys.MOST_FLOWS:
        source.problem(
            (*at, "flows"),
            f"missing; the ranges make {product:,} five-tuples, more than the {keys.MOST_FLOWS:,} of a cycle",
        )
    stream.setdefault("flows", product)


def _rules(
    source: Source, dut: Values, arrays: Mapping[str, list[Values]]
) -> tuple[tuple[Rule, ...], tuple[RuleSeries, ...]]:
    ports = [port["name"] for port in arrays["port"] if "name" in port]
    rules = tuple(_written_rules(source, dut.get("rules", "")))
    for rule in rules:
        for problem in _text_problems(rule.text) or rule_problems(rule.text, ports):
            source.problem(("dut", "rules"), problem, rule.line)
    series = tuple(_series(source, arrays["dut.rule_series"], ports))
    given = _lookup(source.data, ("dut", "rule_series"))
    if dut and "rules" in dut and not rules and not given:
        source.problem(("dut", "rules"), "expected at least one rule here or in [[dut.rule_series]]")
    return rules, series


def _written_rules(source: Source, text: str) -> Iterator[Rule]:
    for number, line in enumerate(text.split("\n")):
        rule = line.replace("\t", " ").strip()
        if rule and not rule.startswith("#"):
            yield Rule(rule, source.text_line(("dut", "rules"), number))


def _series(source: Source, found: Sequence[Values], ports: Sequence[str]) -> Iterator[RuleSeries]:
    for place, values in enumerate(found):
        at: Path = ("dut", "rule_series", place, "rule")
        if not {"rule", "count", "first"} <= values.keys():
            continue
        text = values["rule"].strip()
        series = RuleSeries(text, values["count"], values["first"], source.line(at))
        for problem in _text_problems(text) or series_problems(series, ports):
            source.problem(at, problem)
        yield series


def _text_problems(rule: str) -> list[str]:
    if not rule or rule.startswith("#"):
        return ["expected a rule, found none"]
    if not is_plain(rule):
        return [f"expected text without control characters, found {show(rule)}"]
    if len(rule) > kinds.LONGEST_RULE:
        return [f"expected at most {kinds.LONGEST_RULE:,} characters, found {len(rule):,}"]
    return []


def _scenario(
    path: str,
    tables: Mapping[str, Values],
    arrays: Mapping[str, list[Values]],
    *,
    rules: tuple[Rule, ...],
    series: tuple[RuleSeries, ...],
    defaulted: frozenset[str],
) -> Scenario:
    name = FilePath(path).stem or "scenario"
    dut = tables["dut"]
    return Scenario(
        name=name,
        title=tables[""].get("title", name),
        path=path,
        measure=MeasureKind.RATES,
        numa=NumaPlacement.ANY,
        dut=OvsDut(
            datapath=Datapath(dut["datapath"]),
            pmd_cpus=dut["pmd_cpus"],
            memory_mb=dut["memory_mb"],
            other_config=dut["other_config"],
            tuning=Tuning(None, None, None, None, None, None),
            bridges=(Bridge("br0", rules, series),),
            patches=(),
            tunnels=(),
            arp_responders=(),
            extra_ports=ExtraPorts(0, "internal"),
        ),
        ports=tuple(
            Port(**port, bridge="br0", queues=1, rxq_affinity="", pci=None, engine_pci=None) for port in arrays["port"]
        ),
        hosts=(),
        engine=Engine(**tables["engine"], backend="auto"),
        streams=tuple(Stream(**stream) for stream in arrays["stream"]),
        search=Search(**tables["search"]),
        validity=Validity(**tables["validity"]),
        latency=Latency(**tables["latency"]),
        load=Load((), 1.0, 1),
        sockets=None,
        build=None,
        point=Point(name, {}),
        defaulted=defaulted,
    )
