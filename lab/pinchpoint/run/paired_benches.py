"""Two benches that stand at once, and the one engine that opens the ports of both.

The first is built and frozen (`first_of_pair`), the second is built `beside` it; `warm_pair` then starts the engine.
Both switches forward on the same core. While one is looked at the other is frozen (SIGSTOP), so that its polling thread
leaves the core. A frozen switch answers no request: it is thawed before it is asked. Removing a bench thaws its
switch (host/processes.py), also by `pinchpoint clean` after whoever froze it was killed.

Comparisons, points relative to a reference and counter-experiments are all measured on such a pair: in slices
(run/duet.py) and in trials (`LivePair.trials`, `in_pairs`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.resource import Daemon, Relay
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import Setup, await_engine_pages, joint_request, prepare, require_together
from pinchpoint.engine.instrument import EngineResult, Heard, Instrument, TrialRequest
from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import kept_off
from pinchpoint.host.processes import ENVIRONMENT_MARK, freeze, thaw
from pinchpoint.measure.rates.run import Rates
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Standing, Task
from pinchpoint.model.duet import SIDES, pair_order
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.scenario import Scenario, Stream
from pinchpoint.model.trial import Trial
from pinchpoint.model.warning import ResultWarning
from pinchpoint.run.scenario import PlanBench, built_bench

AtLoad = Callable[[float], Trial]
"""What makes a trial at a load, frames per second."""
AtSide = Callable[[str], float]
"""The load of a side's next trial, frames per second."""


def why_no_duet(a: Scenario, b: Scenario) -> str:
    """Why two scenarios cannot be measured at once, whatever the machine; empty if they can."""
    others = sorted({scenario.measure.kind for scenario in (a, b) if not isinstance(scenario.measure, Rates)})
    nics = [{nic for link in scenario.links for nic in (*link.device.nics, *link.far.nics)} for scenario in (a, b)]
    unfrozen = [why for scenario in (a, b) if (why := device_of(scenario).freezing(scenario).why_not)]
    reasons = {
        f'slices measure rates, and measure = "{next(iter(others), "")}" needs a bench alone': bool(others),
        "both benches would need the cabled interfaces": a.is_cabled or b.is_cabled,
        next(iter(unfrozen), ""): bool(unfrozen),
        "connections of a service are established on a bench alone": any(scenario.established for scenario in (a, b)),
        "slices are sent at equal distances, and a stream has burst_frames or arrivals": any(
            stream.burst_frames > 1 or stream.arrivals != "steady" for scenario in (a, b) for stream in scenario.streams
        ),
        "both benches stand on one host, and the scenarios name two": a.site.address != b.site.address,
        "both benches need the same NIC": bool(nics[0] & nics[1]),
        "one engine drives the ports of both benches, and engine.cpus differ": a.engine.cpus != b.engine.cpus,
        "the engine of one bench would run on a CPU of the other's switch": bool(
            set(a.engine.cpus) & {*a.dut.cpus, *b.dut.cpus}
        ),
        "what arrives at a port with several queues cannot be counted by slices": any(
            port.queues > 1 for scenario in (a, b) for port in scenario.ports
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def require_duet(machines: Machines, a: Scenario, b: Scenario) -> None:
    """Raises InputError where A and B cannot be measured at once, RequirementError where this machine lacks memory."""
    if why := why_no_duet(a, b):
        raise InputError(f"no duet of {a.path} and {b.path}: {why}", "--method turns")
    require_together(a, b, machines)


def prefix(side: str) -> str:
    """How the joint engine's names of a side's ports begin."""
    return f"{side}."


@contextmanager
def first_of_pair(machines: Machines, scenario: Scenario, task: Task) -> Iterator[Standing]:
    """The first bench stands inside the block, frozen: it would poll the core of what is built beside it.

    Raises what building raises.
    """
    with built_bench(machines, scenario, task) as bench, frozen(bench.setup):
        yield bench


def beside(first: Standing) -> PlanBench:
    """What plans the second bench."""
    return partial(prepare, beside=first.setup, stands=True)


def switch_pid(setup: Setup) -> int:
    """The process of the bench's switch. Raises DutError if it has gone."""
    name = device_of(setup.scenario).freezing(setup.scenario).daemon
    daemons = (resource for resource in setup.resources if isinstance(resource, Daemon | Relay))
    return daemon_pid(next(daemon for daemon in daemons if daemon.name == name), setup.places.host)


def frozen(setup: Setup) -> AbstractContextManager[None]:
    """The bench's switch is off its cores inside the block."""
    return _held(setup, freeze, thaw)


def thawed(setup: Setup) -> AbstractContextManager[None]:
    """The bench's frozen switch runs inside the block."""
    return _held(setup, thaw, freeze)


@contextmanager
def _held(setup: Setup, begin: Callable[[Host, int], None], end: Callable[[Host, int], None]) -> Iterator[None]:
    host, pid = setup.places.host, switch_pid(setup)
    begin(host, pid)
    try:
        yield
    finally:
        end(host, pid)


@dataclass(frozen=True)
class LivePair:
    """Two benches that stand, by their side, and the engine that has the ports of both open."""

    benches: Mapping[str, Standing]
    instrument: Instrument
    warnings: tuple[ResultWarning, ...] = ()  # of their warm-ups

    @property
    def pids(self) -> tuple[int, int]:
        """The processes of A's and B's switch. Raises DutError if one has gone."""
        a, b = (switch_pid(self.benches[side].setup) for side in SIDES)
        return a, b

    def thaw(self) -> None:
        """Let both switches run. The engine does so itself unless it was killed; one that has gone is no error."""
        for bench in self.benches.values():
            with suppress(DutError):
                thaw(bench.setup.places.host, switch_pid(bench.setup))

    @contextmanager
    def alone(self, side: str, session: Session) -> Iterator[None]:
        """Inside, only this bench runs, and a signal stops what measures it."""
        self.benches[side].task.on_stoppable(session)
        with frozen(self.benches["B" if side == "A" else "A"].setup):
            yield

    def trials(self, side: str, what: str, phase: str, duration_s: float, owner: str = SIDES[1]) -> AtLoad:
        """What makes trials of one bench, each with its whole account. They raise what a trial raises.

        They belong to the bench `owner`; their ids follow those of its earlier trials and end with `what`.
        """
        bench, numbers = self.benches[owner], count(1 + len(self.benches[owner].task.recorded(Trial)))

        def keep(trial: Trial) -> None:
            name = bench.scenario.name
            bench.task.keep(replace(trial, scenario=name, id=f"{name}-{next(numbers):04d}-{what}"))

        session = self._session(side, keep)

        def trial(load_fps: float) -> Trial:
            with self.alone(side, session):
                return session.trial(phase, duration_s, load_fps)

        return trial

    def warm_up(self, side: str) -> ResultWarning | None:
        """Warm one bench up; None if it has learnt everything. Raises what a trial raises."""
        bench = self.benches[side]
        session = self._session(side, bench.task.keep, bench.task.recorded(Trial))
        with self.alone(side, session):
            session.warm_up()
        return session.not_learnt.at(side) if session.not_learnt else None

    def _session(self, side: str, keep: Callable[[Trial], None], recorded: Sequence[Trial] = ()) -> Session:
        bench = self.benches[side]
        instrument = OneSide(self.instrument, side)
        return Session(bench.scenario, instrument, bench.bracket(), keep, bench.task.listener, recorded)


def in_pairs(trials: Mapping[str, AtLoad], load_fps: AtSide, first: int = 0) -> Iterator[Mapping[str, Trial]]:
    """Pairs of trials, by their side, in the order of time from the pair of number `first` on, without an end."""
    for number in count(first):
        yield {side: trials[side](load_fps(side)) for side in pair_order(number)}


@contextmanager
def warm_pair(a: Standing, b: Standing) -> Iterator[LivePair]:
    """Both benches, each warmed up alone, and their one engine, which ends with the block.

    A is frozen before and after it. Raises what the engine and a trial raise.
    """
    benches = dict(zip(SIDES, (a, b), strict=True))
    instrument = ProcessInstrument(
        joint_request({prefix(side): (bench.scenario, bench.setup.bench) for side, bench in benches.items()}),
        a.host,
        command=a.engine,
        environment={ENVIRONMENT_MARK: b.setup.places.bench_id},
        log=a.task.engine_log,
    )
    with thawed(a.setup), closing(instrument):
        await_engine_pages(a.setup, b.setup)
        facts, pair = instrument.open(), LivePair(benches, instrument)
        with kept_off(a.scenario.dut.cpus, a.host):
            for bench in benches.values():
                bench.task.note_facts({**facts, **bench.live.ready()})
            yield replace(pair, warnings=tuple(filter(None, map(pair.warm_up, SIDES))))


class OneSide:
    """A joint engine as one of its benches sees it: its own ports, by the names that the scenario gives them."""

    def __init__(self, instrument: Instrument, side: str) -> None:
        self._instrument = instrument
        self._prefix = prefix(side)

    def open(self) -> Mapping[str, str]:
        """Nothing: the joint engine has opened them."""
        return {}

    def run(self, request: TrialRequest, heard: Heard | None = None) -> EngineResult:
        """One trial of this side's streams; the account is of its ports alone."""
        streams = tuple(of_side(stream, self._prefix) for stream in request.streams)
        return self._own(self._instrument.run(replace(request, streams=streams), heard))

    def stop(self) -> None:
        """End the running trial early."""
        self._instrument.stop()

    def close(self) -> None:
        """Nothing: the joint engine is closed by whoever opened it."""

    def _own(self, result: EngineResult) -> EngineResult:
        mine, own = self._prefix, self._name
        return replace(
            result,
            streams=tuple(
                replace(stream, tx_port=own(stream.tx_port), rx_port=stream.rx_port and own(stream.rx_port))
                for stream in result.streams
            ),
            workers=tuple(
                replace(worker, ports=tuple(own(name) for name in worker.ports if name.startswith(mine)))
                for worker in result.workers
            ),
            ports=tuple(replace(port, name=own(port.name)) for port in result.ports if port.name.startswith(mine)),
        )

    def _name(self, joint: str) -> str:
        return joint.removeprefix(self._prefix)


def of_side(stream: Stream, with_prefix: str) -> Stream:
    """A stream between the ports that the joint engine knows by longer names."""
    return replace(stream, tx_port=with_prefix + stream.tx_port, rx_port=with_prefix + stream.rx_port)
