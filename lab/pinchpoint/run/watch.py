"""A device that runs already: read again and again, and what the readings say together."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pinchpoint.account.ledger import places
from pinchpoint.causes.signs import of_device, offload_truth
from pinchpoint.causes.verdict import likely
from pinchpoint.dut.device import Attached, Device
from pinchpoint.host.interface import Host
from pinchpoint.measure.standing import bracket_of
from pinchpoint.model.watch import Reading, RecordHead, Watched
from pinchpoint.observe.snapshot import Observation, together
from pinchpoint.store.codec import SCHEMA


@dataclass(frozen=True)
class Recording:
    """What was kept of one device."""

    device: Device
    head: RecordHead
    readings: tuple[Reading, ...]

    def ahead(self, ahead_s: float) -> "Recording":
        """The same with a clock that was ahead put right."""
        return replace(self, readings=tuple(replace(reading, at_s=reading.at_s - ahead_s) for reading in self.readings))

    def within(self, begin_s: float, end_s: float) -> "Recording":
        """The readings that lie wholly in this time."""
        begun = (reading for reading in self.readings if begin_s <= reading.at_s - reading.elapsed_s)
        return replace(self, readings=tuple(reading for reading in begun if reading.at_s <= end_s))


def head_of(device: Device, attached: Attached, host: Host) -> RecordHead:
    """What is watched, as a recording begins with it."""
    where, now = host.name or host.release(), datetime.now(UTC).isoformat()
    place = attached.variant, attached.place, attached.ports
    return RecordHead(SCHEMA, device.kind, *place, where, now, attached.facts)


def readings(
    attached: Attached,
    every_s: float,
    is_over: Callable[[], bool],
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Reading]:
    """What changed in each `every_s` seconds, until `is_over`. Raises DutError once the device does not answer."""
    bracket = bracket_of(attached.collectors)
    bracket.open()
    next_s = now_s() + every_s
    while not is_over():
        sleep(max(0.0, next_s - now_s()))
        next_s += every_s
        seen = bracket.turn()
        yield Reading(time.time(), seen.elapsed_s, seen.differences, seen.gauges, seen.went_back)


def watched(device: Device, head: RecordHead, seen: Sequence[Reading]) -> Watched:
    """What these readings say together. Raises InputError if the device has no such variant."""
    parts = [Observation(reading.elapsed_s, reading.differences, reading.gauges, reading.went_back) for reading in seen]
    whole = together(parts)
    flat = whole.flat()
    hops = places(device.watched_graph(head.variant), flat, head.ports, whole.went_back)
    threads = device.loads(flat, whole.elapsed_s)
    signs = of_device(hops, threads, device.signs(flat))
    offload = offload_truth(signs.values, device.offload_limits(flat))
    return Watched(whole.elapsed_s, hops, threads, signs.values, likely(signs, device, flat), whole.went_back, offload)
