"""The longest burst without loss: a search over a length in frames, by whether a burst of it loses any."""

from collections.abc import Callable
from dataclasses import dataclass

GALLOP = 2.0  # factor from one length to the next while nothing is known


@dataclass(frozen=True)
class Bounds:
    """Lengths in frames. `lossless` 0: even one frame was lost; `lossy` None: the longest allowed was not."""

    lossless: int
    lossy: int | None


def longest_burst(
    loses: Callable[[int], bool], start: int, most: int, relative_width: float, gallop: float = GALLOP
) -> Bounds:
    """Bounds of the longest burst that loses nothing, at most `most` frames.

    From `start` outwards by ever larger factors until one length loses and another does not, then by
    halves until they are within `relative_width` of the upper one, or neighbours. `gallop` is the first factor:
    near 1 where `start` is known to be close. Each length is asked once.
    """
    low, high = 0, None
    length = max(1, min(start, most))
    factor = gallop
    while high is None or low == 0:
        if loses(length):
            high = length
            if low or length == 1:
                break
            length = max(1, min(length - 1, int(length / factor)))
        else:
            low = length
            if high is not None or length == most:
                break
            length = min(most, max(length + 1, int(length * factor)))
        factor = min(GALLOP, factor * factor)
    while high is not None and high - low > max(1, relative_width * high):
        middle = (low + high) // 2
        low, high = (low, middle) if loses(middle) else (middle, high)
    return Bounds(low, high)
