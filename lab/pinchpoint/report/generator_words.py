"""What another generator was seen to send, in words."""

import math
from collections.abc import Iterator

from pinchpoint.model import units
from pinchpoint.model.limits import SATURATED
from pinchpoint.model.measurement import Foreign, Sent, Wire

STILL = 0.05  # share of the time without that core, from which nothing is said of evenness
FCS_BYTES = 4  # of the Ethernet check sequence, which sizes of scenarios include
EVENLY, BY_CHANCE = 0.5, 2.0  # variance over mean: less than the one, like a clock; more than the other, in bursts
REPLIES = 0.5  # share of the flows that were answered, from which the traffic goes both ways


def generator_lines(traffic: Foreign, own_fps: float | None) -> Iterator[str]:
    """Two lines a port that sent, then what holds for all; `own_fps` is the engine's own ceiling, None: not known."""
    sending = [stream for stream in traffic.sent if stream.frames or stream.missed]
    if not sending:
        yield f"the generator sent nothing ({traffic.ended}): {traffic.command}"
        return
    limit = _limit(traffic.wire)
    for stream in sending:
        parts = (_rate(stream, bool(limit)), _sizes(stream), _flows(stream), _checksums(stream))
        yield f"{stream.port}: {', '.join(filter(None, parts))}"
        yield f"  {_evenness(stream, traffic.wire)}"
        if stream.missed:
            yield f"  {units.counted(stream.missed, 'more frame')} came faster than they could be read: not looked into"
    yield f"{_ways(sending)}; {traffic.ended}"
    if limit:
        yield limit
    if own_fps is not None:
        times = math.fsum(stream.mean_fps for stream in sending) / own_fps
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


def _rate(stream: Sent, is_at_least: bool) -> str:
    least = "at least " if is_at_least else ""
    if stream.median_fps is None or stream.low_fps is None or stream.high_fps is None:
        return f"{least}{units.fps(stream.mean_fps)} over {stream.duration_s:.3g} s"
    if stream.missed:  # the periods hold only what was read
        return f"{least}{units.fps(stream.mean_fps)} in the mean of {stream.duration_s:.3g} s"
    low, high = units.fps(stream.low_fps), units.fps(stream.high_fps)
    return f"{least}{units.fps(stream.median_fps)}, 5 to 95 % of the time {low} to {high}"


def _sizes(stream: Sent) -> str:
    if not stream.frames:
        return ""
    if stream.shortest == stream.longest:
        return f"{stream.shortest + FCS_BYTES} B"
    mean = stream.mean_bytes + FCS_BYTES
    return f"{stream.shortest + FCS_BYTES} to {stream.longest + FCS_BYTES} B, {mean:.0f} in the mean"


def _flows(stream: Sent) -> str:
    if not stream.checked:
        return "none was looked into"
    if stream.not_ip == stream.checked:
        return "no IP"
    least = "" if _is_whole(stream) else "at least "
    return f"{least}{units.counted(stream.flows, 'flow')}"


def _checksums(stream: Sent) -> str:
    if not stream.checked:
        return ""
    wrong = units.counted(stream.wrong_checksums, "wrong checksum") if stream.wrong_checksums else "no wrong checksums"
    return f"{wrong} in {stream.checked:,} frames"


def _evenness(stream: Sent, wire: Wire) -> str:
    if wire.still > STILL:
        return f"how evenly is not known: the reading core stood still for {units.share(wire.still)} of the time"
    silence = f"longest silence {units.seconds(stream.longest_silence_s)}"
    if stream.dispersion is None:
        return silence
    word = "evenly" if stream.dispersion < EVENLY else "by chance" if stream.dispersion <= BY_CHANCE else "in bursts"
    return (
        f"came {word}: at most {units.counted(stream.most_in_1_ms, 'frame')} in 1 ms, variance over mean "
        f"{stream.dispersion:.3g}, {silence}"
    )


def _is_whole(stream: Sent) -> bool:
    """Whether every flow was counted."""
    return stream.checked == stream.frames and not stream.missed and not stream.flows_at_least


def _ways(sending: list[Sent]) -> str:
    if len(sending) == 1:
        return "one way"
    answered = sum(stream.answered_flows for stream in sending) / max(1, sum(stream.flows for stream in sending))
    if answered >= REPLIES:
        return f"both ways, {units.share(answered)} of the flows answered"
    if all(map(_is_whole, sending)):
        return "both ways, in flows of their own" if not answered else f"both ways, {units.share(answered)} answered"
    return f"both ways, at least {units.share(answered)} of the flows answered"
