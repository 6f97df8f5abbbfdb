"""Values and patterns of header fields: how they are written, and what they are to the engine.

All patterns of a flow step together, as the model has it: frame n has value n mod count of each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.engine.streams import Increment, Op, RandomValues
from pinchpoint.model import headers
from pinchpoint.otg.shape import Leaf, whole


def _address(expected: str, form: headers.Format) -> Leaf:
    def convert(value: Any) -> int | None:
        try:
            return form.number(value)
        except ValueError:
            return None

    return Leaf(expected, convert)


MAC: Final = _address("a MAC address such as 02:00:00:00:00:01", headers.MAC)
IPV4: Final = _address("an IPv4 address", headers.IPV4)
IPV6: Final = _address("an IPv6 address", headers.IPV6)
ipv4_text, ipv6_text = headers.IPV4.text, headers.IPV6.text


def bits(width: int) -> Leaf:
    """A number of so many bits."""
    return whole(0, (1 << width) - 1)


def unused(note: str) -> Leaf:
    """What stands beside `auto`; `note` says which value that is."""
    return Leaf("a value that is not used", lambda _: True, note)


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
