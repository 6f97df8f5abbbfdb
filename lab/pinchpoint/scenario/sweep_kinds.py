"""The kinds of values that sweeps and studies have beside those of scenarios."""

import math
import re
from typing import Any

from pinchpoint.keys.keypath import key_path
from pinchpoint.keys.kinds import Kind, MismatchError, check, is_plain
from pinchpoint.model.scenario import Level

MOST_LEVELS = 256
MOST_PAIRS = 10_000
LONGEST_LEVEL = 60
LONGEST_PROSE = 10_000
_FACTOR = re.compile(r"[A-Za-z][A-Za-z0-9 _-]{0,39}")
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def level(value: Any) -> Level:
    """One level: true or false, a finite number, or a short text. Raises MismatchError."""
    check(isinstance(value, bool | int | float | str))
    if isinstance(value, str):
        check(0 < len(value) <= LONGEST_LEVEL and is_plain(value))
    elif not isinstance(value, bool):
        check(abs(value) < 2**53 and not math.isnan(value))
    found: Level = value
    return found


def levels() -> Kind:
    """Different levels, in their order."""

    def read(value: Any) -> tuple[Level, ...]:
        check(isinstance(value, list) and 0 < len(value) <= MOST_LEVELS)
        found = tuple(level(element) for element in value)
        check(len({(isinstance(one, bool), one) for one in found}) == len(found))
        return found

    return Kind("a list of different numbers, texts, or true and false", read)


def level_name() -> Kind:
    """A level that is a text."""

    def read(value: Any) -> str:
        check(isinstance(value, str))
        return str(level(value))

    return Kind(f"one line of text, 1 to {LONGEST_LEVEL} characters", read)


def level_table() -> Kind:
    """A level for each of some names."""

    def read(value: Any) -> dict[str, Level]:
        check(isinstance(value, dict) and len(value) <= 16)
        check(all(len(name) <= LONGEST_LEVEL and is_plain(name) for name in value))
        return {name: level(one) for name, one in value.items()}

    return Kind("a table of numbers, texts, and true or false", read)


def factor_name() -> Kind:
    """The name of a factor."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and _FACTOR.fullmatch(value) is not None)
        return str(value)

    return Kind("1 to 40 letters, digits, blanks, - or _, the first one a letter", read)


def key_paths() -> Kind:
    """Different paths of keys; whether they name keys is judged elsewhere."""

    def read(value: Any) -> tuple[str, ...]:
        check(isinstance(value, list) and 0 < len(value) <= 64)
        for element in value:
            check(isinstance(element, str))
            if key_path(element) is None:
                raise MismatchError('keys like "dut.cascade" or "stream[1].flows"')
        check(len(set(value)) == len(value))
        return tuple(value)

    return Kind('a list of different keys like "dut.cascade" or "stream[1].flows"', read)


def pairs() -> Kind:
    """Pairs of a level and a figure."""

    def read(value: Any) -> tuple[tuple[Level, float], ...]:
        check(isinstance(value, list) and 0 < len(value) <= MOST_PAIRS)
        return tuple(_pair(element) for element in value)

    return Kind("a list of pairs [level, figure]", read)


def _pair(value: Any) -> tuple[Level, float]:
    check(isinstance(value, list) and len(value) == 2)
    figure = level(value[1])
    check(isinstance(figure, int | float) and not isinstance(figure, bool))
    return level(value[0]), float(figure)


def prose() -> Kind:
    """Text of several lines without control characters."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and len(value) <= LONGEST_PROSE)
        check(all(is_plain(line) for line in value.replace("\t", " ").split("\n")))
        return str(value).strip()

    return Kind(f"text of one or several lines, at most {LONGEST_PROSE:,} characters", read)


def word_like() -> Kind:
    """A word of letters, digits and a few marks."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and _WORD.fullmatch(value) is not None)
        return str(value)

    return Kind("a word of up to 64 letters, digits, '.', '_' or '-', the first a letter or digit", read)


def file_stems() -> Kind:
    """Names of files of one folder, without their ending."""

    def read(value: Any) -> tuple[str, ...]:
        check(isinstance(value, list) and 0 < len(value) <= 256)
        check(all(isinstance(name, str) and _STEM.fullmatch(name) for name in value))
        check(len(set(value)) == len(value))
        return tuple(value)

    return Kind("a list of different file names without folder and without .toml", read)


def file_name(ending: str) -> Kind:
    """The name of a file of the same folder."""

    def read(value: Any) -> str:
        stem = str(value).removesuffix(f".{ending}")
        check(isinstance(value, str) and stem != value and _STEM.fullmatch(stem) is not None)
        return str(value)

    return Kind(f"the name of a .{ending} file, without folder", read)
