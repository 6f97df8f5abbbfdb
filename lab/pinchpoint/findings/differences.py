"""What differs between two benches: effective scenarios, settings in force, programs, hosts; pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pinchpoint.model.comparison import Difference, Differences
from pinchpoint.model.effective import defaulted, flat, within
from pinchpoint.model.result import RunInfo
from pinchpoint.model.scenario import Range

NONE = "none"
_NAMES = ("name", "title", "path", "point", "defaulted")  # say which scenario it is, not what it does
_PROGRAM = "switch "  # how versions of the switch's own program are named (dut/programs.py)
# What a number is measured by, wherever a scenario has it: lengths of trials and windows, and who decides.
_DEFINING = ("measure", "search.method", "search.trial_duration_s", "search.duration_sum_s")
_LENGTH = "duration_s"  # of the measure's own table, e.g. load.duration_s

Plain = Mapping[str, object]
"""An effective scenario as run.json keeps it."""


def between(
    a: Plain, b: Plain, in_force: tuple[Mapping[str, str], Mapping[str, str]], infos: tuple[RunInfo, RunInfo]
) -> Differences:
    """All that is known to differ; `in_force` are the settings that the switches told."""
    a_versions, b_versions = (_versions(info, plain) for info, plain in zip(infos, (a, b), strict=True))
    return Differences(
        scenario=scenarios(a, b),
        in_force=mappings(*in_force),
        versions=mappings(a_versions, b_versions),
        host=mappings(infos[0].host, infos[1].host),
    )


def mappings(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[Difference, ...]:
    """Keys whose values differ, or that one side lacks: to lack one is to have none."""
    pairs = ((key, a.get(key, NONE), b.get(key, NONE)) for key in dict.fromkeys((*a, *b)))
    return tuple(Difference(key, mine, other) for key, mine, other in pairs if mine != other)


def scenarios(a: Plain, b: Plain) -> tuple[Difference, ...]:
    """Effective keys that differ. Rules are named by their text: their place in a list says little.

    A key that one side lacks differs too, unless the other side's file left it to its default: another
    version of Pinchpoint wrote it, and what it says is what was so before there was the key.
    """
    keys = _keys(a), _keys(b)
    unset = defaulted(a), defaulted(b)
    told = tuple(
        difference
        for difference in mappings(*keys)
        if not any(difference.what not in keys[1 - side] and within(difference.what, unset[side]) for side in (0, 1))
    )
    return (*told, *_rules(a, b))


def defining(a: Plain, b: Plain) -> tuple[Difference, ...]:
    """Those keys that say how a number is measured: numbers of different definitions are not compared."""
    measures = {str(plain.get("measure")) for plain in (a, b)}
    tables = {"sockets" if measure in ("bandwidth", "rr", "crr") else measure for measure in measures}
    keys = (*_DEFINING, *(f"{table}.{_LENGTH}" for table in sorted(tables)))
    return mappings(
        *({key: words for key, words in _keys(plain).items() if _defines(key, keys, plain)} for plain in (a, b))
    )


def _defines(key: str, keys: Iterable[str], plain: Plain) -> bool:
    if key.startswith("search.") and plain.get("measure") != "rates":
        return False
    if key == "search.duration_sum_s" and _keys(plain).get("search.method") != "mlrsearch":
        return False
    return key in keys


def _keys(plain: Plain) -> dict[str, str]:
    kept = {name: value for name, value in plain.items() if name not in _NAMES}
    keys_and_values = dict(flat(_readable(kept)))
    return {key.replace("dut.tuning.", "dut."): words for key, words in keys_and_values.items()}


def _readable(value: Any, key: str = "") -> Any:
    """The scenario with ranges as people write them, and without rules, which are compared otherwise."""
    if isinstance(value, Mapping):
        if set(value) == {"first", "count"}:
            return _range(Range(**value), key)
        return {name: _readable(inner, name) for name, inner in value.items() if name not in ("rules", "rule_series")}
    if isinstance(value, list | tuple):
        return [_readable(inner, key) for inner in value]
    return value


def _range(span: Range, key: str) -> str:
    if "ipv4" in key:
        return span.as_addresses()
    return str(span.first) if span.count == 1 else f"{span.first}-{span.last}"


def _rules(a: Plain, b: Plain) -> Iterator[Difference]:
    mine, other = _rules_of(a), _rules_of(b)
    for bridge in dict.fromkeys((*mine, *other)):
        has_a, has_b = mine.get(bridge, Counter()), other.get(bridge, Counter())
        lost, new = list((has_a - has_b).elements()), list((has_b - has_a).elements())
        for place in range(max(len(lost), len(new))):
            yield Difference(
                f"rules of {bridge}",
                lost[place] if place < len(lost) else NONE,
                new[place] if place < len(new) else NONE,
            )


def _rules_of(plain: Plain) -> dict[str, Counter[str]]:
    dut: Any = plain.get("dut") or {}
    rules: dict[str, Counter[str]] = {}
    for bridge in dut.get("bridges", ()):
        texts = Counter(str(rule["text"]) for rule in bridge.get("rules", ()))
        series = bridge.get("rule_series", ())  # an older version knew none
        texts.update(f"{rule['count']:,} x {rule['rule']} from i = {rule['first']}" for rule in series)
        rules[str(bridge["name"])] = texts
    return rules


def _versions(info: RunInfo, plain: Plain) -> dict[str, str]:
    """The run's versions; of several switch programs the scenario's own, under the same names on either side."""
    dut: Any = plain.get("dut") or {}
    path, default = dut.get("vswitchd"), f"{_PROGRAM}program for {dut.get('datapath')}"
    versions = {key: value for key, value in info.versions.items() if not key.startswith(_PROGRAM)}
    if path is None:
        own = {key: value for key, value in info.versions.items() if _of_default(key)}
        program = {f"{_PROGRAM}program": info.versions[default]} if default in info.versions else {}
        return versions | own | program
    start = f"{_PROGRAM}{path} "
    return versions | {
        f"{_PROGRAM}{key.removeprefix(start)}": value for key, value in info.versions.items() if key.startswith(start)
    }


def _of_default(key: str) -> bool:
    return key.startswith(_PROGRAM) and not key.startswith((f"{_PROGRAM}/", f"{_PROGRAM}program for "))
