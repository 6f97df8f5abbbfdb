"""Texts such as "50ms" and "3Mpps" as the numbers that keys of times and rates hold, in the unit of the key's name."""

import re
from collections.abc import Mapping
from typing import Final

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_PER_SECOND: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_FRAMES: Final = {f"{size}{unit}": number for size, number in _PER_SECOND.items() for unit in ("pps", "fps")}
UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "_s": _SECONDS,
    "_ms": {unit: seconds * 1e3 for unit, seconds in _SECONDS.items()},
    "_us": {unit: seconds * 1e6 for unit, seconds in _SECONDS.items()},
    "_fps": _FRAMES,
}
"""By the end of a key's name: what a unit is in that of the key."""
_QUANTITY: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-z]{1,4})")
_DIGITS: Final = 12  # significant: 0.2 ms are 0.0002 s, not 0.00020000000000000001


def in_unit_of(key: str, value: object) -> object:
    """The number that a text means for a key, element by element of a list; whatever is no such text stays."""
    if isinstance(value, list):
        return [in_unit_of(key, element) for element in value]
    units = next((units for ending, units in UNITS.items() if key.endswith(ending)), None)
    written = _QUANTITY.fullmatch(value) if units and isinstance(value, str) else None
    if units is None or written is None or written[2] not in units:
        return value
    return float(f"{float(written[1]) * units[written[2]]:.{_DIGITS}g}")
