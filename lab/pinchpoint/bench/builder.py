"""Applies plans: journal first, then act; and takes down what was built, also in another process.

From what is there to what is wanted leads a pure function, so that a plan can be shown and tested.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pinchpoint.bench import actions as act
from pinchpoint.bench.journal import STATE_DIRECTORY, VERSION, Entry, Foreign, Journal, journals, read, remove_unborn
from pinchpoint.bench.resource import AnyResource, GuestKernel, Hugepages, Inside, MarkedProcesses
from pinchpoint.host.guest import Guest
from pinchpoint.host.interface import Host
from pinchpoint.host.signals import signals_wait
from pinchpoint.model.errors import BenchError, PinchpointError

_COMPARE = (
    "compare vm.nr_hugepages with its value before the run; an interface that was lent may still have its port's "
    "name (ip link)"
)
OnAction = Callable[[int, int, str], None]  # (number, of how many, what)


@dataclass(frozen=True)
class Create:
    """Bring one resource into being."""

    resource: AnyResource


@dataclass(frozen=True)
class Remove:
    """Take one resource away; it may already be gone."""

    resource: AnyResource


Action = Create | Remove


def plan(current: Sequence[AnyResource], desired: Sequence[AnyResource]) -> tuple[Action, ...]:
    """The actions that turn `current` into `desired`.

    Both are in order of dependency (a namespace before the link in it), so what is
    no longer wanted goes in reverse order first, and what is missing comes in order.
    """
    removals = [Remove(resource) for resource in reversed(current) if resource not in desired]
    return (*removals, *(Create(resource) for resource in desired if resource not in current))


def describe(actions: Sequence[Action]) -> tuple[str, ...]:
    """One line an action, numbered, as `--dry-run` and the report print it."""
    width = len(str(len(actions)))
    return tuple(
        f"{number:>{width}}. {'+' if isinstance(action, Create) else '-'} {action.resource.describe()}"
        for number, action in enumerate(actions, start=1)
    )


class Builder:
    """What a host has of one bench, between its first action and its last."""

    def __init__(
        self,
        bench_id: str,
        host: Host,
        state_directory: Path = STATE_DIRECTORY,
        guests: Mapping[str, Guest] = MappingProxyType({}),
    ) -> None:
        """`guests`, by their names in resources: what is made inside one needs the line to it."""
        self._journal = Journal.start(bench_id, host, state_directory)
        self._host, self._guests = host, guests
        self._undone = False

    def apply(self, desired: Sequence[AnyResource], on_action: OnAction = lambda *_: None) -> None:
        """Make the bench equal `desired`; on any failure everything is removed again, and the error raised.

        What then cannot be removed is a note of that error.
        """
        try:
            self._carry_out(plan(self._journal.present(), desired), on_action)
        except BaseException as error:
            try:
                self.undo()
            except PinchpointError as failure:
                error.add_note(str(failure))
            raise

    def _carry_out(self, actions: Sequence[Action], on_action: OnAction) -> None:
        for number, action in enumerate(actions, start=1):
            what = action.resource.describe()
            host = self._maker(action.resource)
            on_action(number, len(actions), what)
            try:
                if isinstance(action, Create):
                    self._journal.record("create", action.resource)
                    act.create(action.resource, host)
                else:
                    act.remove(action.resource, host)
                    self._journal.record("removed", action.resource)
            except OSError as error:
                raise BenchError(f"{what}: {_words(error, host)}") from error

    def _maker(self, resource: AnyResource) -> Host:
        """Who makes it, and takes it away."""
        match resource:
            case GuestKernel(name=name) | Inside(guest=name):
                return self._guests.get(name, self._host)
        return self._host

    def undo(self) -> None:
        """Remove everything: apply the empty bench, then end the journal. Signals wait until it is done.

        Raises BenchError naming all that could not be removed; the journal then stays for `clean`.
        Once is enough: a second call does nothing.
        """
        if self._undone:
            return
        self._undone = True
        with signals_wait():
            for guest in self._guests.values():
                guest.close()
            _, left = _take_down(self._journal)
        if left:
            raise BenchError("".join(("not removed:", *(f"\n  {what}" for what in left))), "pinchpoint clean")


def _take_down(journal: Journal) -> tuple[list[str], list[str]]:
    """Remove all that can be removed: (what was removed, what was not and why). Ends or leaves the journal."""
    host = journal.host
    removed, left = list[str](), list[str]()
    try:
        present, foreign, damaged = journal.present(), journal.foreign(), journal.damaged()
        by_name = act.named_after(journal.bench_id, journal.path.parent, host) if foreign or damaged else []
        missing = [resource for resource in by_name if resource not in present]
        # Taken down from the end: processes first, namespaces after the interfaces that they may have been lent.
        last = [resource for resource in missing if isinstance(resource, MarkedProcesses)]
        for action in plan([*(resource for resource in missing if resource not in last), *present, *last], ()):
            what = action.resource.describe()
            try:
                act.remove(action.resource, host)
            except (OSError, PinchpointError) as error:
                left.append(f"{what}: {_words(error, host)}")
                continue
            removed.append(what)
            with suppress(PinchpointError):  # at worst it is removed again, which does nothing
                journal.record("removed", action.resource)
        if not left:
            journal.finish()
        told = f"namespaces, processes and folder of its bench are removed; {_COMPARE}"
        left += [*_not_understood(foreign), *(f"{line}; {told}" for line in damaged)]
    except PinchpointError as error:
        left.append(str(error))
    finally:
        journal.leave()
    return removed, left


def _not_understood(foreign: Sequence[Foreign]) -> list[str]:
    """What may be left of entries by another version; what bears the bench's name is removed without them."""
    if not foreign:
        return []
    kinds = sorted({entry.resource.kind[:40] for entry in foreign if entry.resource.kind.isprintable()})
    versions = sorted({entry.version for entry in foreign})
    read_by = f"its journal has version {', '.join(map(str, versions))}, and this program reads version {VERSION}"
    removed = f"namespaces, processes and folder are removed, but not what these entries name: {', '.join(kinds)}"
    return [f"{read_by}: its {removed}; {_COMPARE}"]


def _words(error: OSError | PinchpointError, host: Host) -> str:
    if isinstance(error, PinchpointError):
        return error.message
    return ": ".join(str(part) for part in (host.name, error.filename, error.strerror or error) if part)


def _pages_before(path: Path, host: Host) -> int:
    """How many hugepages a bench found in the pool that it added to; -1 if it added none, or that cannot be read.

    Of benches that stand at once, the one that found most came last, whatever clocks say.
    """
    with suppress(PinchpointError):
        resources = [entry.resource for entry in read(path, host) if isinstance(entry, Entry)]
        return max((resource.before for resource in resources if isinstance(resource, Hugepages)), default=-1)
    return -1


class Cleaned(NamedTuple):
    """What `clean` did, one line each."""

    removed: tuple[str, ...]
    alive: tuple[str, ...]  # benches that a live run still uses
    failures: tuple[str, ...]  # what is left of dead runs, and why


def clean(host: Host, state_directory: Path = STATE_DIRECTORY) -> Cleaned:
    """Remove what dead runs left on a host, each bench for itself. Signals wait until it is done.

    The newest bench goes first, as a run removes it: what it added to the hugepage pool, it added to what an older
    bench had made of the pool.
    """
    removed, alive, failures = list[str](), list[str](), list[str]()
    with signals_wait():
        remove_unborn(host, state_directory)
        newest_first = reversed(journals(host, state_directory))
        for path in sorted(newest_first, key=partial(_pages_before, host=host), reverse=True):
            try:
                journal = Journal.take_over(path, host)
            except FileNotFoundError:
                continue  # its run has ended meanwhile, and removed its bench itself
            except OSError as error:
                failures.append(_words(error, host))
                continue
            if journal is None:
                alive.append(path.stem)
                continue
            gone, left = _take_down(journal)
            removed += [f"{path.stem}: {what}" for what in gone]
            failures += [f"{path.stem}: {what}" for what in left]
    return Cleaned(tuple(removed), tuple(alive), tuple(failures))
