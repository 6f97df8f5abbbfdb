"""The loop round whatever a bench is asked for: a trial of frames, a load of connections, a window, a build, slices.

A record is replayed from those of an interrupted run; or else it is begun, observed, kept and announced. What runs and
who judges it is the measure's. Whoever asked to stop gets Interrupted once the record is kept.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from pinchpoint.measure.standing import Interrupted, Standing
from pinchpoint.model.errors import DutError, EngineError, RequirementError, UnreachableError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import TrialValidity
from pinchpoint.observe.snapshot import Bracket, Observation

Entry = TypeVar("Entry")


def _nothing(*_: object) -> None:
    """Do nothing, where a loop has no listener and nothing to halt."""


class Loop(Generic[Entry]):
    """Takes one record after the other, of one bench."""

    def __init__(
        self,
        name: str,
        keep: Callable[[Entry], None],
        recorded: Sequence[Entry] = (),
        begins: Callable[..., None] = _nothing,
        ends: Callable[[Entry], None] = _nothing,
        halt: Callable[[], None] = _nothing,
    ) -> None:
        """Ids are `name` and a number, which continues after `recorded`, the records of an interrupted run.

        `begins` and `ends` announce a record, `keep` stores it, `halt` ends what runs.
        """
        self._name, self._keep, self._begins, self._ends, self._halt = name, keep, begins, ends, halt
        self._recorded, self.number = deque(recorded), len(recorded)
        self._is_stopping = self._is_running = False
        self.records: list[Entry] = []
        """All that were taken, replayed ones included, in their order."""
        self.seen = Observation(0.0, {}, {})
        """What changed while the latest ran."""
        self.died: DutError | None = None
        """How the device died meanwhile."""

    def stop(self) -> None:
        """End what runs, and raise Interrupted once it is kept; for signal handlers."""
        self._is_stopping = True
        if self._is_running:
            self._halt()

    def check(self) -> None:
        """Raises Interrupted once it was asked to stop."""
        if self._is_stopping:
            raise Interrupted("interrupted", "pinchpoint run --resume RUN continues where it stopped")

    def replayed(self, answers: Callable[[Entry], bool]) -> Entry | None:
        """The first record of the interrupted run that answers and was not taken yet, announced; None without one."""
        record = next(filter(answers, self._recorded), None)
        if record is None:
            return None
        self._recorded.remove(record)
        return self._taken(record)

    def begin(self, *expected: float) -> str:
        """Announce the next record with what is expected of it; its id."""
        self.number += 1
        record_id = f"{self._name}-{self.number:04d}"
        self._begins(record_id, *expected)
        return record_id

    @contextmanager
    def running(self, look: Callable[[], object]) -> Iterator[None]:
        """Inside, something runs that `stop` ends; once that was asked for, Interrupted is raised and nothing runs.

        If it fails, `look` raises DutError where the device has died.
        """
        self._is_running = True
        try:
            self.check()
            yield
        except (EngineError, RequirementError, UnreachableError):
            look()
            raise
        finally:
            self._is_running = False

    @contextmanager
    def observing(self, bracket: Bracket) -> Iterator[None]:
        """The same, the bracket round it: `seen` and `died` say what happened meanwhile."""
        self.died = None
        bracket.open()
        with self.running(bracket.open):
            yield
        self.seen = self.look(bracket)

    def look(self, bracket: Bracket) -> Observation:
        """What has changed since the bracket was opened; nothing where the device has died, as `died` says then."""
        try:
            return bracket.close()
        except DutError as error:
            self.died = error
            return Observation(0.0, {}, {})

    def whole(self) -> Observation:
        """What changed until the end. Raises DutError where the device died before: there is nothing to keep."""
        if self.died is not None:
            raise self.died
        return self.seen

    def kept(self, record: Entry) -> Entry:
        """The record, stored and announced. Raises DutError if the device died, Interrupted if it was asked to stop."""
        self._keep(record)
        return self._taken(record, self.died)

    def _taken(self, record: Entry, died: DutError | None = None) -> Entry:
        self.records.append(record)
        if died is not None:
            raise died
        self._ends(record)
        self.check()
        return record


def loop_of(bench: Standing, counts: Callable[[Measurement], bool] = lambda _: False) -> Loop[Measurement]:
    """The loop round what is measured on a bench that stands, where that is no trial of frames.

    What an interrupted run recorded is replayed at once where it `counts`, whatever will be asked.
    """
    task, told = bench.task, bench.task.listener
    keep, recorded = task.keep, task.recorded(Measurement)
    loop = Loop(bench.scenario.name, keep, recorded, told.measurement_begins, told.measurement_ends)
    while loop.replayed(counts):
        pass
    return loop


NOTHING_OF_THE_DEVICE: Final = (TrialValidity.ABORTED, TrialValidity.CHANGED, TrialValidity.COUNTER_MISMATCH)
"""Of a measurement that is taken once, these say nothing of the device."""


def once(bench: Standing, measure: Callable[[Standing, Loop[Measurement]], Measurement]) -> Measurement:
    """The measurement of a measure that takes one: an interrupted run's, else a new one.

    One that says nothing of the device is taken again.
    """
    loop = loop_of(bench)
    recorded = loop.replayed(lambda record: record.validity not in NOTHING_OF_THE_DEVICE)
    return recorded or loop.kept(measure(bench, loop))
