"""What differs between two benches: effective scenarios, settings in force, programs, hosts; pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from pinchpoint.model import former
from pinchpoint.model.comparison import Difference, Differences
from pinchpoint.model.effective import defaulted, flat, table_in, within
from pinchpoint.model.guest import PROCESSOR, REAL
from pinchpoint.model.result import RunInfo, ScenarioResult

NONE = "none"
NOT_RECORDED = "not recorded"  # of a host: it does not tell, or an older version did not ask
_NAMES = ("name", "title", "path", "point", "defaulted")  # say which scenario it is, not what it does
_PROGRAM = "switch "  # how versions of the switch's own program are named (`facts` of its bench)
_GUESTS_KERNEL = "guest.kernel"  # among the settings in force
_LENGTH = "duration_s"  # of the measure's own table, e.g. load.duration_s

Plain = Mapping[str, object]
"""An effective scenario as run.json keeps it."""
InForce = Mapping[str, str]
"""Settings that a switch told."""


def between(a: Plain, b: Plain, in_force: tuple[InForce, InForce], infos: tuple[RunInfo, RunInfo]) -> Differences:
    """All that is known to differ; `in_force` are the settings that the switches told."""
    versions = mappings(_versions(infos[0], a), _versions(infos[1], b))
    return Differences(scenarios(a, b), mappings(*in_force), versions, hosts(*infos))


def in_force(repeats: Sequence[ScenarioResult]) -> InForce:
    """The settings that the switch told in any repeat."""
    return next((repeat.settings for repeat in repeats if repeat.settings), {})


def guests(a: InForce, b: InForce) -> tuple[Difference, ...]:
    """Where the guests' kernels are of two kinds, or one processor is emulated: neither compares with the other."""
    kernels = [side.get(_GUESTS_KERNEL, "") for side in (a, b)]
    processors = [side.get(PROCESSOR, REAL) for side in (a, b)]
    if all(kernels) and kernels[0] != kernels[1]:
        return (Difference(_GUESTS_KERNEL, *kernels),)
    return (Difference(PROCESSOR, *processors),) if processors[0] != processors[1] else ()


def hosts(a: RunInfo, b: RunInfo) -> tuple[Difference, ...]:
    """What is recorded of the machines."""
    return mappings(a.host, b.host, NOT_RECORDED)


def mappings(a: Mapping[str, str], b: Mapping[str, str], lacking: str = NONE) -> tuple[Difference, ...]:
    """Keys whose values differ, or that one side lacks; `lacking`: what that means."""
    pairs = ((key, a.get(key, lacking), b.get(key, lacking)) for key in dict.fromkeys((*a, *b)))
    return tuple(Difference(key, mine, other) for key, mine, other in pairs if mine != other)


def scenarios(a: Plain, b: Plain) -> tuple[Difference, ...]:
    """Effective keys that differ. Rules are named by their text: their place in a list says little.

    A key that one side lacks differs too, unless the other side's file left it to its default: another
    version of Pinchpoint wrote it, and what it says is what was so before there was the key.
    """
    keys = _keys(a), _keys(b)
    unset = defaulted(a), defaulted(b)

    def was_default(key: str) -> bool:
        return any(key not in keys[1 - side] and within(key, unset[side]) for side in (0, 1))

    return (*(difference for difference in mappings(*keys) if not was_default(difference.what)), *_rules(a, b))


def defining(a: Plain, b: Plain) -> tuple[Difference, ...]:
    """Those keys that say how a number is measured: numbers of different definitions are not compared."""
    measures = {str(plain.get("measure")) for plain in (a, b)}
    tables = {"sockets" if measure in ("bandwidth", "rr", "crr") else measure for measure in measures}
    lengths = [f"{table}.{_LENGTH}" for table in sorted(tables)]
    return mappings(_defining(a, lengths), _defining(b, lengths))


def _defining(plain: Plain, lengths: Sequence[str]) -> dict[str, str]:
    keys = _keys(plain)
    wanted = {"measure", *lengths}
    if plain.get("measure") == "rates":
        wanted |= {"search.method", "search.trial_duration_s"}
        wanted |= {"search.duration_sum_s"} if keys.get("search.method") == "mlrsearch" else set()
    return {key: words for key, words in keys.items() if key in wanted}


def _keys(plain: Plain) -> dict[str, str]:
    kept = {name: value for name, value in former.with_sites(plain).items() if name not in _NAMES}
    return {key.replace("dut.tuning.", "dut."): words for key, words in flat(_without_rules(kept))}


def _without_rules(value: Any) -> Any:
    """The scenario without rules, which are compared otherwise."""
    if isinstance(value, Mapping):
        return {name: _without_rules(inner) for name, inner in value.items() if name not in ("rules", "rule_series")}
    return [_without_rules(inner) for inner in value] if isinstance(value, list | tuple) else value


def _rules(a: Plain, b: Plain) -> Iterator[Difference]:
    mine, other = _rules_of(a), _rules_of(b)
    for bridge in dict.fromkeys((*mine, *other)):
        has_a, has_b = mine.get(bridge, Counter()), other.get(bridge, Counter())
        lost, new = (has_a - has_b).elements(), (has_b - has_a).elements()
        for gone, came in zip_longest(lost, new, fillvalue=NONE):
            yield Difference(f"rules of {bridge}", gone, came)


def _rules_of(plain: Plain) -> dict[str, Counter[str]]:
    rules: dict[str, Counter[str]] = {}
    for bridge in table_in(plain, "dut").get("bridges", ()):
        texts = Counter(str(rule["text"]) for rule in bridge.get("rules", ()))
        series = bridge.get("rule_series", ())  # an older version knew none
        texts.update(f"{rule['count']:,} x {rule['rule']} from i = {rule['first']}" for rule in series)
        rules[str(bridge["name"])] = texts
    return rules


def _versions(info: RunInfo, plain: Plain) -> dict[str, str]:
    """The run's versions; of several switch programs the scenario's own, under the same names on either side."""
    dut = table_in(plain, "dut")
    path, default = dut.get("vswitchd"), f"{_PROGRAM}program for {dut.get('datapath')}"
    versions = {key: value for key, value in info.versions.items() if not key.startswith(_PROGRAM)}
    programs = {key: value for key, value in info.versions.items() if key.startswith(_PROGRAM)}
    if path is None:
        others = (f"{_PROGRAM}/", f"{_PROGRAM}program for ")
        own = {key: value for key, value in programs.items() if not key.startswith(others)}
        return versions | own | ({f"{_PROGRAM}program": programs[default]} if default in programs else {})
    start = f"{_PROGRAM}{path} "
    own = {key.removeprefix(start): value for key, value in programs.items() if key.startswith(start)}
    return versions | {f"{_PROGRAM}{key}": value for key, value in own.items()}
