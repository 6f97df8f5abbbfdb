"""Paths of keys as users write them, array elements counted from 1: `stream[1].flows`."""

import re

from pinchpoint.scenario.lexical import Path

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
