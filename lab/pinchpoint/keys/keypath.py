"""Paths of keys as users write them, array elements counted from 1: `stream[1].flows`."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.source import dotted

LONGEST_PATH = 200
_PART = re.compile(r"([A-Za-z0-9_-]{1,64})(?:\[([1-9][0-9]{0,5})\])?")


def key_path(text: str) -> Path | None:
    """`stream[1].flows` as ("stream", 0, "flows"); None if the text is no such path."""
    if len(text) > LONGEST_PATH:
        return None
    path: Path = ()
    for part in text.split("."):
        found = _PART.fullmatch(part)
        if not found:
            return None
        path = (*path, found[1], *([int(found[2]) - 1] if found[2] else []))
    return path


def path_text(path: Path) -> str:
    """A path as `key_path` reads it: ("stream", 0, "flows") as `stream[1].flows`."""
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def key_at(path: Path, tables: Sequence[Table]) -> tuple[Table, Key] | None:
    """The key that a path names, with its table; None if it names none.

    A path into `dut.other_config` names that key.
    """
    arrays = {table.name for table in tables if table.at_most}
    for table in tables:
        shape = (table.name, "NAME") if table.is_named else _shape(table.name, arrays)
        here, rest = path[: len(shape)], path[len(shape) :]
        fits = all(_fits(part, want) for part, want in zip(here, shape, strict=False))
        if table.is_named:
            fits = here[:1] == shape[:1] and isinstance(here[-1], str)
        if len(here) < len(shape) or not fits:
            continue
        for key in table.keys:
            if rest[:1] == (key.name,) and (len(rest) == 1 or (len(rest) == 2 and key.name == "other_config")):
                return table, key
    return None


def nearest(text: str, tables: Sequence[Table]) -> str:
    """The most likely path meant; empty if none is near."""
    arrays = {table.name for table in tables if table.at_most}
    known = [
        dotted((*_shape(table.name, arrays), key.name)) for table in tables if not table.is_named for key in table.keys
    ]
    return next(iter(get_close_matches(text[:LONGEST_PATH], known, 1)), "")


def _shape(name: str, arrays: AbstractSet[str]) -> Path:
    """A table's path, with the first element of each array on the way."""
    path: Path = ()
    so_far: list[str] = []
    for part in name.split(".") if name else ():
        so_far.append(part)
        path = (*path, part, 0) if ".".join(so_far) in arrays else (*path, part)
    return path


def _fits(part: str | int, want: str | int) -> bool:
    return isinstance(part, int) if isinstance(want, int) else part == want
