"""The bridges of a scenario: the row that `dut.cascade` makes, those beside it, and their rules."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from pinchpoint.dut.ovs.keys import FIRST_BRIDGE, LAST_BRIDGE, MOST_RULES
from pinchpoint.dut.ovs.placeholders import rule_problems, series_problems
from pinchpoint.dut.ovs.spec import Bridge, Patch, Rule, RuleSeries
from pinchpoint.keys import kinds
from pinchpoint.keys.kinds import is_plain
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source, show

_PREVIOUS, _NEXT = "{to-previous}", "{to-next}"


def row(dut: Values) -> list[str]:
    """The names of the bridges in a row: br0, br1, ..."""
    return [f"br{number}" for number in range(dut.get("cascade", 1))]


def check_bridges(source: Source, dut: Values, arrays: Mapping[str, Sequence[Element]]) -> None:
    """Bridges have names of their own, and those that ports, hosts, patches and tunnels name are there."""
    there = row(dut)
    for bridge in arrays["bridge"]:
        name = bridge.values.get("name")
        if name in there:
            source.problem((*bridge.at, "name"), f'expected a unique name, found "{name}" again')
        elif name:
            there.append(name)
    for table, keys in (
        ("port", (("bridge", "bridge"),)),
        ("host", (("bridge", "bridge"),)),
        ("arp_responder", (("bridge", "bridge"),)),
        ("patch", (("from", "first"), ("to", "second"))),
        ("tunnel", (("from", "first"), ("to", "second"))),
    ):
        for element in arrays[table]:
            for key, field in keys:
                _place(source, element, key, field, there, row(dut)[-1])
    _check_ends(source, arrays["patch"], patches(dut, ()))
    _check_ends(source, arrays["tunnel"], None)


def _place(source: Source, element: Element, key: str, field: str, there: Sequence[str], last: str) -> None:
    """Put the bridge meant in place of "last", and refuse one that is not there."""
    name = element.values.get(field)
    if name == LAST_BRIDGE:
        element.values[field] = last
    elif name and name not in there:
        near = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
        source.mismatch((*element.at, key), f"the name of a bridge ({near})", name)


def _check_ends(source: Source, elements: Sequence[Element], joined: Sequence[Patch] | None) -> None:
    """Two ends are two bridges; no two patches (`joined`: those of the row) join the same."""
    pairs = {frozenset((patch.first, patch.second)) for patch in joined or ()}
    for element in elements:
        first, second = element.values.get("first"), element.values.get("second")
        if not first or not second:
            continue
        if first == second:
            source.problem((*element.at, "to"), f'expected a bridge other than "from", found "{first}" in both')
        pair = frozenset((first, second))
        if joined is not None and pair in pairs:
            source.problem(
                element.at, f"expected a pair of bridges that no other patch joins, found {first} and {second} again"
            )
        pairs.add(pair)


def patches(dut: Values, elements: Sequence[Element]) -> tuple[Patch, ...]:
    """The patches of the row, then those of the file."""
    names = row(dut)
    chain = [Patch(first, second) for first, second in pairwise(names)]
    return (*chain, *(Patch(**patch.values) for patch in elements))


class Rules:
    """Reads the rules of every bridge, checking their placeholders against the ports that the bridge has."""

    def __init__(self, source: Source, dut: Values, arrays: Mapping[str, Sequence[Element]]) -> None:
        self.source = source
        self.dut = dut
        self.arrays = arrays
        self.names = _names(dut, arrays)

    def bridges(self, needs_rules: bool) -> tuple[Bridge, ...]:
        """br0, the rest of its row, the bridges beside it. `needs_rules`: whether br0 must have any."""
        self._count()
        series = self.arrays["dut.rule_series"]
        first = Bridge(
            FIRST_BRIDGE, self._written(self.dut, ("dut", "rules"), FIRST_BRIDGE), self._series(series, FIRST_BRIDGE)
        )
        if needs_rules and "rules" in self.dut:
            self._some(first, ("dut", "rules"), "[[dut.rule_series]]", len(series))
        return (first, *self._transit(), *self._others())

    def _transit(self) -> Iterator[Bridge]:
        names = row(self.dut)
        at: Path = ("dut", "transit_rules")
        read = [rule for rule in self._lines(self.dut.get("transit_rules", ""), at)]
        if len(names) > 1 and not read and "transit_rules" in self.dut:
            self.source.problem(at, "expected at least one rule")
        for number, name in enumerate(names[1:], start=1):
            is_last = number == len(names) - 1
            rules = tuple(
                Rule(
                    rule.text.replace(_PREVIOUS, f"{{to-br{number - 1}}}").replace(_NEXT, f"{{to-br{number + 1}}}"),
                    rule.line,
                )
                for rule in read
                if not (is_last and _NEXT in rule.text)
            )
            self._judge(rules, at, name)
            yield Bridge(name, rules, ())

    def _others(self) -> Iterator[Bridge]:
        for bridge in self.arrays["bridge"]:
            name = bridge.values.get("name", "")
            own = [series for series in self.arrays["bridge.rule_series"] if series.at[:2] == bridge.at]
            at = (*bridge.at, "rules")
            made = Bridge(name, self._written(bridge.values, at, name), self._series(own, name))
            if {"name", "rules"} <= bridge.values.keys():
                self._some(made, at, "[[bridge.rule_series]]", len(own))
            yield made

    def _count(self) -> None:
        total = sum(
            series.values.get("count", 0)
            for table in ("dut.rule_series", "bridge.rule_series")
            for series in self.arrays[table]
        )
        total += sum(
            responder.values["ipv4"].count for responder in self.arrays["arp_responder"] if "ipv4" in responder.values
        )
        if total > MOST_RULES:
            expected = f"expected at most {MOST_RULES:,} rules in all, found {total:,}"
            self.source.problem(("dut", "rule_series"), expected)

    def _some(self, bridge: Bridge, at: Path, table: str, series: int) -> None:
        answers = any(responder.values.get("bridge") == bridge.name for responder in self.arrays["arp_responder"])
        if not (bridge.rules or series or answers):
            self.source.problem(at, f"expected at least one rule here or in {table}")

    def _written(self, values: Values, at: Path, bridge: str) -> tuple[Rule, ...]:
        rules = tuple(self._lines(values.get("rules", ""), at))
        self._judge(rules, at, bridge)
        return rules

    def _lines(self, text: str, at: Path) -> Iterator[Rule]:
        for number, line in enumerate(text.split("\n")):
            rule = line.replace("\t", " ").strip()
            if rule and not rule.startswith("#"):
                yield Rule(rule, self.source.text_line(at, number))

    def _judge(self, rules: Sequence[Rule], at: Path, bridge: str) -> None:
        for rule in rules:
            for problem in _text_problems(rule.text) or rule_problems(rule.text, self.names.get(bridge, [])):
                self.source.problem(at, problem, rule.line)

    def _series(self, elements: Sequence[Element], bridge: str) -> tuple[RuleSeries, ...]:
        made = []
        for element in elements:
            at, values = (*element.at, "rule"), element.values
            if not {"rule", "count", "first"} <= values.keys():
                continue
            text = values["rule"].strip()
            series = RuleSeries(text, values["count"], values["first"], self.source.line(at))
            for problem in _text_problems(text) or series_problems(series, self.names.get(bridge, [])):
                self.source.problem(at, problem)
            made.append(series)
        return tuple(made)


def _names(dut: Values, arrays: Mapping[str, Sequence[Element]]) -> dict[str, list[str]]:
    """What rules may name, by bridge."""
    names: dict[str, list[str]] = {}
    for table in ("port", "host"):
        for element in arrays[table]:
            if {"name", "bridge"} <= element.values.keys():
                names.setdefault(element.values["bridge"], []).append(element.values["name"])
    whole = [patch for patch in arrays["patch"] if {"first", "second"} <= patch.values.keys()]
    for patch in patches(dut, whole):
        names.setdefault(patch.first, []).append(f"to-{patch.second}")
        names.setdefault(patch.second, []).append(f"to-{patch.first}")
    for tunnel in arrays["tunnel"]:
        for end in ("first", "second"):
            if {"name", end} <= tunnel.values.keys():
                names.setdefault(tunnel.values[end], []).append(tunnel.values["name"])
    return names


def _text_problems(rule: str) -> list[str]:
    if not rule or rule.startswith("#"):
        return ["expected a rule, found none"]
    if not is_plain(rule):
        return [f"expected text without control characters, found {show(rule)}"]
    if len(rule) > kinds.LONGEST_RULE:
        return [f"expected at most {kinds.LONGEST_RULE:,} characters, found {len(rule):,}"]
    return []
