"""Runs whose benches stand on other hosts: the hosts are held, and a lost connection costs a unit's time, no more."""

import secrets
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain, repeat

from pinchpoint.bench.builder import clean
from pinchpoint.bench.journal import STATE_DIRECTORY, busy, holder, machine_lock, requiring
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Interrupted, Stoppable, Undoable
from pinchpoint.model.errors import HostLostError, InputError, PinchpointError
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.site import LAB, Remote, Site

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
        remotes = {site.address: site.remote for unit in units for site in unit.sites}
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


def attempts(
    machines: Machines,
    units: Sequence[Scenario],
    on_stoppable: Callable[[Stoppable], None],
    sleep: Sleep = time.sleep,
    awaited_s: float = AWAITED_S,
) -> Iterator[AbstractContextManager[None]]:
    """Contexts for one attempt each: the next begins once hosts of these units that the last one lost are back.

    A lost host has `awaited_s` seconds to come back; the lab connects anew at growing intervals. Raises HostLostError
    if it does not come back in time, or, as any other error, from the last attempt.
    """
    remotes = list(dict.fromkeys(site.remote for unit in units for site in unit.sites if site.remote))
    for _ in range(MOST_LOSSES - 1 if remotes else 0):
        lost = dict[Remote, PinchpointError]()
        yield _noting(lost, machines, remotes)
        if not lost:
            return
        on_stoppable(Undoable())  # what measured is over: a signal ends the wait
        for remote, error in lost.items():
            _await(machines, remote, error, sleep, awaited_s)
    yield nullcontext()


@contextmanager
def _noting(
    lost: MutableMapping[Remote, PinchpointError], machines: Machines, remotes: Sequence[Remote]
) -> Iterator[None]:
    """An error inside goes no further if hosts were lost; `lost` has them then."""
    try:
        yield
    except Interrupted:
        raise
    except PinchpointError as error:
        gone = [remote for remote in remotes if machines.ssh(remote).is_lost()]
        # One that was lost and is connected again has no bench any more, and may have rests of it.
        gone = gone or [remote for remote in remotes if isinstance(error, HostLostError)]
        if not gone:
            raise
        lost.update(dict.fromkeys(gone, error))


def _await(machines: Machines, remote: Remote, lost: PinchpointError, sleep: Sleep, awaited_s: float) -> None:
    """Connect anew, and undo what stands there without a lab. Raises HostLostError if it does not answer in time."""
    last, left_s, command = lost, awaited_s, f"pinchpoint clean --host {remote.address}"
    for wait_s in chain(RETRIES_S, repeat(RETRIES_S[-1])):
        if left_s <= 0:
            told = f"{remote.address} was lost and has not come back within {awaited_s:g} s; last: {last.message}"
            raise HostLostError(told, command) from lost
        sleep(min(wait_s, left_s))
        left_s -= wait_s
        try:
            if failures := clean(machines.opened(Site(remote))).failures:
                raise HostLostError(f"{remote.address}: not removed: {'; '.join(failures)}", command)
            return
        except PinchpointError as error:
            last = error
