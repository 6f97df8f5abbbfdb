"""Applies plans: journal first, then act; and takes down what was built, also in another process."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from pinchpoint.bench import host
from pinchpoint.bench.journal import STATE_DIRECTORY, Journal, journals
from pinchpoint.bench.plan import Action, Create, plan
from pinchpoint.bench.resource import AnyResource
from pinchpoint.model.errors import PinchpointError

OnAction = Callable[[int, int, str], None]  # (number, of how many, what)


def _silent(_number: int, _total: int, _what: str) -> None:
    return


class Builder:
    """One bench on this machine, between its first action and its last."""

    def __init__(self, bench_id: str, state_directory: Path = STATE_DIRECTORY) -> None:
        self._journal = Journal.start(bench_id, state_directory)

    def apply(self, desired: Sequence[AnyResource], on_action: OnAction = _silent) -> None:
        """Make the bench equal `desired`; on any failure everything is removed again, and the error raised."""
        try:
            _execute(self._journal, plan(self._journal.present(), desired), on_action)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Remove everything: apply the empty bench, then end the journal. Signals wait until it is done."""
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            _take_down(self._journal)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _execute(journal: Journal, actions: Sequence[Action], on_action: OnAction) -> None:
    for number, action in enumerate(actions, start=1):
        on_action(number, len(actions), action.resource.describe())
        if isinstance(action, Create):
            journal.record("create", action.resource)
            host.create(action.resource)
        else:
            host.remove(action.resource)
            journal.record("removed", action.resource)


def _take_down(journal: Journal) -> None:
    """Remove all that can be removed; one failure does not keep the rest standing."""
    failures: list[PinchpointError] = []
    for action in plan(journal.present(), ()):
        try:
            host.remove(action.resource)
            journal.record("removed", action.resource)
        except PinchpointError as error:
            failures.append(error)
    if failures:
        journal.leave()
        raise failures[0]
    journal.finish()


def clean(state_directory: Path = STATE_DIRECTORY) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remove what dead runs left: (what was removed, benches still in use by a live run)."""
    removed: list[str] = []
    alive: list[str] = []
    for path in journals(state_directory):
        journal = Journal.take_over(path)
        if journal is None:
            alive.append(path.stem)
            continue
        removed += [f"{path.stem}: {resource.describe()}" for resource in journal.present()]
        _take_down(journal)
    return tuple(removed), tuple(alive)
