"""The bridges of a scenario: the row that `dut.cascade` makes, those beside it, and their rules.

Rules hold placeholders: `{left}` for a port; in a series `{i}`, `{u16:...}`, `{ipv4:...}`, `{mac:...}`.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from pinchpoint.dut.ovs.keys import FIRST_BRIDGE, LAST_BRIDGE, MOST_RULES
from pinchpoint.dut.ovs.spec import Bridge, Patch, Rule, RuleSeries
from pinchpoint.keys import kinds
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values, refuse_doubles
from pinchpoint.keys.source import Source, show

_PREVIOUS, _NEXT = "{to-previous}", "{to-next}"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NUMBER = re.compile(r"[0-9]{1,5}")
_HIGHEST = {"u16": 2**16 - 1, "ipv4": 2**32 - 1, "mac": 2**48 - 1}
_ENDS = (("from", "first"), ("to", "second"))  # key and field of each end of a patch or a tunnel


def row(dut: Values) -> list[str]:
    """The names of the bridges in a row: br0, br1, ..."""
    return [f"br{number}" for number in range(dut.get("cascade", 1))]


def check_bridges(source: Source, dut: Values, arrays: Mapping[str, Sequence[Element]]) -> None:
    """Bridges have names of their own, and those that ports, hosts, patches and tunnels name are there."""
    refuse_doubles(source, arrays["bridge"], row(dut))
    own = (name for bridge in arrays["bridge"] if (name := bridge.values.get("name")))
    there = list(dict.fromkeys((*row(dut), *own)))
    for table in ("port", "host", "arp_responder", "patch", "tunnel"):
        keys = _ENDS if table in ("patch", "tunnel") else (("bridge", "bridge"),)
        for element, (key, field) in ((element, end) for element in arrays[table] for end in keys):
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
            expected = "expected a pair of bridges that no other patch joins"
            source.problem(element.at, f"{expected}, found {first} and {second} again")
        pairs.add(pair)


def patches(dut: Values, elements: Sequence[Element]) -> tuple[Patch, ...]:
    """The patches of the row, then those of the file."""
    chain = (Patch(first, second) for first, second in pairwise(row(dut)))
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
        table, series = "[[dut.rule_series]]", self.arrays["dut.rule_series"]
        first = self._bridge(FIRST_BRIDGE, self.dut, ("dut", "rules"), series, table if needs_rules else "")
        return (first, *self._transit(), *self._others())

    def _bridge(self, name: str, values: Values, at: Path, series: Sequence[Element], table: str) -> Bridge:
        """With rules at `at` and in series; it must have any where there is a `table` for them."""
        rules = self._judged(self._lines(values.get("rules", ""), at), at, name)
        made = self._series(series, name)
        answers = any(responder.values.get("bridge") == name for responder in self.arrays["arp_responder"])
        if table and "rules" in values and not (rules or series or answers):
            self.source.problem(at, f"expected at least one rule here or in {table}")
        return Bridge(name, rules, made)

    def _transit(self) -> Iterator[Bridge]:
        names = row(self.dut)
        at: Path = ("dut", "transit_rules")
        read = list(self._lines(self.dut.get("transit_rules", ""), at))
        if len(names) > 1 and not read and "transit_rules" in self.dut:
            self.source.problem(at, "expected at least one rule")
        for number, name in enumerate(names[1:], start=1):
            near, far = f"{{to-br{number - 1}}}", f"{{to-br{number + 1}}}"
            kept = (rule for rule in read if _NEXT not in rule.text or number < len(names) - 1)
            rules = (Rule(rule.text.replace(_PREVIOUS, near).replace(_NEXT, far), rule.line) for rule in kept)
            yield Bridge(name, self._judged(rules, at, name), ())

    def _others(self) -> Iterator[Bridge]:
        for bridge in self.arrays["bridge"]:
            own = [series for series in self.arrays["bridge.rule_series"] if series.at[:2] == bridge.at]
            table = "[[bridge.rule_series]]" if "name" in bridge.values else ""
            yield self._bridge(bridge.values.get("name", ""), bridge.values, (*bridge.at, "rules"), own, table)

    def _count(self) -> None:
        series = (*self.arrays["dut.rule_series"], *self.arrays["bridge.rule_series"])
        answered = [answer.values["ipv4"].count for answer in self.arrays["arp_responder"] if "ipv4" in answer.values]
        total = sum(element.values.get("count", 0) for element in series) + sum(answered)
        if total > MOST_RULES:
            expected = f"expected at most {MOST_RULES:,} rules in all, found {total:,}"
            self.source.problem(("dut", "rule_series"), expected)

    def _lines(self, text: str, at: Path) -> Iterator[Rule]:
        for number, line in enumerate(text.split("\n")):
            rule = line.replace("\t", " ").strip()
            if rule and not rule.startswith("#"):
                yield Rule(rule, self.source.text_line(at, number))

    def _judged(self, rules: Iterable[Rule], at: Path, bridge: str) -> tuple[Rule, ...]:
        """The same, their problems noted."""
        judged = tuple(rules)
        for rule in judged:
            for problem in self._problems(rule.text, bridge):
                self.source.problem(at, problem, rule.line)
        return judged

    def _series(self, elements: Sequence[Element], bridge: str) -> tuple[RuleSeries, ...]:
        made = []
        for element in elements:
            at, values = (*element.at, "rule"), element.values
            if {"rule", "count", "first"} <= values.keys():
                text, count, first = values["rule"].strip(), values["count"], values["first"]
                made.append(RuleSeries(text, count, first, self.source.line(at)))
                for problem in self._problems(text, bridge, first + count - 1):
                    self.source.problem(at, problem)
        return tuple(made)

    def _problems(self, rule: str, bridge: str, last: int | None = None) -> Sequence[str]:
        """`last`: the highest i of a series."""
        return _text_problems(rule) or _placeholder_problems(rule, self.names.get(bridge, []), last)


def _names(dut: Values, arrays: Mapping[str, Sequence[Element]]) -> dict[str, list[str]]:
    """What rules may name, by bridge."""
    names: dict[str, list[str]] = defaultdict(list)
    for table in ("port", "host"):
        for element in arrays[table]:
            if {"name", "bridge"} <= element.values.keys():
                names[element.values["bridge"]].append(element.values["name"])
    whole = [patch for patch in arrays["patch"] if {"first", "second"} <= patch.values.keys()]
    for patch in patches(dut, whole):
        names[patch.first].append(f"to-{patch.second}")
        names[patch.second].append(f"to-{patch.first}")
    for tunnel in arrays["tunnel"]:
        for end in ("first", "second"):
            if {"name", end} <= tunnel.values.keys():
                names[tunnel.values[end]].append(tunnel.values["name"])
    return names


def _text_problems(rule: str) -> list[str]:
    if not rule or rule.startswith("#"):
        return ["expected a rule, found none"]
    if not kinds.is_plain(rule):
        return [f"expected text without control characters, found {show(rule)}"]
    if len(rule) > kinds.LONGEST_RULE:
        return [f"expected at most {kinds.LONGEST_RULE:,} characters, found {len(rule):,}"]
    return []


def _placeholder_problems(rule: str, ports: Collection[str], last: int | None) -> list[str]:
    """What is wrong with the placeholders of a single rule, or of a series whose highest i is `last`."""
    unknown = [name for name in _PLACEHOLDER.findall(rule) if name not in ports]
    told = (_unknown(name, ports) if last is None else _series_problem(name, ports, last) for name in unknown)
    problems = [problem for problem in told if problem]
    if re.search(r"[{}]", _PLACEHOLDER.sub("", rule)):
        problems.append("a brace without its partner")
    return problems


def _series_problem(name: str, ports: Collection[str], last: int) -> str:
    if name == "i":
        return ""
    kind, colon, value = name.partition(":")
    if not colon or kind not in _HIGHEST:
        return _unknown(name, (*ports, "i", "u16:...", "ipv4:...", "mac:..."))
    what = "number" if kind == "u16" else "address"
    try:
        first = _first(kind, value)
    except kinds.MismatchError:
        return f"{{{name}}} has no valid {what}"
    return f"{{{name}}} runs past the last {what} at i = {last:,}" if first + last > _HIGHEST[kind] else ""


def _unknown(name: str, known: Collection[str]) -> str:
    choices = ", ".join(f"{{{choice}}}" for choice in known) or "no port names yet"
    return f"{{{name}}} is unknown; known here: {choices}"


def _first(kind: str, value: str) -> int:
    if kind == "u16":
        kinds.check(_NUMBER.fullmatch(value) is not None and int(value) <= _HIGHEST[kind])
        return int(value)
    return kinds.ipv4_address(value) if kind == "ipv4" else kinds.mac_address(value)
