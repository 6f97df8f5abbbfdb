"""Where an instruction writes: which field of which header, and how far from its end."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.profiles.said import Layer

# Field -> its first byte and its length: IEEE 802.3, RFC 791, RFC 768.
_FIELDS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "Ether": {"dst": (0, 6), "src": (6, 6), "type": (12, 2)},
    "IP": {
        "tos": (1, 1), "len": (2, 2), "id": (4, 2), "ttl": (8, 1), "proto": (9, 1), "chksum": (10, 2), "src": (12, 4),
        "dst": (16, 4),
    },
    "UDP": {"sport": (0, 2), "dport": (2, 2), "len": (4, 2), "chksum": (6, 2)},
}  # fmt: skip
HEADER_BYTES: Final = {"Ether": 14, "IP": 20, "UDP": 8}
_NAMED: Final = re.compile(r"(\w+)(?::(\d+))?(?:\.(\w+))?")


@dataclass(frozen=True)
class Place:
    """A field, and which of its bytes are written."""

    field: str  # e.g. "IP.src"
    bytes: int  # of the field
    behind: int  # bytes of the field after those that are written


def place(offset: int | str, fixup: int, size: int, layers: Sequence[Layer]) -> Place:
    """What `size` bytes at an offset are in packets of these layers. Raises ValueError with what is wrong."""
    first = (offset if isinstance(offset, int) else _named(offset, layers)) + fixup
    start = 0
    for layer in layers:
        for name, (at, length) in _FIELDS.get(layer.kind, {}).items():
            begin = start + at
            if begin <= first and first + size <= begin + length:
                return Place(f"{layer.kind}.{name}", length, begin + length - first - size)
        start += HEADER_BYTES.get(layer.kind, 0)
    raise ValueError(f"{size} bytes at offset {first} are not within one field of {_words(layers)}")


def _named(text: str, layers: Sequence[Layer]) -> int:
    found = _NAMED.fullmatch(text)
    name, nth, field = found.groups() if found else ("", None, None)
    start, seen = 0, 0
    for layer in layers:
        if layer.kind == name:
            if seen == int(nth or 0):
                fields = _FIELDS.get(name, {})
                if field and field not in fields:
                    raise ValueError(f"{text!r}: expected one of {', '.join(f'{name}.{one}' for one in fields)}")
                return start + (fields[field][0] if field else 0)
            seen += 1
        start += HEADER_BYTES.get(layer.kind, 0)
    raise ValueError(f"{text!r} is no field of {_words(layers)}")


def _words(layers: Sequence[Layer]) -> str:
    return "/".join(layer.kind for layer in layers)
