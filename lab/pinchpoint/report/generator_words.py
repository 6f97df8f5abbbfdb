"""What another generator was seen to send, in words."""

import math
from collections.abc import Iterator

from pinchpoint.model import units
from pinchpoint.model.generator import Foreign, Sent, Wire
from pinchpoint.model.limits import SATURATED

STILL = 0.05  # share of the time without that core, from which nothing is said of evenness
FCS_BYTES = 4  # of the Ethernet check sequence, which sizes of scenarios include
EVENLY, BY_CHANCE = 0.5, 2.0  # variance over mean: less than the one, like a clock; more than the other, in bursts
REPLIES = 0.5  # share of the flows that were answered, from which the traffic goes both ways


def generator_lines(found: Foreign, own_fps: float | None) -> Iterator[str]:
    """Two lines a port that sent, then what holds for all; `own_fps` is the engine's own ceiling, None: not known."""
    sending = [one for one in found.sent if one.frames or one.missed]
    if not sending:
        yield f"the generator sent nothing ({found.ended}): {found.command}"
        return
    limit = _limit(found.wire)
    for one in sending:
        parts = (_rate(one, bool(limit)), _sizes(one), _flows(one), _checksums(one))
        yield f"{one.port}: {', '.join(filter(None, parts))}"
        yield f"  {_evenness(one, found.wire)}"
        if one.missed:
            yield f"  {units.counted(one.missed, 'more frame')} came faster than they could be read: not looked into"
    yield f"{_ways(sending)}; {found.ended}"
    if limit:
        yield limit
    if own_fps is not None:
        times = math.fsum(one.mean_fps for one in sending) / own_fps
        yield f"it sent {times:.2f} times the {units.fps(own_fps)} of the scenario's frames that the engine offers here"


def _limit(wire: Wire) -> str:
    """Why the wire itself may have been the limit; empty if it was not."""
    if not wire.carries:
        return ""
    if wire.still > STILL:
        still = units.share(wire.still)
        return f"the wire's core stood still for {still} of the time: does the generator use it, too?"
    if wire.busy > SATURATED:
        return f"the wire's core was busy for {units.share(wire.busy)} of the time: it may be the limit"
    return ""


def _rate(one: Sent, is_at_least: bool) -> str:
    least = "at least " if is_at_least else ""
    if one.median_fps is None or one.low_fps is None or one.high_fps is None:
        return f"{least}{units.fps(one.mean_fps)} over {one.duration_s:.3g} s"
    if one.missed:  # the periods hold only what was read
        return f"{least}{units.fps(one.mean_fps)} in the mean of {one.duration_s:.3g} s"
    low, high = units.fps(one.low_fps), units.fps(one.high_fps)
    return f"{least}{units.fps(one.median_fps)}, 5 to 95 % of the time {low} to {high}"


def _sizes(one: Sent) -> str:
    if not one.frames:
        return ""
    if one.shortest == one.longest:
        return f"{one.shortest + FCS_BYTES} B"
    mean = one.mean_bytes + FCS_BYTES
    return f"{one.shortest + FCS_BYTES} to {one.longest + FCS_BYTES} B, {mean:.0f} in the mean"


def _flows(one: Sent) -> str:
    if not one.checked:
        return "none was looked into"
    if one.not_ip == one.checked:
        return "no IP"
    least = "" if _is_whole(one) else "at least "
    return f"{least}{units.counted(one.flows, 'flow')}"


def _checksums(one: Sent) -> str:
    if not one.checked:
        return ""
    wrong = f"{one.wrong_checksums:,}" if one.wrong_checksums else "no"
    return f"{wrong} wrong checksum{'' if one.wrong_checksums == 1 else 's'} in {one.checked:,} frames"


def _evenness(one: Sent, wire: Wire) -> str:
    if wire.still > STILL:
        return f"how evenly is not known: the reading core stood still for {units.share(wire.still)} of the time"
    silence = f"longest silence {units.seconds(one.longest_silence_s)}"
    if one.dispersion is None:
        return silence
    word = "evenly" if one.dispersion < EVENLY else "by chance" if one.dispersion <= BY_CHANCE else "in bursts"
    return (
        f"came {word}: at most {units.counted(one.most_in_1_ms, 'frame')} in 1 ms, variance over mean "
        f"{one.dispersion:.3g}, {silence}"
    )


def _is_whole(one: Sent) -> bool:
    """Whether every flow was counted."""
    return one.checked == one.frames and not one.missed and not one.flows_at_least


def _ways(sending: list[Sent]) -> str:
    if len(sending) == 1:
        return "one way"
    answered = sum(one.answered_flows for one in sending) / max(1, sum(one.flows for one in sending))
    if answered >= REPLIES:
        return f"both ways, {units.share(answered)} of the flows answered"
    if all(map(_is_whole, sending)):
        return "both ways, in flows of their own" if not answered else f"both ways, {units.share(answered)} answered"
    return f"both ways, at least {units.share(answered)} of the flows answered"
