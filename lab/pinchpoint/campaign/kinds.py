"""The kinds of values that campaign files have beside those of scenarios."""

import re
from typing import Any

from pinchpoint.keys import kinds
from pinchpoint.keys.kinds import Kind, check, is_plain
from pinchpoint.model.scenario import LAB

MOST_NAMES = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_TIME = re.compile(r"(?=\d)(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,7})s)?")


def name() -> Kind:
    """The name of a machine, a variant or a build: a part of names of scenarios and of files."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and _NAME.fullmatch(value) is not None)
        return str(value)

    return Kind("1 to 32 letters, digits, - or _, the first a letter or digit", read)


def names() -> Kind:
    """Different names."""
    one = name()

    def read(value: Any) -> tuple[str, ...]:
        check(isinstance(value, list) and 0 < len(value) <= MOST_NAMES)
        found = tuple(one.read(element) for element in value)
        check(len(set(found)) == len(found))
        return found

    return Kind("a list of different names, each " + one.expected, read)


def stems() -> Kind:
    """Names of scenario files without folder and ending."""

    def read(value: Any) -> tuple[str, ...]:
        check(isinstance(value, list) and 0 < len(value) <= MOST_NAMES)
        check(all(isinstance(one, str) and 0 < len(one) <= 100 and is_plain(one) and "/" not in one for one in value))
        check(len(set(value)) == len(value))
        return tuple(value)

    return Kind("a list of different names of scenario files, without folder and .toml", read)


def paths() -> Kind:
    """Paths of scenario files."""

    def read(value: Any) -> tuple[str, ...]:
        check(isinstance(value, list) and 0 < len(value) <= MOST_NAMES)
        check(all(isinstance(one, str) and is_plain(one) and one.endswith(".toml") for one in value))
        check(all(len(one) <= 1024 for one in value) and len(set(value)) == len(value))
        return tuple(value)

    return Kind("a list of different paths of scenario files (.toml), from the campaign file's folder", read)


def path() -> Kind:
    """The path of a scenario file."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and is_plain(value) and value.endswith(".toml") and len(value) <= 1024)
        return str(value)

    return Kind("the path of a scenario file (.toml), from the campaign file's folder", read)


def hosts() -> Kind:
    """Addresses by the names that scenarios have for these hosts."""
    named, address = kinds.machine_name(), kinds.destination()

    def read(value: Any) -> dict[str, str]:
        check(isinstance(value, dict) and 0 < len(value) <= MOST_NAMES and LAB not in value)
        found = {named.read(name): address.read(one) for name, one in value.items()}
        check(len(set(found.values())) == len(found))
        return found

    return Kind(
        f'a table NAME = "ADDRESS" of different addresses, each {address.expected}, no NAME being "{LAB}"', read
    )


def duration() -> Kind:
    """A time, as seconds."""

    def read(value: Any) -> float:
        check(isinstance(value, str))
        found = _TIME.fullmatch(value)
        check(found is not None)
        assert found is not None
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        check(3600 * hours + 60 * minutes + seconds > 0)
        return float(3600 * hours + 60 * minutes + seconds)

    return Kind('a time like "90s", "10m" or "1h30m"', read)
