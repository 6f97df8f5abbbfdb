"""The ceiling test: how much the generator itself can offer on a bench of this shape, back to back without the DUT.

It costs at most ten trials of 0.2 s. A load is kept up with if no more frames were missing than fell due
while the engine's core stood still: a busy host delays this test without lowering its result. So the
ceiling is the highest load that the engine can *offer*. What comes back may be less, where the relay in
the DUT's place is the slower one; then what came back (`received_fps`, per second in which the core ran)
is a lower bound for sending and receiving together.

Ceilings are kept for a day between runs in `$XDG_CACHE_HOME/pinchpoint/ceilings.json`, by default below ~/.cache: a
cache, which may be removed at any time, and is hostile until parsed. Format: docs/results.md, "Ceilings".
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path

from pinchpoint.account.facts import differ, distances_ns, mean_ns
from pinchpoint.account.validity import frames_in_gaps
from pinchpoint.causes.bounds import held_against, in_mode
from pinchpoint.dut import captures
from pinchpoint.dut.setup import await_engine_pages, planned_ends, prepare
from pinchpoint.dut.wire import without_device
from pinchpoint.engine.instrument import EngineResult, Instrument, TrialRequest
from pinchpoint.engine.process import ProcessInstrument, find_engine
from pinchpoint.host import facts
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.measure.rates.run import Rates, of_the_rates_alone
from pinchpoint.measure.standing import Listener, Stoppable, Undoable, standing_bench
from pinchpoint.model import units
from pinchpoint.model.errors import EngineError, InputError, PinchpointError, StoreError
from pinchpoint.model.frames import headers, moving
from pinchpoint.model.headers import FieldValues
from pinchpoint.model.result import CEILING_ERROR, Ceiling, Limit, Rate, RateStatus, ScenarioResult, Verdict
from pinchpoint.model.scenario import Scenario, Stream, Validity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.store.codec import SCHEMA, Codec
from pinchpoint.store.folder import replace_file, storing

PHASE = "ceiling"
TRIAL_S = 0.2
DRAIN_S = 0.05
MOST_TRIALS = 10
MOST_FPS = 100e6  # the first load: no engine offers more from one core
A_LITTLE_LESS = 0.97  # than what was offered of too high a load
FURTHER = 1.5  # than what was kept up with, if nothing was too high so far
STANDING_STILL = 0.5  # of a trial's frames; beyond, not even sending is measured
AGE = timedelta(days=1)  # after which a ceiling is measured anew
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Ceilings:
    """The measured ceilings of the generator, as the file keeps them."""

    schema: int
    ceilings: tuple[Ceiling, ...]


_CODEC = Codec.of(Ceilings)


def ceilings_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where ceilings are kept (XDG Base Directory Specification: a relative path is ignored)."""
    cache = environment.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path(environment.get("HOME", "/root"), ".cache")
    return base / "pinchpoint" / "ceilings.json"


def read_ceilings(path: Path, now: datetime) -> tuple[Ceiling, ...]:
    """Those not older than a day; none without a file. Raises InputError naming the file and what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise InputError(f"{path}: larger than {MOST_BYTES:,} bytes", "remove it; it is only a cache")
    ceilings = _CODEC.decode(data, str(path)).ceilings
    for number, ceiling in enumerate(ceilings):
        if ceiling.fps <= 0 or (ceiling.distance_ns is not None and ceiling.distance_ns <= 0):
            raise InputError(f"{path}: at $.ceilings[{number}]: expected rates and distances above 0")
    return tuple(ceiling for ceiling in ceilings if timedelta(0) <= now - _measured_at(ceiling, path) < AGE)


def write_ceilings(path: Path, ceilings: Sequence[Ceiling]) -> None:
    """Replace the file whole. Raises StoreError, and leaves nothing behind then."""
    data = _CODEC.encode(Ceilings(SCHEMA, tuple(ceilings)), str(path)) + b"\n"
    with storing(path, "--no-ceiling, or XDG_CACHE_HOME elsewhere"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data)


def _measured_at(ceiling: Ceiling, path: Path) -> datetime:
    try:
        time = datetime.fromisoformat(ceiling.measured)
    except ValueError:
        raise InputError(f"{path}: expected a time, found {ceiling.measured!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class TooNoisyError(EngineError):
    """No trial of the ceiling test could be judged."""


@dataclass
class _Mode:
    """What one mode of the cores has shown."""

    distance_ns: float | None
    kept_fps: float = 0.0  # the highest load that was kept up with
    received_fps: float = 0.0
    too_high_fps: float = math.inf  # the lowest load that was not

    @property
    def done(self) -> bool:
        is_highest = self.kept_fps >= MOST_FPS * (1 - CEILING_ERROR)
        return is_highest or self.too_high_fps <= self.kept_fps * (1 + CEILING_ERROR)

    @property
    def is_met(self) -> bool:
        """Whether it was seen to fall short, too: what it kept up with alone shows no ceiling."""
        return bool(self.kept_fps) and (self.done or self.too_high_fps < math.inf)

    def fits(self, distance_ns: float | None) -> bool:
        """Whether a trial at that distance belongs to this mode."""
        if self.distance_ns is None or distance_ns is None:
            return self.distance_ns is distance_ns
        return not differ(self.distance_ns, distance_ns)


def find_ceilings(
    run: Callable[[float], EngineResult], rules: Validity, key: str, now: Callable[[], datetime]
) -> tuple[Ceiling, ...]:
    """The ceiling in each mode of the cores that was met long enough; `run` is one trial at a load.

    Raises TooNoisyError if none was.
    """
    modes: list[_Mode] = []
    load_fps, noise = MOST_FPS, ""
    for _ in range(MOST_TRIALS):
        result = run(load_fps)
        probes = distances_ns(result)
        if len(probes) == 2 and differ(*probes):
            noise = "the distance of the cores changed"
            continue
        distance_ns = mean_ns(probes)
        mode = next((mode for mode in modes if mode.fits(distance_ns)), None)
        if mode is None:
            mode = _Mode(distance_ns)
            modes.append(mode)
        noise = _learn(mode, result, load_fps, rules) or noise
        if mode.done:
            break
        load_fps = _next(mode, result, load_fps)
    met, measured = [mode for mode in modes if mode.is_met], now().isoformat()
    if not met:
        raise TooNoisyError(
            f"no load could be judged in {MOST_TRIALS} trials; last: {noise or 'the engine kept up with none'}",
            "--no-ceiling, or pinchpoint ceiling SCENARIO once other programs have ended",
        )
    return tuple(Ceiling(mode.kept_fps, measured, key, mode.distance_ns, mode.received_fps) for mode in met)


def _learn(mode: _Mode, result: EngineResult, load_fps: float, rules: Validity) -> str:
    """Note what a trial shows of its mode; returns why it shows nothing, empty if it does."""
    still = _standing_still(result, load_fps)
    if still > STANDING_STILL:
        return f"the engine's core stood still for {units.share(still)} of a trial"
    intended = sum(stream.intended or 0 for stream in result.streams)
    missing = sum(stream.shortfall or 0 for stream in result.streams)
    if missing - still * intended > rules.shortfall_ratio * intended:
        mode.too_high_fps = min(mode.too_high_fps, load_fps)
    elif load_fps > mode.kept_fps:
        received = sum(stream.received or 0 for stream in result.streams)
        mode.kept_fps, mode.received_fps = load_fps, received / result.sent_duration_s / (1 - still)
    return ""


def _next(mode: _Mode, result: EngineResult, load_fps: float) -> float:
    """Between what was kept up with and what was not; before there is the former, a little less than was offered."""
    still = _standing_still(result, load_fps)
    if still > STANDING_STILL:
        return load_fps
    if not mode.kept_fps:
        offered_fps = sum(stream.offered for stream in result.streams) / result.sent_duration_s / (1 - still)
        return max(1.0, A_LITTLE_LESS * min(offered_fps, mode.too_high_fps))
    if math.isinf(mode.too_high_fps):
        return min(MOST_FPS, FURTHER * mode.kept_fps)
    return math.sqrt(mode.kept_fps * mode.too_high_fps)


def _standing_still(result: EngineResult, load_fps: float) -> float:
    """The share of a trial's frames that fell due while the core to send them stood still, 0..1."""
    intended = sum(stream.intended or 0 for stream in result.streams)
    return min(1.0, frames_in_gaps(result.streams, result.workers, load_fps) / intended) if intended else 1.0


def key_of(scenario: Scenario, engine_version: str, host: Host) -> str:
    """What the generator's ceiling depends on, in words: two scenarios with the same key have the same one."""
    machine, backends = facts.host_facts(host), _backends(scenario, host)
    where = f", on {scenario.site.address}" if scenario.site.address else ""
    clock = scenario.engine.latency_clock
    backends += "" if clock == "engine" else f" timed by the {clock}"
    ports = ", ".join(f"{port.name} {port.ring} x {port.queues}" for port in scenario.ports)
    parts = (
        f"{backends} towards {scenario.dut.kind} {scenario.dut.io}: {ports}",
        "streams " + ", ".join(_stream(stream, host) for stream in scenario.streams),
        f"engine CPUs {', '.join(map(str, scenario.engine.cpus))}, device CPU {scenario.dut.cpus[0]}",
        f"engine {engine_version}, {machine['processor']}, kernel {machine['kernel']}{where}",
    )
    return "; ".join(parts)


def _backends(scenario: Scenario, host: Host) -> str:
    """How the engine drives the scenario's ports."""
    return ", ".join(sorted({end.backend for end in planned_ends(scenario, host)}))


def _stream(stream: Stream, host: Host) -> str:
    """What writing a frame costs: its size, and which fields change and how; not how many values they take."""
    varied = moving(stream)
    names = [f"{name}{_law(varied[name])}" for name in sorted(varied)]
    kind = " TCP" if stream.segment else ""
    if stream.pcap is not None:
        side = f"{' all but' if stream.pcap_others else ''} {stream.pcap_source}" if stream.pcap_source else ""
        kind = f" replay of {stream.pcap} ({captures.content(stream.pcap, host)}){side}"
    elif stream.layers:
        kind = f" {'/'.join(header.name for header in headers(stream))}"
    else:  # in the order and the words of the keys
        keys = (name.replace("tcp.", "udp.").replace(".", "_") for name in names)
        names = sorted(keys, key=("ipv4_src", "ipv4_dst", "udp_src", "udp_dst").index)
    changing = f" varying {'+'.join(names)}" if names else ""
    changing += " together" if stream.together and len(names) > 1 else ""
    changing += f" in bursts of {stream.burst_frames}" if stream.burst_frames > 1 else ""
    changing += f" {stream.arrivals}" if stream.arrivals != "steady" else ""
    changing += f" wrong {'+'.join(stream.wrong_checksums)}" if stream.wrong_checksums else ""
    sizes = stream.sizes.words if stream.sizes else stream.frame_bytes
    return f"{stream.tx_port} to {stream.rx_port}{kind} {sizes} B x {stream.share:g}{changing}"


def _law(values: FieldValues) -> str:
    """How the values of a field follow each other; empty if they count."""
    if values.is_drawn:
        return " by Zipf's law" if values.drawn is None else " at random"
    return " from a list" if values.listed else ""


def measure_ceilings(machines: Machines, scenario: Scenario, key: str, listener: Listener) -> tuple[Ceiling, ...]:
    """Build the bench without the DUT, measure, and take it down.

    Raises RequirementError where it cannot be built, TooNoisyError, BenchError, EngineError.
    """
    host = machines.opened(scenario.site)
    command = [find_engine(host)]
    setup = prepare(without_device(scenario, over_dpdk=_backends(scenario, host) == "dpdk"), machines)
    with standing_bench(setup, listener):
        listener.phase(PHASE, MOST_TRIALS)
        instrument = ProcessInstrument(
            setup.engine, host, command=command, environment={ENVIRONMENT_MARK: setup.places.bench_id}
        )
        try:
            await_engine_pages(setup)
            instrument.open()
            return find_ceilings(_runner(scenario, instrument, listener), scenario.validity, key, _now)
        finally:
            instrument.close()


def _runner(scenario: Scenario, instrument: Instrument, listener: Listener) -> Callable[[float], EngineResult]:
    """One trial at a load, numbered."""
    numbers = count(1)

    def run(load_fps: float) -> EngineResult:
        number = next(numbers)
        trial_id, pairs = f"{PHASE}-{number:02d}", scenario.probed_cores
        listener.trial_begins(trial_id, TRIAL_S, load_fps)
        request = TrialRequest(trial_id, number, TRIAL_S, DRAIN_S, load_fps, scenario.streams, pairs)
        result = instrument.run(request)
        if not result.completed:
            raise EngineError(f"the ceiling test ended early: {result.reason or 'it was stopped'}", "--no-ceiling")
        return result

    return run


def _now() -> datetime:
    return datetime.now(UTC)


class CeilingTest:
    """Knows the ceilings of this machine, and measures what is not known."""

    def __init__(
        self,
        machines: Machines,
        engine_version: Callable[[Host], str],
        path: Path | None = None,
        measure: Callable[[Machines, Scenario, str, Listener], tuple[Ceiling, ...]] = measure_ceilings,
        now: Callable[[], datetime] = _now,
    ) -> None:
        """`engine_version` asks the engine; `path` is the file that keeps them between runs, None: the user's cache."""
        self._machines = machines
        self._engine_version = cache(lambda: engine_version(machines.lab))
        self._path = path or ceilings_file()
        self._measure = measure
        self._now = now
        self._unwritten: list[Ceiling] = []  # that the file did not take
        self._failed: dict[str, ResultWarning] = {}  # by key: not tried again in this run
        self._surpassed: set[Ceiling] = set()  # that the engine was seen to surpass: not believed, wherever they stand

    def known(self, scenario: Scenario) -> tuple[Ceiling, ...]:
        """Those of the scenario's shape, of any mode, not older than a day; a file that cannot be read holds none."""
        key = self._key(scenario)
        ceilings = (*self._kept(), *self._unwritten)
        return tuple(ceiling for ceiling in ceilings if ceiling.key == key and ceiling not in self._surpassed)

    def before(self, scenario: Scenario, listener: Listener) -> tuple[tuple[Ceiling, ...], ResultWarning | None]:
        """What is known, or measured now; and why nothing is, None if something is. Raises only on signals."""
        if not isinstance(scenario.measure, Rates):
            return (), None
        known = self.known(scenario)
        return (known, None) if known else self.anew(scenario, listener)

    def after(
        self,
        scenario: Scenario,
        result: ScenarioResult,
        listener: Listener,
        on_stoppable: Callable[[Stoppable], None] = lambda _: None,
    ) -> ScenarioResult:
        """The result compared with the ceiling of its own mode, if that was not known before.

        What the result has surpassed is forgotten. `on_stoppable` is handed what ends this test by KeyboardInterrupt.
        """
        known = self.known(scenario)
        self._forget([ceiling for ceiling in known if _is_surpassed(ceiling, known, result)])
        rates_found = [rate for rate in result.rates if rate.status is RateStatus.FOUND]
        if result.ceiling is not None or not rates_found or not self.known(scenario):
            return result
        undoable = Undoable()
        on_stoppable(undoable)
        ceilings, why = self.anew(scenario, listener)
        undoable.end()
        held = held_result(result, ceilings)
        if held.ceiling is not None:
            return held
        return replace(result, warnings=(*result.warnings, why or Warn.CEILING_OF_OTHER_MODES.of()))

    def measured_now(self, scenario: Scenario, listener: Listener) -> tuple[Ceiling, ...]:
        """Everything known after a new measurement. Raises what `measure_ceilings` raises."""
        key = self._key(scenario)
        self._keep(key, self._measure(self._machines, scenario, key, listener))
        return self.known(scenario)

    def anew(self, scenario: Scenario, listener: Listener) -> tuple[tuple[Ceiling, ...], ResultWarning | None]:
        """The same, and why nothing was measured, None if something was: no reason for a run to end."""
        key = self._key(scenario)
        if key not in self._failed:
            try:
                return self.measured_now(scenario, listener), None
            except PinchpointError as error:
                self._failed[key] = Warn.CEILING_UNKNOWN.of(error.message)
        return self.known(scenario), self._failed[key]

    def _key(self, scenario: Scenario) -> str:
        return key_of(scenario, self._engine_version(), self._machines.opened(scenario.site))

    def _kept(self) -> tuple[Ceiling, ...]:
        try:
            return read_ceilings(self._path, self._now())
        except InputError:
            return ()  # it is only a cache, and is written anew

    def _forget(self, surpassed: Sequence[Ceiling]) -> None:
        """No more of these. What is surpassed a second time in a run shows that the test finds too little here."""
        for ceiling in surpassed:
            if any(ceiling.key == other.key for other in self._surpassed):
                self._failed[ceiling.key] = Warn.CEILING_UNKNOWN.of(
                    "twice the engine offered more than its test had found"
                )
        self._surpassed.update(surpassed)
        if surpassed:
            with suppress(StoreError):  # then it is only this run that knows
                write_ceilings(self._path, [ceiling for ceiling in self._kept() if ceiling not in self._surpassed])

    def _keep(self, key: str, ceilings: Sequence[Ceiling]) -> None:
        """Those replace what was known of their modes."""

        def replaced(ceiling: Ceiling) -> bool:
            return ceiling.key == key and in_mode(ceilings, ceiling.distance_ns) is not None

        self._unwritten = [ceiling for ceiling in self._unwritten if not replaced(ceiling)]
        try:
            write_ceilings(self._path, [*(ceiling for ceiling in self._kept() if not replaced(ceiling)), *ceilings])
        except StoreError:
            self._unwritten += ceilings


def _judged(verdict: Verdict | None, before: Rate, held: Rate) -> Verdict | None:
    """The generator's, if the rate was found and is within its reach: what was seen at it is no limit then."""
    if held.status == before.status:
        return verdict
    trials = verdict.trial_ids if verdict else ()
    return Verdict(Limit.GENERATOR, "the generator, not the switch", (held.reason,), (), trials)


def held_result(result: ScenarioResult, ceilings: Sequence[Ceiling]) -> ScenarioResult:
    """The same result, the rates of every mode compared with the ceiling in that mode."""

    def held(rates: Sequence[Rate], distance_ns: float | None, seen_fps: float | None) -> tuple[Rate, ...]:
        return held_against(rates, in_mode(ceilings, distance_ns), seen_fps)

    rates = held(result.rates, _distance_ns(result), result.most_offered_fps)
    verdicts = (result.verdict, *result.other_verdicts)
    judged = tuple(map(_judged, verdicts, result.rates, rates))  # none without rates
    anew = {metric.name: metric for metric in of_the_rates_alone(rates)}
    return replace(
        result,
        rates=rates,
        metrics=tuple(anew.get(metric.name, metric) for metric in result.metrics),
        verdict=judged[0] if judged else result.verdict,
        other_verdicts=tuple(filter(None, judged[1:])),
        ceiling=in_mode(ceilings, _distance_ns(result)),
    )


def _distance_ns(result: ScenarioResult) -> float | None:
    """Of the cores, in the mode that a result's rates are of."""
    if result.modes:
        return result.modes[0].distance_ns
    return result.cache_line.median_ns if result.cache_line else None


def _is_surpassed(ceiling: Ceiling, known: Sequence[Ceiling], result: ScenarioResult) -> bool:
    """Whether the engine was seen to offer more than this, in the mode of the cores in which it was measured.

    Trials that nobody probed say nothing of a ceiling whose mode is known.
    """
    met = [(_distance_ns(result), result.most_offered_fps)]
    met += [(mode.distance_ns, mode.most_offered_fps) for mode in result.modes]
    return any(
        in_mode(known, distance_ns) == ceiling
        and (distance_ns is not None or ceiling.distance_ns is None)
        and ceiling.is_surpassed(seen_fps)
        for distance_ns, seen_fps in met
    )
