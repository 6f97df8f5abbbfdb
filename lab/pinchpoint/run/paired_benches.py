"""Two benches that stand at once, and the one engine that opens the ports of both.

Both switches forward on the same core. While one is looked at the other is frozen (SIGSTOP), so that its polling
thread leaves the core. A frozen switch answers no request: it is thawed before it is asked. Removing a bench thaws its
switch (host/processes.py), also by `pinchpoint clean` after whoever froze it was killed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.journal import STATE_DIRECTORY
from pinchpoint.bench.resource import Daemon, Relay
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import Setup, await_engine_pages, joint_request, prepare
from pinchpoint.engine.instrument import EngineResult, Heard, Instrument, TrialRequest
from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.host.processes import ENVIRONMENT_MARK, freeze, thaw
from pinchpoint.measure.standing import Listener, Standing
from pinchpoint.measure.trial import Measurer
from pinchpoint.model.errors import DutError
from pinchpoint.model.scenario import Scenario, Stream
from pinchpoint.model.trial import Trial
from pinchpoint.run.bench import standing_bench

SIDES = ("A", "B")


def prefix(side: str) -> str:
    """How the joint engine's names of a side's ports begin."""
    return f"{side}."


def prepare_both(
    machines: Machines, a: Scenario, b: Scenario, state_directory: Path = STATE_DIRECTORY
) -> tuple[Setup, Setup]:
    """Both benches planned together: names, places, hugepages. Raises what `prepare` raises."""
    first = prepare(a, machines, state_directory)
    return first, prepare(b, machines, state_directory, beside=first)


@contextmanager
def standing_both(setups: tuple[Setup, Setup], listener: Listener) -> Iterator[None]:
    """Both benches stand inside the block. The first is frozen while the second is built: it would poll its core."""
    with preferred(), standing_bench(setups[0], listener), ExitStack() as second:
        with frozen(setups[0]):
            second.enter_context(standing_bench(setups[1], listener))
        yield


def switch_pid(setup: Setup) -> int:
    """The process of the bench's switch. Raises DutError if it has gone."""
    name = device_of(setup.scenario).freezing(setup.scenario).daemon
    daemons = (resource for resource in setup.resources if isinstance(resource, Daemon | Relay))
    return daemon_pid(next(daemon for daemon in daemons if daemon.name == name), setup.places.host)


@contextmanager
def frozen(setup: Setup) -> Iterator[None]:
    """The bench's switch is off its cores inside the block."""
    pid = switch_pid(setup)
    freeze(setup.places.host, pid)
    try:
        yield
    finally:
        thaw(setup.places.host, pid)


@contextmanager
def thawed(setup: Setup) -> Iterator[None]:
    """The bench's frozen switch runs inside the block."""
    pid = switch_pid(setup)
    thaw(setup.places.host, pid)
    try:
        yield
    finally:
        freeze(setup.places.host, pid)


@dataclass(frozen=True)
class Pair:
    """Two benches that stand, by their side, and the engine that has the ports of both open."""

    benches: Mapping[str, Standing]
    instrument: Instrument
    facts: Mapping[str, str]  # of the engine

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

    def other(self, side: str) -> Standing:
        """The bench that is not `side`."""
        return self.benches["B" if side == "A" else "A"]

    def one_sided(self, side: str) -> Instrument:
        """An instrument for which only one side's ports exist."""
        return OneSide(self.instrument, side)


def measurer_of(pair: Pair, side: str, keep: Callable[[Trial], None], recorded: Sequence[Trial] = ()) -> Measurer:
    """What makes trials of one bench, each with its whole account; `recorded` are those of an interrupted run."""
    bench = pair.benches[side]
    return Measurer(bench.scenario, pair.one_sided(side), bench.bracket(), keep, bench.listener, recorded)


@contextmanager
def connected(a: Standing, b: Standing) -> Iterator[Pair]:
    """The one engine of both benches; it ends with the block."""
    benches = dict(zip(SIDES, (a, b), strict=True))
    instrument = ProcessInstrument(
        joint_request({prefix(side): (bench.scenario, bench.setup.bench) for side, bench in benches.items()}),
        a.host,
        command=a.engine,
        environment={ENVIRONMENT_MARK: b.setup.places.bench_id},
        log=a.record.engine_log,
    )
    try:
        await_engine_pages(a.setup, b.setup)
        yield Pair(benches, instrument, instrument.open())
    finally:
        instrument.close()


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
        streams = (
            replace(stream, tx_port=self._name(stream.tx_port), rx_port=stream.rx_port and self._name(stream.rx_port))
            for stream in result.streams
        )
        workers = (
            replace(worker, ports=tuple(self._name(name) for name in worker.ports if name.startswith(self._prefix)))
            for worker in result.workers
        )
        ports = (
            replace(port, name=self._name(port.name)) for port in result.ports if port.name.startswith(self._prefix)
        )
        return replace(result, streams=tuple(streams), workers=tuple(workers), ports=tuple(ports))

    def _name(self, joint: str) -> str:
        return joint.removeprefix(self._prefix)


def of_side(stream: Stream, with_prefix: str) -> Stream:
    """A stream between the ports that the joint engine knows by longer names."""
    return replace(stream, tx_port=with_prefix + stream.tx_port, rx_port=with_prefix + stream.rx_port)
