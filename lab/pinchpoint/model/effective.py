"""An effective scenario, as run.json keeps it, as one row a key in the words of scenario files; pure."""

from collections.abc import Collection, Iterator, Mapping

_FILE_WORDS = {"streams": "stream", "ports": "port", "tx_port": "from", "rx_port": "to"}


def flat(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its value in words; elements of arrays count from 1, as in the file's errors."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            word = _FILE_WORDS.get(str(name), str(name))
            yield from flat(inner, f"{key}.{word}" if key else word)
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for place, item in enumerate(value, 1):
            yield from flat(item, f"{key}[{place}]")
    else:
        yield key, in_words(value)


def defaulted(scenario: Mapping[str, object]) -> frozenset[str]:
    """The keys that the file of an effective scenario left to their default, in the file's words."""
    listed = scenario.get("defaulted")
    return frozenset(str(key) for key in listed) if isinstance(listed, list | tuple | set | frozenset) else frozenset()


def within(key: str, keys: Collection[str]) -> bool:
    """Whether a key, as `flat` names it, is one of `keys` or belongs to one."""
    return key in keys or any(key.startswith((f"{one}.", f"{one}[")) for one in keys)


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
