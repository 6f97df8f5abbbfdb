"""Two standing benches measured in alternating slices: A B B A, within one request to the engine.

Host noise hits both within milliseconds, so that the ratio of their rates is known to a per cent where
the rates themselves move by a factor. What a slice measures is the rate forwarded under overload, and no other: it
counts arrivals, and whether a frame was lost is known only once the bench has drained. Cycles per packet are unknown: a
frozen thread's clock runs on, so that its counters hold the time of its freeze.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic

from pinchpoint.account.facts import distances_ns, mean_ns
from pinchpoint.engine.instrument import EngineResult, Slices, TrialRequest
from pinchpoint.measure.loop import Loop
from pinchpoint.measure.session import EPOCHS
from pinchpoint.model.duet import CALIBRATION, MEASURED, SIDES, Slice, Slicing, Stretch, pair_order
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.run.paired_benches import LivePair, of_side, prefix
from pinchpoint.stats.duet import BEST, counted, length_of, steady

Enough = Callable[[Sequence[Stretch]], bool]

ORDER = tuple(SIDES.index(side) for number in (0, 1) for side in pair_order(number))  # of a quad
STRETCH_S = 2.5  # of one request: what a kill can lose, and how often it is asked whether the slices are enough
FIRST_S = 0.3  # of the request that only finds out how much there is to overload
CALIBRATION_S = 0.6  # of one slicing that is tried: 15 quads of the longest slices but one
TIMES_THE_MOST = 2.5  # that either bench forwards: hosts move it by 1.6 within seconds, some by more
TOLERANCE = 0.03  # by which a part right after a thaw may forward less: half of what a ratio may lose or win by it

# The number of slices decides how precise a ratio is, hardly their length: the shortest that is steady is taken. Where
# caches need longer, several slices are in a row: long ones would each meet a pause of the engine's core.
CALIBRATED = (Slicing(0.006, 0.001, 0.002), Slicing(0.010, 0.002, 0.003), Slicing(0.020, 0.002, 0.006))
SLICINGS = (*CALIBRATED, *(Slicing(0.020, 0.002, 0.006, row, row // 2) for row in (2, 4)))
UNDECIDED = SLICINGS[1]  # where the host disturbs nearly every slice: short ones are the likeliest to be spared
RIGHT_AFTER_A_THAW = Slicing(0.010, 0.002, 0.0)  # measures what the others discard


class SliceRecord:
    """The slices of one A and B, those of an interrupted run first, which are measured no more."""

    def __init__(self, store: Callable[[Stretch], None], recorded: Iterable[Stretch] = (), point: str = "") -> None:
        """`store` gets each stretch as it ends; `point` of a sweep is B; empty: of a comparison."""
        self._store, self._point = store, point
        self.stretches = [stretch for stretch in recorded if stretch.scenario == point]
        self.build = 1  # number of the two benches that stand

    def keep(self, stretch: Stretch) -> None:
        """Add it, with what it is of."""
        name = f"{self._point}-{stretch.id}" if self._point else stretch.id
        marked = replace(stretch, id=name, scenario=self._point, benches=self.build)
        self._store(marked)
        self.stretches.append(marked)

    @property
    def measured_s(self) -> float:
        """Seconds of measured slices, those of an earlier run included."""
        return math.fsum(length_of(stretch) for stretch in self.stretches if stretch.phase == MEASURED)


class AlternatingSlices:
    """Slices of two benches that stand, on one engine."""

    def __init__(self, pair: LivePair, record: SliceRecord, enough: Enough = lambda _: False) -> None:
        """`record` has the slices so far, and gets each stretch as it ends."""
        self._pair, self._record, self._enough = pair, record, enough
        self._load_fps = self._most_fps = max(bench.scenario.search.max_load_fps for bench in pair.benches.values())
        self.loop = Loop("slices", record.keep, record.stretches, halt=pair.instrument.stop)

    def measure(self, length_s: float) -> None:
        """Calibrate, then slices until `length_s` of them are there or they are enough, recorded ones included.

        Raises Interrupted, EngineError or DutError, whatever is measured kept.
        """
        if length_s <= 0 or self._is_enough():
            return
        bench = self._pair.benches[SIDES[0]]
        bench.task.on_stoppable(self.loop)
        bench.task.listener.measurement_begins("slices", max(0.0, length_s - self._record.measured_s))
        slicing = self._recorded() or self._calibrated()
        while (left_s := length_s - self._record.measured_s) > 4 * slicing.in_a_row * slicing.length_s:
            if self._is_enough():
                return
            self.stretch(MEASURED, slicing, min(STRETCH_S, left_s))
            is_early = 2 * self._record.measured_s < length_s
            if is_early and steady(counted(self._record.stretches), TOLERANCE) is False:
                slicing = _longer(slicing)

    def _is_enough(self) -> bool:
        return self._record.measured_s > 0 and self._enough(self._record.stretches)

    def _recorded(self) -> Slicing | None:
        """How an interrupted comparison cut its last slices, whose load is offered again; None without such."""
        measured = counted(self._record.stretches)
        if not measured:
            return None
        self._load_fps = measured[-1].load_fps
        return measured[-1].slicing

    def _calibrated(self) -> Slicing:
        """The shortest slices after which a thaw is not seen; tried after what a thaw costs at all.

        So short a trial shows no small loss: it is looked for again in what is measured.
        """
        for length_s in (FIRST_S, CALIBRATION_S):
            self.stretch(CALIBRATION, RIGHT_AFTER_A_THAW, length_s)
        is_steady: bool | None = None
        for slicing in CALIBRATED:
            if is_steady := steady([self.stretch(CALIBRATION, slicing, CALIBRATION_S)], TOLERANCE):
                return slicing
        return UNDECIDED if is_steady is None else _longer(CALIBRATED[-1])

    def stretch(self, phase: str, slicing: Slicing, length_s: float) -> Stretch:
        """One request: `length_s` of alternating slices, each at the load that overloads the bench whose turn it is.

        Raises Interrupted, EngineError or DutError after keeping what there is.
        """
        request = self._request(slicing, length_s)
        started, began = datetime.now(UTC).isoformat(), monotonic()
        result = self._send(request)
        made = Stretch(
            id=request.trial_id,
            phase=phase,
            started=started,
            wall_s=monotonic() - began,
            load_fps=request.load_fps,
            ring=min(port.ring for bench in self._pair.benches.values() for port in bench.scenario.ports),
            slicing=slicing,
            slices=tuple(_slices(result)),
            reason=result.reason or "",
            cache_line_ns=mean_ns(distances_ns(result)),
        )
        self.loop.kept(made)
        if result.reason:
            raise DutError(f"the slices ended early: {result.reason}", "see engine.log in the run folder")
        self._choose_load(made)
        return made

    def _choose_load(self, seen: Stretch) -> None:
        """Next, by what was forwarded: enough for an overload, no more work for the engine than that."""
        rates = sorted(part.received / part.length_s for part in seen.slices if part.length_s)
        if rates and (best_fps := rates[int(BEST * (len(rates) - 1))]):
            self._load_fps = min(self._most_fps, TIMES_THE_MOST * best_fps)

    def _request(self, slicing: Slicing, length_s: float) -> TrialRequest:
        sides = {side: self._pair.benches[side].scenario for side in SIDES}
        streams = [of_side(stream, prefix(side)) for side, own in sides.items() for stream in own.streams]
        a, b = sides.values()
        first = len(a.streams)
        return TrialRequest(
            trial_id=self.loop.begin(),
            epoch=self.loop.number % EPOCHS,
            duration_s=length_s,
            drain_s=max(a.search.drain_s, b.search.drain_s),
            load_fps=self._load_fps,
            streams=tuple(streams),
            probe_cores=a.probed_cores,
            slices=Slices(
                groups=(tuple(range(first)), tuple(range(first, len(streams)))),
                order=tuple(place for place in ORDER for _ in range(slicing.in_a_row)),
                length_s=slicing.length_s,
                settle_s=slicing.settle_s,
                discard_s=slicing.discard_s,
                hold=tuple((pid,) for pid in self._pair.pids),
            ),
        )

    def _send(self, request: TrialRequest) -> EngineResult:
        try:
            with self.loop.running(lambda: self._pair.pids):  # a switch may have died between two requests
                return self._pair.instrument.run(request)
        finally:
            self._pair.thaw()


def _longer(slicing: Slicing) -> Slicing:
    """The next longer slicing; the longest has none."""
    known = SLICINGS.index(slicing) if slicing in SLICINGS else len(SLICINGS)  # another version may have cut others
    return SLICINGS[known + 1] if known + 1 < len(SLICINGS) else slicing


def _slices(result: EngineResult) -> Iterator[Slice]:
    for part in result.slices:
        if part.received is None:
            raise BenchError("the engine cannot count what arrives in a slice", "--method turns")
        yield Slice(
            side=SIDES[part.group],
            at_s=part.start_s,
            length_s=part.length_s,
            offered=part.offered,
            refused=part.refused,
            received=part.received,
            gap_s=part.gap_s,
            thawed=part.switch_s is not None,
            switch_s=part.switch_s,
        )
