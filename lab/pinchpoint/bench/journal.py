"""The bench's memory: every action is on disk before it is done.

One file per bench, `/run/pinchpoint/<id>.journal`, JSON lines. /run is a tmpfs: after
a reboot the file is gone, and so is everything that it could have named: processes, namespaces, links,
pages added to the pool. What a reboot would not undo may not be made under this journal (decision 0076). The
owner holds a lock on the file, so that `clean` can tell a dead run from a live one.
Beside the journals stands `run.lock`: a machine has one run at a time. All of it is on the
host on which the bench stands, so that it can be undone there without the lab.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from pinchpoint.bench.resource import AnyResource
from pinchpoint.host.interface import Host, Kept
from pinchpoint.model.errors import BenchError, RequirementError

STATE_DIRECTORY = Path("/run/pinchpoint")
VERSION = 1  # raised when a resource of a journal could no longer be read, or would be removed otherwise
_T = TypeVar("_T")
_NEW = ".new"  # a journal before its owner holds the lock
_SHOWN = 60  # bytes of a damaged line
_HINTS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "run as root: sudo pinchpoint ..."),
    errno.EEXIST: "pinchpoint clean",
    errno.ENOSPC: "free some space there",
}


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line: an action begun (`create`) or ended (`removed`)."""

    op: Literal["create", "removed"]
    resource: AnyResource
    version: int = 1  # of the resources' schema: VERSION when it was written


class _Tag(msgspec.Struct, frozen=True):
    kind: str


class Foreign(msgspec.Struct, frozen=True):
    """A line of another version of the schema, as far as any version can read it."""

    op: str
    resource: _Tag
    version: int = 1


@dataclass(frozen=True)
class Damaged:
    """A line that no version can read; `words` say where it is and how it begins."""

    words: str


class Journal:
    """The open journal of what a host has of one bench."""

    def __init__(self, path: Path, host: Host, file: Kept) -> None:
        self.path, self.host = path, host
        self._file = file

    @property
    def bench_id(self) -> str:
        """Whose journal it is."""
        return self.path.stem

    @classmethod
    def start(cls, bench_id: str, host: Host, directory: Path = STATE_DIRECTORY) -> "Journal":
        """A new journal, locked by this process. Raises RequirementError if it cannot be written."""
        path, new = directory / f"{bench_id}.journal", directory / f"{bench_id}{_NEW}"
        with requiring(host, directory):
            return cls(path, host, host.start_file(str(path), str(new)))

    @classmethod
    def take_over(cls, path: Path, host: Host) -> "Journal | None":
        """A dead run's journal, locked by this process; None while its owner lives.

        A torn last line is cut off, so that what is recorded next stands on a line of its own.
        Raises FileNotFoundError if the owner has finished meanwhile, OSError if it cannot be written.
        """
        file = host.take_file(str(path))
        return None if file is None else cls(path, host, file)

    def record(self, op: Literal["create", "removed"], resource: AnyResource) -> None:
        """Write one entry through to the file: whole, or not at all and BenchError is raised."""
        try:
            self._file.append(msgspec.json.encode(Entry(op, resource, VERSION)) + b"\n")
        except OSError as error:
            told = f"{_where(self.host)}{self.path}: cannot write: {error.strerror}"
            raise BenchError(told, _hint(error, self.path.parent)) from error

    def present(self) -> tuple[AnyResource, ...]:
        """What may exist: every resource whose creation began and whose removal has not ended.

        Without what another version wrote (`foreign`), and without what cannot be read (`damaged`).
        """
        resources: list[AnyResource] = []
        for entry in self._of_kind(Entry):
            if entry.op == "create":
                resources.append(entry.resource)
            elif entry.resource in resources:
                resources.remove(entry.resource)
        return tuple(resources)

    def foreign(self) -> tuple[Foreign, ...]:
        """What another version wrote and this one cannot remove by its entry."""
        return self._of_kind(Foreign)

    def damaged(self) -> tuple[str, ...]:
        """The lines that cannot be read, each with its place."""
        return tuple(entry.words for entry in self._of_kind(Damaged))

    def _of_kind(self, kind: type[_T]) -> tuple[_T, ...]:
        return tuple(entry for entry in read(self.path, self.host) if isinstance(entry, kind))

    def finish(self) -> None:
        """Delete the journal: nothing is left that it names."""
        try:
            self._file.remove()
        except OSError as error:
            raise BenchError(f"{self.path}: cannot delete: {error.strerror}", "pinchpoint clean") from error

    def leave(self) -> None:
        """Give up the lock and keep the file, for `pinchpoint clean`."""
        self._file.close()


def read(path: Path, host: Host) -> Iterator[Entry | Foreign | Damaged]:
    """The entries of a journal; a torn last line is an action that never began. Raises BenchError if there is none."""
    try:
        lines = host.read_bytes(str(path)).split(b"\n")
    except OSError as error:
        raise BenchError(f"{_where(host)}{path}: cannot read: {error.strerror}", _hint(error, path.parent)) from error
    for number, line in enumerate(lines[:-1], start=1):  # the last is empty, or torn
        try:
            yield _entry(line)
        except msgspec.DecodeError as error:
            yield Damaged(f"{_where(host)}{path}:{number}: not a journal entry: {error}: {line[:_SHOWN]!r}")


def _entry(line: bytes) -> Entry | Foreign:
    try:
        entry = msgspec.json.decode(line, type=Entry)
    except msgspec.ValidationError:
        return msgspec.json.decode(line, type=Foreign)
    return entry if entry.version == VERSION else msgspec.json.decode(line, type=Foreign)


def journals(host: Host, directory: Path = STATE_DIRECTORY) -> tuple[Path, ...]:
    """All journals on a host, oldest first; one that ends while they are listed may be missing."""
    dated_paths: list[tuple[float, Path]] = []
    for path in _ending_in(".journal", host, directory):
        with suppress(FileNotFoundError):
            dated_paths.append((host.modified_s(str(path)), path))
    return tuple(path for _, path in sorted(dated_paths))


def remove_unborn(host: Host, directory: Path = STATE_DIRECTORY) -> None:
    """Delete the files of owners that died before their journal had its name; they built nothing."""
    for path in _ending_in(_NEW, host, directory):
        with suppress(OSError):
            if journal := Journal.take_over(path, host):
                journal.finish()


def _ending_in(suffix: str, host: Host, directory: Path) -> list[Path]:
    try:
        names = host.names(str(directory))
    except FileNotFoundError:
        return []
    return [directory / name for name in sorted(names) if name.endswith(suffix)]


@contextmanager
def machine_lock(host: Host, directory: Path = STATE_DIRECTORY, token: str = "") -> Iterator[None]:
    """Inside, no other run is active on the host. Raises RequirementError naming the holder if one is.

    The lock ends with its holder, however that ends; its file stays. By the `token` in it the holder is known.
    """
    with requiring(host, directory):
        try:
            held = host.hold(str(directory / "run.lock"), holder(), token)
        except BlockingIOError as error:
            raise busy(error, host) from error
    with closing(held):
        yield


def holder() -> str:
    """How the lock's file names this run, e.g. `process 4711 on lab1, since 2026-11-23 14:05 UTC`."""
    return f"process {os.getpid()} on {os.uname().nodename}, since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def busy(error: BlockingIOError, host: Host) -> RequirementError:
    """What to say of a machine that another run holds."""
    undone = "its bench is undone there within its lease_s" if host.name else "run `pinchpoint clean`"
    told = f"another run is active on {host.name or 'this machine'}: {error.strerror}"
    return RequirementError(told, f"wait until it ends; if it was killed, {undone}")


@contextmanager
def requiring(host: Host, directory: Path) -> Iterator[None]:
    """Turns what the system says about the state folder into a RequirementError."""
    try:
        yield
    except OSError as error:
        message = f"{_where(host)}{error.filename or directory}: cannot write: {error.strerror}"
        raise RequirementError(message, _hint(error, directory)) from error


def _where(host: Host) -> str:
    """What an error says before a path of another host."""
    return f"{host.name}: " if host.name else ""


def _hint(error: OSError, directory: Path) -> str:
    return _HINTS.get(error.errno or 0, f"pinchpoint keeps its state in {directory}: make that writable")
