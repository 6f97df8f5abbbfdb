"""Patterns of header fields: what they may be, and what they are to the engine.

All patterns of a flow step together, as the model has it: frame n has value n mod count of each.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.engine.streams import Increment, Op, RandomValues
from pinchpoint.otg.shape import Choice, Kind, Leaf, Many, Only, Record, Refused, whole

TAGS: Final = Refused("frames are counted by flow, not by tags")
FIXED: Final = "the engine varies no such field"
FILLED_IN: Final = "filled in"
_VARYING: Final = ("values", "increment", "decrement")
MOST_VALUES: Final = 1000
MOST_COUNT: Final = 1 << 32
_MAC = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")


def _mac(value: Any) -> int | None:
    return int(value.replace(":", ""), 16) if isinstance(value, str) and _MAC.fullmatch(value) else None


def _ipv4(value: Any) -> int | None:
    try:
        return int(ipaddress.IPv4Address(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _ipv6(value: Any) -> int | None:
    try:
        return int(ipaddress.IPv6Address(value)) if isinstance(value, str) and "%" not in value else None
    except ValueError:
        return None


MAC: Final = Leaf("a MAC address such as 02:00:00:00:00:01", _mac)
IPV4: Final = Leaf("an IPv4 address", _ipv4)
IPV6: Final = Leaf("an IPv6 address", _ipv6)


def mac_text(number: int) -> str:
    """A MAC address in the usual form."""
    return ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))


def ipv4_text(number: int) -> str:
    """An IPv4 address in dotted form."""
    return str(ipaddress.IPv4Address(number))


def ipv6_text(number: int) -> str:
    """An IPv6 address (RFC 5952)."""
    return str(ipaddress.IPv6Address(number))


def bits(width: int) -> Leaf:
    """A number of so many bits."""
    return whole(0, (1 << width) - 1)


def unused(note: str) -> Leaf:
    """What stands beside `auto`; `note` says which value that is."""
    return Leaf("a value that is not used", lambda _: True, note)


def _pattern(options: Mapping[str, Kind], auto: str = "") -> Choice:
    """`auto`: what a field is that the configuration leaves to it; empty: it is not left to anything."""
    if auto:
        options = {**options, "auto": unused(auto)}
    return Choice(options, "auto" if auto else "value", {"metric_tags": TAGS})


def varying(leaf: Leaf, *, default: Any = 0, auto: bool = False, random: bool = False, top: int = 0xFFFF) -> Choice:
    """A field that the engine varies. `default` is the model's."""
    number = {"start": leaf, "step": leaf, "count": whole(1, MOST_COUNT)}
    counter = Record(number, (), {"start": default, "step": 1, "count": 1})
    options: dict[str, Kind] = {
        "value": leaf, "values": Many(leaf, MOST_VALUES), "increment": counter, "decrement": counter
    }  # fmt: skip
    if random:
        drawn = {"min": leaf, "max": leaf, "seed": whole(0, (1 << 32) - 1), "count": whole(1, MOST_COUNT)}
        options["random"] = Record(drawn, (), {"min": 0, "max": top, "seed": 1, "count": 1})
    return _pattern(options, "the next hop's, by port or device" if auto else "")


def varying_address(leaf: Leaf, *, random: bool) -> Choice:
    """An address of IP that the engine varies."""
    return _pattern({**varying(leaf, random=random, top=(1 << 32) - 1).options, "auto": Refused("no DHCP")})


def constant(leaf: Kind, *, auto: bool = False) -> Choice:
    """A field with one value for all frames."""
    return _pattern({"value": leaf, **dict.fromkeys(_VARYING, Refused(FIXED))}, FILLED_IN if auto else "")


def filled_in(*, auto: bool = True) -> Choice:
    """A field that the engine fills in, as `auto`; or that must be as the engine has it."""
    refused = Refused("the engine fills this field in")
    return _pattern(dict.fromkeys(("value", *_VARYING), refused), FILLED_IN if auto else "")


def always(value: int, why: str) -> Choice:
    """A field that has one value in every frame of the engine."""
    return constant(Only((value,), why))


CHECKSUM: Final = Choice(
    {
        "generated": Only(("good", "bad"), "right, or wrong in every frame"),
        "custom": Refused("checksums are right, or wrong by a constant difference"),
    },
    "generated",
    {},
    {"generated": "good"},
)


@dataclass(frozen=True)
class Program:
    """What a pattern is to the engine: the template's value, and how it varies."""

    base: int
    op: Op | None = None
    count: int = 1
    seed: int | None = None


def program(pattern: Mapping[str, Any], fold: Callable[[int], int] = int) -> Program:
    """The program of a varying pattern that is not `auto`; `fold` makes the engine's number of a value.

    Raises ValueError with what is wrong.
    """
    kind = pattern["choice"]
    span = pattern[kind]
    if kind == "value":
        return Program(span if isinstance(span, int) else 0)
    if kind == "values":
        return _listed(span, fold)
    if kind == "random":
        if span["min"] > span["max"]:
            raise ValueError("min is greater than max")
        drawn = RandomValues(fold(span["min"]), fold(span["max"]), span["count"])
        return Program(span["min"], Op(random=drawn), span["count"], span["seed"])
    step = fold(span["step"]) if kind == "increment" else -fold(span["step"])
    if abs(step) >= 1 << 63:
        raise ValueError("the step is too large")
    if span["count"] == 1:
        return Program(span["start"])
    return Program(span["start"], Op(increment=Increment(step, span["count"])), span["count"])


def _listed(values: list[int], fold: Callable[[int], int]) -> Program:
    if not values:
        raise ValueError("values is empty")
    if len({value - fold(value) for value in values}) > 1:
        raise ValueError("only the low 64 bits of an IPv6 address vary: the high ones must be the same")
    if len(values) == 1:
        return Program(values[0])
    return Program(values[0], Op(list=tuple(fold(value) for value in values)), len(values))


def low_half(address: int) -> int:
    """The bits of an IPv6 address that the engine varies."""
    return address & ((1 << 64) - 1)
