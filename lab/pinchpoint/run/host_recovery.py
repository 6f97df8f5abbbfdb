"""Runs whose benches stand on other hosts: the hosts are held, and a lost connection costs a unit's time, no more."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, repeat
from typing import TypeVar

from pinchpoint.bench.builder import clean
from pinchpoint.bench.journal import STATE_DIRECTORY, busy, holder, machine_lock, requiring
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Interrupted, Listener, Record, Recorded, RunUnit, Stoppable, Undoable
from pinchpoint.model.errors import HostLostError, InputError, PinchpointError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import LAB, Remote, Scenario
from pinchpoint.model.trial import Trial

Returned = TypeVar("Returned")
Sleep = Callable[[float], None]
RETRIES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 60.0, 60.0, 60.0)  # between attempts to connect anew: five minutes
AWAITED_S = sum(RETRIES_S)
_ONE_ADDRESS = "give each host one address, the same in all scenarios"
_LABS_OWN = f'name it "{LAB}", or leave out its runs_on: without one the bench stands on the lab\'s machine'
MOST_LOSSES = 3  # of a host within one unit


@contextmanager
def held(machines: Machines, units: Sequence[Scenario]) -> Iterator[None]:
    """Inside, no other run is active on any machine on which a bench of these will stand.

    Raises RequirementError naming who holds one, or what a host lacks; InputError where two addresses are one machine.
    """
    with ExitStack() as stack:
        # One host may have several names, and has one lock. All labs take them in one order: the first has them all.
        remotes = {remote.address if remote else "": remote for unit in units for remote in unit.remotes}
        labs = secrets.token_hex(8) if "" in remotes else ""
        for _, remote in sorted(remotes.items()):
            if remote is None:
                stack.enter_context(machine_lock(machines.lab, STATE_DIRECTORY, labs))
            else:
                _hold(machines, remote, labs)
        yield


def _hold(machines: Machines, remote: Remote, labs: str) -> None:
    """`labs` is the token by which the lab's own machine is held; empty: it is not."""
    lock = f"{STATE_DIRECTORY}/run.lock"
    host = machines.ssh(remote)
    host.open()
    with requiring(host, STATE_DIRECTORY):
        try:
            host.hold_machine(lock, holder())
        except BlockingIOError as error:
            if other := machines.held_as(remote, lock, labs):
                told = f"{other} and {remote.address} are one machine, which this run holds already as {other}"
                raise InputError(told, _LABS_OWN if other == LAB else _ONE_ADDRESS) from None
            raise busy(error, host) from error


def surviving(machines: Machines, run_one: RunUnit, sleep: Sleep = time.sleep, awaited_s: float = AWAITED_S) -> RunUnit:
    """The same, begun anew once a lost host is back; trials that have ended are not made again.

    A lost host has `awaited_s` seconds to come back; the lab connects anew at growing intervals.

    Raises HostLostError if it does not come back in time, or is lost again and again.
    """

    def run(
        unit: Scenario,
        record: Record,
        listener: Listener,
        recorded: Recorded,
        on_stoppable: Callable[[Stoppable], None] = lambda _: None,
        *arguments: object,
        **named: object,
    ) -> ScenarioResult:
        kept = _Kept(record, recorded)

        def attempt() -> ScenarioResult:
            return run_one(unit, kept.record, listener, kept.recorded, on_stoppable, *arguments, **named)

        return outliving(machines, [unit], attempt, on_stoppable, sleep, awaited_s)

    return run


def outliving(
    machines: Machines,
    units: Sequence[Scenario],
    attempt: Callable[[], Returned],
    on_stoppable: Callable[[Stoppable], None],
    sleep: Sleep = time.sleep,
    awaited_s: float = AWAITED_S,
) -> Returned:
    """What `attempt` returns, made again once a host of these units that it lost is back. Raises as `surviving`."""
    remotes = list(dict.fromkeys(remote for unit in units for remote in unit.remotes if remote))
    for _ in range(MOST_LOSSES - 1 if remotes else 0):
        try:
            return attempt()
        except Interrupted:
            raise
        except PinchpointError as error:
            lost = [remote for remote in remotes if machines.ssh(remote).is_lost()]
            # One that was lost and is connected again has no bench any more, and may have rests of it.
            lost = lost or (remotes if isinstance(error, HostLostError) else [])
            if not lost:
                raise
            on_stoppable(Undoable())  # what measured is over: a signal ends the wait
            for remote in lost:
                _await(machines, remote, error, sleep, awaited_s)
    return attempt()


def _await(machines: Machines, remote: Remote, lost: PinchpointError, sleep: Sleep, awaited_s: float) -> None:
    """Connect anew, and undo what stands there without a lab. Raises HostLostError if it does not answer in time."""
    last: PinchpointError = lost
    for wait_s in _waits_s(awaited_s):
        sleep(wait_s)
        try:
            failures = clean(machines.opened(remote)).failures
            if failures:
                raise HostLostError(
                    f"{remote.address}: not removed: {'; '.join(failures)}", clean_command(remote.address)
                )
            return
        except PinchpointError as error:
            last = error
    told = f"{remote.address} was lost and has not come back within {awaited_s:g} s; last: {last.message}"
    raise HostLostError(told, clean_command(remote.address)) from lost


def _waits_s(awaited_s: float) -> Iterator[float]:
    """Between attempts to connect anew, `awaited_s` in all: longer and longer, then the longest."""
    left_s = awaited_s
    for wait_s in chain(RETRIES_S, repeat(RETRIES_S[-1])):
        if left_s <= 0:
            return
        yield min(wait_s, left_s)
        left_s -= wait_s


def clean_command(address: str) -> str:
    """What undoes there what is left."""
    return f"pinchpoint clean --host {address}"


class _Kept:
    """What attempts at a unit have found so far."""

    def __init__(self, record: Record, recorded: Recorded) -> None:
        self._record, self._recorded = record, recorded
        self._trials: list[Trial] = []
        self._measurements: list[Measurement] = []
        self._ceilings = recorded.ceilings

    @property
    def record(self) -> Record:
        """The run's own, listened to."""

        def keep(trial: Trial) -> None:
            self._record.keep(trial)
            self._trials.append(trial)

        def keep_measurement(measurement: Measurement) -> None:
            self._record.keep_measurement(measurement)
            self._measurements.append(measurement)

        return replace(self._record, keep=keep, keep_measurement=keep_measurement)

    @property
    def recorded(self) -> Recorded:
        """As a resumed run would find it."""
        trials = (*self._recorded.trials, *self._trials)
        measurements = (*self._recorded.measurements, *self._measurements)
        return replace(self._recorded, trials=trials, measurements=measurements)
