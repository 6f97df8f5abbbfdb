"""How rates, times and shares are written for people: three significant digits."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple, Self


class Worded(StrEnum):
    """A word of stored files, with its `words` for people: the same with blanks, where a member gives none."""

    words: str

    def __new__(cls, word: str, words: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.words = words or word.replace("_", " ")
        return member


class Step(NamedTuple):
    """A divisor and the word for what is divided by it, e.g. `(1e6, "Mpps")`."""

    divisor: float
    label: str


_LEAST_OF_COMMON: Final = 0.01  # of the largest value: what is smaller has a unit of its own
_DURATION: Final = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,7})s)?")


def _scaled(value: float, unit: str) -> str:
    step = step_of(value, unit)
    return f"{_three(value / step.divisor)} {step.label}"


def _three(value: float) -> str:
    return f"{value:.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    """Of three significant digits."""
    magnitude = abs(value)
    return 2 if magnitude < 9.995 else 1 if magnitude < 99.95 else 0


def _significant(value: float) -> int:
    """The same of values below 1, too."""
    return _decimals(value) if value >= 1 or value <= 0 else 2 - math.floor(math.log10(value))


_STEPS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "fps": ((1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")),
    "bit/s": ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
    "1/s": ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "share": ((0.01, "%"),),
}


def step_of(value: float, unit: str) -> Step:
    """In which a value of a unit (model/measurement.py) is at least 1; the smallest if in none, or if there is one."""
    steps = _STEPS.get(unit, ((1.0, "" if unit == "count" else unit),))
    return Step(*next((step for step in steps if abs(value) >= step[0]), steps[-1]))


def common(values: Iterable[float], unit: str) -> Step | None:
    """The step of the largest of these values, for all of them; None where some are too small beside it."""
    known = [value for value in values if value > 0]
    if not known or min(known) < _LEAST_OF_COMMON * max(known):
        return None
    return step_of(max(known), unit)


def fps(rate: float | None, step: Step | None = None) -> str:
    """A frame rate, e.g. `4.21 Mpps`, in the unit of `step` if one is given; `-` for None."""
    if rate is None or step is None:
        return "-" if rate is None else _scaled(rate, "fps")
    return f"{rate / step[0]:.{_significant(rate / step[0])}f} {step[1]}"


def nanoseconds(value: float | None) -> str:
    """A time, e.g. `6.50 us`; `-` for None."""
    return "-" if value is None else _scaled(value, "ns")


def share(value: float | None) -> str:
    """A share of one as a percentage, e.g. `97.3 %`; `-` for None."""
    return "-" if value is None else f"{_three(value * 100)} %"


def percent(value: float) -> str:
    """A share of one that is a round figure, e.g. `95 %`."""
    return f"{value * 100:.3g} %"


def frames(count: int | None) -> str:
    """A frame count with thousands separators; `-` for None."""
    return "-" if count is None else f"{count:,}"


def loss(ratio: float) -> str:
    """A loss ratio: `0` or a percentage with two significant digits."""
    return "0" if ratio == 0 else f"{Decimal(f'{ratio * 100:.2g}'):f} %"


def quantity_range(low: float, high: float, unit: str, step: Step | None = None) -> str:
    """Two values of a metric in one unit, with enough digits to tell them apart, e.g. `54.1 to 56.0 us`."""
    divisor, word = step or step_of(max(0.0, high), unit)
    first, last = low / divisor, high / divisor
    least = 0 if max(abs(first), abs(last)) >= 99.95 else 1 if abs(last) >= 9.995 else 2
    least = max(least, 2) if unit == "fps" else least
    least = least if step is None else max(least, _significant(last))
    decimals = next((digits for digits in range(least, 7) if last - first > 4.99 * 10.0**-digits), least)
    return f"{first:,.{decimals}f} to {last:,.{decimals}f} {word}".rstrip()


def beside(value: float, *others: float, unit: str, step: Step | None = None) -> str:
    """Other values in the unit that the first one is written in, without its word, e.g. `4.71 .. 5.02`."""
    divisor, _ = step or step_of(value, unit)
    least = _decimals(value / divisor) if step is None else _significant(value / divisor)
    apart = (max(others) - min(others)) / divisor
    decimals = next((digits for digits in range(least, 7) if apart > 4.99 * 10.0**-digits), least)
    return " .. ".join(f"{other / divisor:,.{decimals}f}" for other in others)


def duration(seconds: float) -> str:
    """A time as people plan it, e.g. `45 s`, `90 s`, `10 min`, `12 min 30 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes >= 60:
        hours, minutes = divmod(round(whole / 60), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def per_second(value: float | None) -> str:
    """How often something happens, e.g. `17.8 k/s`; `-` for None."""
    return "-" if value is None else _scaled(value, "1/s")


def seconds(value: float | None) -> str:
    """A time in seconds, e.g. `552 s` or `1.10 ms`; `-` for None."""
    return "-" if value is None else nanoseconds(value * 1e9)


def number(value: float) -> str:
    """A count: whole with thousands separators, else three significant digits."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else _three(value)


def parsed_duration(text: str) -> float | None:
    """Seconds of a time such as `90s`, `10m`, `1h` or `1h30m`; None if it is none, or not more than 0."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    return float(3600 * hours + 60 * minutes + seconds) or None


def counted(value: float, noun: str) -> str:
    """A count with its noun, e.g. `1 mask`, `12,000 datapath flows`, `2 benches`."""
    ending = "" if value == 1 else "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number(value)} {noun}{ending}"


def level(value: bool | int | float | str | None) -> str:
    """A factor's level, e.g. `65,536`, `on`, `any`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def times(ratio: float) -> str:
    """How many times one thing is another, e.g. `2.04 x`."""
    return f"{ratio:.3g} x" if ratio < 1 else f"{_three(ratio)} x"


_WRITERS: Mapping[str, Callable[[float], str]] = {"s": seconds, "x": times, "share": share, "count": number}


def quantity(value: float | None, unit: str) -> str:
    """A metric's value in its unit (model/measurement.py), e.g. `4.21 Gbit/s`; `-` for None."""
    if value is None or value == 0:
        return "-" if value is None else "0"
    if unit in _WRITERS:
        return _WRITERS[unit](value)
    return _scaled(value, unit) if unit in _STEPS else f"{number(value)} {unit}".strip()


AROUND_BYTES: Final = 20  # preamble, start of frame delimiter and the least gap (IEEE 802.3, 4.4.2)
FULL: Final = 0.99  # of its line rate, from which a link is the limit: clocks may differ by 0.01 % each way (3.1.1)


def wire_bits(frame_bytes: float) -> float:
    """Bits that a frame takes on the wire; `frame_bytes` has the frame check sequence."""
    return (frame_bytes + AROUND_BYTES) * 8
