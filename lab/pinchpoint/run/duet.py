"""Two standing benches measured in alternating slices: A B B A, within one request to the engine.

What the host does meets both within milliseconds, so that the ratio of their rates is known to a per cent where
the rates themselves move by a factor. What a slice measures is the rate forwarded under overload, and no other: it
counts arrivals, and whether a frame was lost is known only once the bench has drained. Cycles per packet are unknown: a
frozen thread's clock runs on, so that its counters hold the time of its freeze.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from time import monotonic

from pinchpoint.engine.instrument import EngineResult, Slices, TrialRequest
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.standing import Interrupted, Standing
from pinchpoint.measure.trial import EPOCHS
from pinchpoint.measure.warm_up import warm_up
from pinchpoint.model.duet import CALIBRATION, MEASURED, Slice, Slicing, Stretch
from pinchpoint.model.errors import BenchError, DutError, EngineError
from pinchpoint.model.trial import WARM_UP
from pinchpoint.run.paired_benches import SIDES, Pair, connected, frozen, measurer_of, of_side, prefix
from pinchpoint.stats.duet import BEST, counted, length_of, steady

Enough = Callable[[Sequence[Stretch]], bool]

ORDER = (0, 1, 1, 0)  # places of SIDES: a linear drift over a quad meets both alike
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


def measure_duet(
    a: Standing,
    b: Standing,
    length_s: float,
    keep: Callable[[Stretch], None],
    recorded: Sequence[Stretch] = (),
    enough: Enough = lambda _: False,
    first: Callable[[Pair], None] = lambda _: None,
    then: Callable[[Pair], None] = lambda _: None,
) -> tuple[str, ...]:
    """Slices of any two benches that stand, `length_s` at most; `keep` gets each stretch as it ends.

    They end before that once all stretches are `enough`. `first` has the benches, warm, before the slices, `then` after
    them.

    A point of a sweep is compared with its group's reference the same way: the reference stands on, and the engine
    is opened for each pair of them (run/reference_bench.py). Returns warnings. Raises what the engine and the
    switches raise, and Interrupted once a signal has ended a stretch.
    """
    with connected(a, b) as pair, kept_off(a.scenario.dut.cpus, a.host):
        warnings = learn(pair)
        first(pair)
        duet = Duet(pair, keep, recorded, enough)
        a.on_stoppable(duet)
        a.listener.measurement_begins("slices", max(0.0, length_s - duet.measured_s))
        duet.measure(length_s)
        then(pair)
    return warnings


class Duet:
    """Slices of two benches that stand, on one engine."""

    def __init__(
        self,
        pair: Pair,
        keep: Callable[[Stretch], None],
        recorded: Sequence[Stretch] = (),
        enough: Enough = lambda _: False,
    ) -> None:
        """`recorded`: stretches of an interrupted comparison, which are measured no more."""
        self._enough = enough
        self._pair = pair
        self._keep = keep
        self._count = len(recorded)
        self._load_fps = max(bench.scenario.search.max_load_fps for bench in pair.benches.values())
        self._most_fps = self._load_fps
        self._stop_requested = False
        self._sending = False
        self.stretches = list(recorded)

    def stop(self) -> None:
        """End the running stretch and raise Interrupted once it is kept; for signal handlers."""
        self._stop_requested = True
        if self._sending:
            self._pair.instrument.stop()

    def measure(self, length_s: float) -> None:
        """Calibrate, then slices until `length_s` of them are there or they are enough, recorded ones included.

        Raises Interrupted, EngineError or DutError, whatever is measured kept.
        """
        if length_s <= 0 or (self.measured_s and self._enough(self.stretches)):
            return
        slicing = self._recorded() or self._calibrated()
        while (left_s := length_s - self.measured_s) > 4 * slicing.in_a_row * slicing.length_s:
            if self.measured_s and self._enough(self.stretches):
                return
            self._overload(self.stretch(MEASURED, slicing, min(STRETCH_S, left_s), self._load_fps))
            if 2 * self.measured_s < length_s and steady(counted(self.stretches), TOLERANCE) is False:
                slicing = _longer(slicing)

    @property
    def measured_s(self) -> float:
        """Seconds of measured slices, those of an earlier run included."""
        return math.fsum(length_of(stretch) for stretch in self.stretches if stretch.phase == MEASURED)

    def _recorded(self) -> Slicing | None:
        """How an interrupted comparison cut its last slices, whose load is offered again; None without such."""
        measured = counted(self.stretches)
        if not measured:
            return None
        self._load_fps = measured[-1].load_fps
        return measured[-1].slicing

    def _calibrated(self) -> Slicing:
        """The shortest slices after which a thaw is not seen; tried after what a thaw costs at all.

        So short a trial shows no small loss: it is looked for again in what is measured.
        """
        self._overload(self.stretch(CALIBRATION, RIGHT_AFTER_A_THAW, FIRST_S, self._load_fps))
        self._overload(self.stretch(CALIBRATION, RIGHT_AFTER_A_THAW, CALIBRATION_S, self._load_fps))
        is_steady: bool | None = None
        for slicing in CALIBRATED:
            tried = self.stretch(CALIBRATION, slicing, CALIBRATION_S, self._load_fps)
            self._overload(tried)
            if is_steady := steady([tried], TOLERANCE):
                return slicing
        return UNDECIDED if is_steady is None else _longer(CALIBRATED[-1])

    def _overload(self, seen: Stretch) -> None:
        """Choose the next load by what was forwarded: enough for an overload, no more work for the engine than that."""
        rates = sorted(part.received / part.length_s for part in seen.slices if part.length_s)
        if rates and (best_fps := rates[int(BEST * (len(rates) - 1))]):
            self._load_fps = min(self._most_fps, TIMES_THE_MOST * best_fps)

    def stretch(self, phase: str, slicing: Slicing, length_s: float, load_fps: float) -> Stretch:
        """One request: `length_s` of alternating slices, `load_fps` offered to the bench whose turn it is.

        Raises Interrupted, EngineError or DutError after keeping what there is.
        """
        self._count += 1
        request = self._request(f"slices-{self._count:04d}", slicing, length_s, load_fps)
        started, began = datetime.now(UTC).isoformat(), monotonic()
        result = self._send(request)
        made = Stretch(
            id=request.trial_id,
            phase=phase,
            started=started,
            wall_s=monotonic() - began,
            load_fps=load_fps,
            ring=min(port.ring for bench in self._pair.benches.values() for port in bench.scenario.ports),
            slicing=slicing,
            slices=tuple(_slices(result)),
            reason=result.reason or "",
            cache_line_ns=_cache_line_ns(result),
        )
        self.stretches.append(made)
        self._keep(made)
        if self._stop_requested:
            raise Interrupted("interrupted", "--resume RUN continues where it stopped")
        if result.reason:
            raise DutError(f"the slices ended early: {result.reason}", "see engine.log in the run folder")
        return made

    def _request(self, trial_id: str, slicing: Slicing, length_s: float, load_fps: float) -> TrialRequest:
        a, b = (self._pair.benches[side].scenario for side in SIDES)
        streams = [
            of_side(stream, prefix(side)) for side, bench in zip(SIDES, (a, b), strict=True) for stream in bench.streams
        ]
        first = len(a.streams)
        pids = self._pair.pids
        return TrialRequest(
            trial_id=trial_id,
            epoch=self._count % EPOCHS,
            duration_s=length_s,
            drain_s=max(a.search.drain_s, b.search.drain_s),
            load_fps=load_fps,
            streams=tuple(streams),
            probe_cores=a.probed_cores,
            slices=Slices(
                groups=(tuple(range(first)), tuple(range(first, len(streams)))),
                order=tuple(place for place in ORDER for _ in range(slicing.in_a_row)),
                length_s=slicing.length_s,
                settle_s=slicing.settle_s,
                discard_s=slicing.discard_s,
                hold=tuple((pid,) for pid in pids),
            ),
        )

    def _send(self, request: TrialRequest) -> EngineResult:
        self._sending = True
        try:
            return self._pair.instrument.run(request)
        except EngineError:
            _ = self._pair.pids  # a switch that died between two requests is the error, not the engine that misses it
            raise
        finally:
            self._sending = False
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


def _cache_line_ns(result: EngineResult) -> float | None:
    known = [probe for probe in (result.cache_line_before_ns, result.cache_line_after_ns) if probe is not None]
    return math.fsum(known) / len(known) if known else None


def learn(pair: Pair) -> tuple[str, ...]:
    """Warm both benches up, each alone. Returns warnings. Raises what a trial raises."""
    for side in SIDES:
        bench = pair.benches[side]
        bench.record.note_facts({**pair.facts, **bench.live.ready()})
    return tuple(filter(None, (_learn(pair, side) for side in SIDES)))


def _learn(pair: Pair, side: str) -> str:
    bench = pair.benches[side]
    with frozen(pair.other(side).setup):
        measurer = measurer_of(pair, side, bench.record.keep, bench.recorded.trials)
        bench.on_stoppable(measurer)
        bench.listener.phase(WARM_UP, 1)
        warning = warm_up(bench.scenario, measurer)
    return f"{side}: {warning}" if warning else ""
