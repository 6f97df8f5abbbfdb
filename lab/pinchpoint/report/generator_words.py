"""What another generator was seen to send, in words."""

from collections.abc import Iterator

from pinchpoint.model import units
from pinchpoint.model.generator import Foreign, Sent, Wire

BUSY = 0.95  # share of the time from which the wire's core is the limit
STILL = 0.05  # share of the time without that core, from which a generator may have waited for it
FCS_BYTES = 4  # of the Ethernet check sequence, which sizes of scenarios include
CHANCE = 1.5  # variance over mean up to which frames come no less evenly than by chance
REPLIES = 0.5  # share of the flows that were answered, from which the traffic goes both ways


def generator_lines(found: Foreign, own_fps: float | None) -> Iterator[str]:
    """Two lines a port that sent, then what holds for all; `own_fps` is the engine's own ceiling, None: not known."""
    sending = [one for one in found.sent if one.frames or one.missed]
    if not sending:
        yield f"the generator sent nothing ({found.ended}): {found.command}"
        return
    limit = _limit(found.wire) if found.wire else ""
    for one in sending:
        yield f"{one.port}: {_rate(one, bool(limit))}, {_sizes(one)}, {_flows(one)}, {_checksums(one)}"
        yield f"  {_evenness(one)}"
        if one.missed:
            yield f"  {one.missed:,} more frames came faster than they could be read: counted, not looked into"
    yield f"{_ways(sending)}; {found.ended}"
    if limit:
        yield limit
    if own_fps is not None:
        share = sum(one.mean_fps for one in sending) / own_fps
        yield f"the engine itself offers up to {units.fps(own_fps)} on this bench: {share:.2f} times that"


def _limit(wire: Wire) -> str:
    """Why the wire itself may have been the limit; empty if it was not."""
    if wire.still > STILL:
        still = units.share(wire.still)
        return f"the wire's core stood still for {still} of the time: does the generator use it, too?"
    if wire.busy > BUSY:
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
    if one.shortest == one.longest:
        return f"{one.shortest + FCS_BYTES} B"
    mean = one.mean_bytes + FCS_BYTES
    return f"{one.shortest + FCS_BYTES} to {one.longest + FCS_BYTES} B, {mean:.0f} in the mean"


def _flows(one: Sent) -> str:
    if one.not_ip == one.checked:
        return "no IP"
    least = "at least " if one.flows_at_least or one.checked < one.frames + one.missed else ""
    return f"{least}{one.flows:,} flow{'' if one.flows == 1 else 's'}"


def _checksums(one: Sent) -> str:
    if not one.wrong_checksums:
        return f"checksums right in all {one.checked:,} that were looked into"
    return f"checksums wrong in {one.wrong_checksums:,} of {one.checked:,}"


def _evenness(one: Sent) -> str:
    if one.dispersion is None:
        return f"longest silence {units.seconds(one.longest_silence_s)}"
    word = "evenly" if one.dispersion <= CHANCE else "in bursts"
    return (
        f"sent {word}: at most {one.most_in_1_ms:,} frames in 1 ms, variance over mean {one.dispersion:.3g}, longest "
        f"silence {units.seconds(one.longest_silence_s)}"
    )


def _ways(sending: list[Sent]) -> str:
    if len(sending) == 1:
        return "one way"
    answered = sum(one.answered_flows for one in sending) / max(1, sum(one.flows for one in sending))
    if answered >= REPLIES:
        return f"both ways, {units.share(answered)} of the flows answered"
    return "both ways, in flows of their own"
