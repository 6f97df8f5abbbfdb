"""An effective scenario, as run.json keeps it, as one row a key in the words of scenario files, and as TOML; pure."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pinchpoint.model import addresses

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_FILE_WORDS = {"streams": "stream", "ports": "port", "tx_port": "from", "rx_port": "to"}
_AS_WRITTEN = "layers"  # of a stream: each as the file has it
_OF_PORTS = ("udp_src", "udp_dst", "local_ports", "client_ports")  # ranges of these are of numbers, others of addresses


def flat(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its value in words; elements of arrays count from 1, as in the file's errors."""
    if ends := _ends(value):
        is_of_ports = key.endswith(_OF_PORTS)
        yield key, "-".join(dict.fromkeys(str(end) if is_of_ports else addresses.shown(end) for end in ends))
    elif isinstance(value, Mapping) and value:
        for name, inner in value.items():
            word = _FILE_WORDS.get(str(name), str(name))
            yield from flat(inner, f"{key}.{word}" if key else word)
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        is_written = key.endswith(_AS_WRITTEN)
        for place, item in enumerate(value, 1):
            name = f"{key}[{place}]"
            yield from ((name, toml_of(item)),) if is_written else flat(item, name)
    else:
        yield key, in_words(value)


def _ends(value: object) -> tuple[int, int] | None:
    """The first and the last of a range; None: it is none. Whoever made a stored run may have written anything."""
    if not isinstance(value, Mapping) or set(value) != {"first", "count"}:
        return None
    first, count = value["first"], value["count"]
    is_range = isinstance(first, int) and isinstance(count, int) and 0 <= first < first + count <= 1 << 128
    return (first, first + count - 1) if is_range else None


def defaulted(scenario: Mapping[str, object]) -> frozenset[str]:
    """The keys that the file of an effective scenario left to their default, in the file's words."""
    listed = scenario.get("defaulted")
    return frozenset(str(key) for key in listed) if isinstance(listed, list | tuple | set | frozenset) else frozenset()


def by_name(scenarios: Iterable[Mapping[str, object]]) -> dict[str, Mapping[str, Any]]:
    """Effective scenarios by their names."""
    return {str(scenario.get("name", "")): scenario for scenario in scenarios}


def table_in(scenario: Mapping[str, object], name: str) -> Mapping[str, Any]:
    """One of its tables; empty where it has none."""
    table = scenario.get(name)
    return table if isinstance(table, Mapping) else {}


def group_of(scenario: Mapping[str, object]) -> str:
    """The stem of its file, which points of one sweep share; empty where it does not say."""
    return str(table_in(scenario, "point").get("group", ""))


def within(key: str, keys: Collection[str]) -> bool:
    """Whether a key, as `flat` names it, is one of `keys` or belongs to one."""
    return key in keys or any(key.startswith((f"{table}.", f"{table}[")) for table in keys)


def in_words(value: object) -> str:
    """A value as text; `none` for what is empty or not set."""
    if isinstance(value, list | tuple):
        return ", ".join(in_words(item) for item in value) or "none"
    if isinstance(value, Mapping) or value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.10g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def toml_of(value: object) -> str:
    """A value as a scenario file would have it, in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(key)} = {toml_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def toml_key(name: str) -> str:
    """A key as it stands in front of its value, in quotation marks where it must."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
