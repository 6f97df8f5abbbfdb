"""The bench's memory: every action is on disk before it is done.

One file per bench, `/run/pinchpoint/<id>.journal`, JSON lines. /run is a tmpfs: after
a power loss the file is gone, and so is everything that it could have named. The
owner holds a lock on the file, so that `clean` can tell a dead run from a live one.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import msgspec

from pinchpoint.bench.resource import AnyResource
from pinchpoint.model.errors import BenchError, RequirementError

STATE_DIRECTORY = Path("/run/pinchpoint")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line: an action begun (`create`) or ended (`removed`)."""

    op: Literal["create", "removed"]
    resource: AnyResource


class Journal:
    """The open journal of one bench."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file

    @classmethod
    def start(cls, bench_id: str, directory: Path = STATE_DIRECTORY) -> "Journal":
        """A new journal, locked by this process."""
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            path = directory / f"{bench_id}.journal"
            file = path.open("xb")
        except PermissionError as error:
            raise RequirementError(f"{directory}: {error.strerror}", "run as root: sudo pinchpoint ...") from error
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(path, file)

    @classmethod
    def take_over(cls, path: Path) -> "Journal | None":
        """A dead run's journal, locked by this process; None while its owner lives."""
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return cls(path, file)

    def record(self, op: Literal["create", "removed"], resource: AnyResource) -> None:
        """Write one entry through to the file."""
        self._file.write(msgspec.json.encode(Entry(op, resource)) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def present(self) -> tuple[AnyResource, ...]:
        """What may exist: every resource whose creation began and whose removal has not ended."""
        resources: list[AnyResource] = []
        for entry in read(self.path):
            if entry.op == "create":
                resources.append(entry.resource)
            elif entry.resource in resources:
                resources.remove(entry.resource)
        return tuple(resources)

    def finish(self) -> None:
        """Delete the journal: nothing is left that it names."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Give up the lock and keep the file, for `pinchpoint clean`."""
        self._file.close()


def read(path: Path) -> Iterator[Entry]:
    """The entries of a journal; a torn last line is an action that never began."""
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):  # the last is empty, or torn
        try:
            yield msgspec.json.decode(line, type=Entry)
        except msgspec.DecodeError as error:
            raise BenchError(f"{path}:{number}: not a journal entry: {error}", "remove the file by hand") from error


def journals(directory: Path = STATE_DIRECTORY) -> tuple[Path, ...]:
    """All journals on this machine, oldest first."""
    return tuple(sorted(directory.glob("*.journal"), key=lambda path: path.stat().st_mtime))
