"""Words that Pinchpoint no longer uses: those of stored files of older schemas, which exported tables still have.

The one module that knows them. Files are read by way of `renewed`. Exports go on saying the former words, since
boards and scripts of others rely on them. Pure.

Schemas 1 and 2 called the forwarding threads of every device by one device's name for its own, and had the caches of
that device as fields. Up to schema 3 a warning was a sentence, which has no kind but `Warn.OTHER`.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from pinchpoint.model.causes import Sign, Suspicion
from pinchpoint.model.hops import DropKind
from pinchpoint.model.measurement import THREAD_BUSY, Measurement, lookup_share
from pinchpoint.model.result import Band, Limit, Rate, ScenarioResult
from pinchpoint.model.study import CurvePoint
from pinchpoint.model.trial import BusyBy, ThreadLoad, Trial
from pinchpoint.model.warning import ResultWarning, Warn

LAST: Final = 3
"""The newest schema in these words."""

_METRICS: Final[Mapping[str, str]] = {
    "PMD busy": THREAD_BUSY,
    "simple match share": lookup_share("simple match"),
    "EMC share": lookup_share("EMC"),
    "SMC share": lookup_share("SMC"),
    "megaflow share": lookup_share("megaflow classifier"),
    "upcall share": lookup_share("upcalls"),
}
_LIMITS: Final[Mapping[str, str]] = {"pmd_core": Limit.FORWARDING_CORE}
_CAUSES: Final[Mapping[str, str]] = {"upcalls": "slow-path"}
_FIELDS: Final[Mapping[Any, Mapping[str, str]]] = {
    kind: {"pmds": "threads"} for kind in (Trial, Measurement, ScenarioResult)
}
_GONE_FIELDS: Final[Mapping[Any, frozenset[str]]] = {
    Band: frozenset({"best_fps"}),  # the load that was reached for a tenth of the time
    Rate: frozenset({"lapse"}),  # the share of the trials that the search left out of the rate
}
_WORDS: Final[Mapping[Any, Mapping[str, str]]] = {
    Limit: _LIMITS,
    DropKind: {"upcalls": DropKind.SLOW_PATH},
    Sign: {
        "upcalls for each frame": Sign.SLOW_PATH,
        "share of the forwarding thread's busy time that upcalls took": Sign.SLOW_PATH_TIME,
    },
}
_GONE_SIGNS: Final = frozenset({"exact-match cache without new entries", "signature-match cache in use"})
"""They said what was set, which devices are asked for now."""
_WORDS_IN_TEXT: Final[Mapping[tuple[Any, str], Mapping[str, str]]] = {
    (CurvePoint, "limit"): _LIMITS,
    (Suspicion, "cause"): _CAUSES,
}
"""Fields whose type is text, and which hold one of a few words."""
_DETAIL: Final = ("simple_match_hits", "emc_hits", "smc_hits", "megaflow_hits", "upcalls", "lost_upcalls")


def metric(name: str) -> str:
    """The name of a metric, which may be a former one: `thread busy at 20 kpps` of `PMD busy at 20 kpps`."""
    return _renamed(name, _METRICS)


def exported_metric(name: str) -> str:
    """The name by which exports have a metric."""
    return _renamed(name, _EXPORTED_METRICS)


def exported_limit(word: str) -> str:
    """The word by which exports have a limit."""
    return _EXPORTED_LIMITS.get(word, str(word))


def exported_cause(name: str) -> str:
    """The name by which exports have a cause."""
    return _EXPORTED_CAUSES.get(name, name)


def renewed(plain: Any, kind: Any) -> Any:
    """Plain data of a stored `kind`, of schema `LAST` or before, in the words of this version.

    What is malformed stays as it is: whoever reads strictly says where it stands.
    """
    if isinstance(kind, UnionType):
        for part in get_args(kind):
            plain = renewed(plain, part)
    elif isinstance(plain, str):
        if kind is ResultWarning:
            return {"kind": Warn.OTHER, "text": plain}
        return metric(plain) if kind is str else _WORDS.get(kind, {}).get(plain, plain)
    elif isinstance(plain, dict):
        return _object(plain, kind) if is_dataclass(kind) else _mapping(plain, get_args(kind))
    elif isinstance(plain, list) and get_origin(kind) is tuple:
        kinds = get_args(kind)
        kinds = kinds[:1] * len(plain) if kinds[-1:] == (...,) else kinds
        return [renewed(*pair) for pair in zip(plain, kinds, strict=True)] if len(kinds) == len(plain) else plain
    return plain


def with_sites(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stored scenario with its `sites`: before, it had the device's `remote`, and `engines` if one was elsewhere."""
    if "sites" in scenario:
        return scenario
    rest = {name: value for name, value in scenario.items() if name not in ("remote", "engines")}
    engines, remote = scenario.get("engines"), scenario.get("remote")
    placed = engines if isinstance(engines, list) else []
    others = [site for site in placed if not (isinstance(site, dict) and site.get("remote") == remote)]
    return {**rest, "sites": [{"remote": remote}, *others]}


def _mapping(plain: dict[str, Any], kinds: tuple[Any, ...]) -> dict[str, Any]:
    if len(kinds) != 2 or kinds[1] is object:
        return plain
    of_key, of_value = kinds
    kept = ((key, value) for key, value in plain.items() if of_key is not Sign or key not in _GONE_SIGNS)
    return {renewed(key, of_key): renewed(value, of_value) for key, value in kept}


def _object(plain: dict[str, Any], kind: Any) -> dict[str, Any]:
    if kind is ThreadLoad and "core" in plain:
        plain = _thread(plain)
    names, gone, kinds = _FIELDS.get(kind, {}), _GONE_FIELDS.get(kind, frozenset()), _kinds(kind)
    named = {names.get(name, name): value for name, value in plain.items() if name not in gone}
    return {name: _field(kind, name, value, kinds.get(name)) for name, value in named.items()}


def _field(kind: Any, name: str, value: Any, of: Any) -> Any:
    words = _WORDS_IN_TEXT.get((kind, name))
    return words.get(value, value) if words and isinstance(value, str) else renewed(value, of)


@cache
def _kinds(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _thread(plain: dict[str, Any]) -> dict[str, Any]:
    """A thread whose caches were fields. Only those that counted their cycles knew their clock."""
    kept = {name: value for name, value in plain.items() if name not in ("core", *_DETAIL)}
    detail = {name: plain[name] for name in _DETAIL if plain.get(name) is not None}
    by = BusyBy.PROCESSOR_TIME if plain.get("clock_hz") is None else BusyBy.CYCLES
    answered, lost = detail.get("upcalls"), detail.get("lost_upcalls", 0)
    are_counts = isinstance(answered, int) and isinstance(lost, int)
    return kept | {
        "cpu": plain["core"],
        "busy_by": None if plain.get("busy_share") is None else by,
        "slow_path": answered + lost if are_counts else None,
        "detail": detail,
    }


def _inverse(words: Mapping[str, str]) -> dict[str, str]:
    return {str(new): old for old, new in words.items()}


_EXPORTED_METRICS: Final = _inverse(_METRICS)
_EXPORTED_LIMITS: Final = _inverse(_LIMITS)
_EXPORTED_CAUSES: Final = _inverse(_CAUSES)


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """A metric of one thread begins with the thread's name and `: `, one at a load ends in ` at ` and the load."""
    thread, colon, rest = name.rpartition(": ")
    bare, at, load = rest.partition(" at ")
    return f"{thread}{colon}{names[bare]}{at}{load}" if bare in names else name
