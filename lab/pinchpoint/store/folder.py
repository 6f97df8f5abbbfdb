"""A run folder: everything one run measured, written so that a crash cannot spoil it.

run.json       model.result.RunInfo: what was run, on what
trials.jsonl   one model.trial.Trial a line, each synced before the next trial starts
measurements.jsonl  the same of model.measurement.Measurement: trials of anything but frames
slices.jsonl   the same of model.duet.Stretch: alternating slices of two benches
result.json    model.result.RunResult, replaced whole as scenarios finish
report.html    for people
report.md      for issue trackers
comparison.json, comparison.html  of a run that compared two scenarios
rfc2544.html, rfc9411.html  the forms of these RFCs, where they were asked for
running.lock   held by the process that measures into the folder
attachments/   free text, e.g. the switch's log
tags.json      words that people gave the run; no measurement reads it
"""

import errno
import fcntl
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from pinchpoint.model.comparison import Comparison
from pinchpoint.model.duet import Stretch
from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Record, Trial
from pinchpoint.store.codec import SCHEMA, Codec, T

INFO = Codec.of(RunInfo)
TRIAL = Codec.of(Trial)
MEASUREMENT = Codec.of(Measurement)
RECORDS: Final[Mapping[str, Codec[Any]]] = {"trials.jsonl": TRIAL, "measurements.jsonl": MEASUREMENT}
STRETCH = Codec.of(Stretch)
RESULT = Codec.of(RunResult)
COMPARISON = Codec.of(Comparison)

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_HINTS = {
    errno.ENOSPC: "free some space, then resume the run",
    errno.EDQUOT: "free some of the quota, then resume the run",
    errno.EROFS: "choose a folder on a writable file system",
    errno.EACCES: "make the folder writable for this user, or choose another one",
    errno.EPERM: "make the folder writable for this user, or choose another one",
    errno.ENOENT: "the folder has gone; was it moved or removed during the run?",
    errno.EAGAIN: "another pinchpoint is writing to this run; let it finish first",
}


@dataclass(frozen=True)
class RunFolder:
    """One run's files. Reading raises InputError, writing StoreError; both name the file."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, now: datetime | None = None) -> "RunFolder":
        """Make `root/<name>-<UTC stamp>`, or with suffix -2, -3 ... if that is taken.

        Nothing that exists is ever reused. Raises InputError if `name` is no safe file name,
        StoreError if the folder cannot be made.
        """
        stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = root / f"{_safe(name)}-{stamp}"
        with storing(path):
            root.mkdir(parents=True, exist_ok=True)
            path = first_free(path, "", Path.mkdir)
            _sync_folder(root)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run folder. Raises InputError when it holds no run.json."""
        if not (path / "run.json").is_file():
            hint = "give the folder that `pinchpoint run` printed, such as runs/NAME-20260102T030405Z"
            raise InputError(f"{path}: not a run folder (it has no run.json)", hint)
        return cls(path)

    @property
    def run_id(self) -> str:
        """The folder's own name, unique below its root."""
        return self.path.name

    def store(self, name: str, codec: Codec[T], value: T) -> None:
        """Write a file of one object whole."""
        self.replace(name, codec.encode(value, name) + b"\n")

    def load(self, name: str, codec: Codec[T]) -> T:
        """The object of such a file."""
        return codec.decode(self._read(name), str(self.path / name))

    def load_if_there(self, name: str, codec: Codec[T]) -> T | None:
        """The same; None while there is no such file."""
        return self.load(name, codec) if (self.path / name).exists() else None

    def write_info(self, info: RunInfo) -> None:
        """Write run.json whole; it may be replaced as versions and plans become known."""
        self.store("run.json", INFO, info)

    def read_info(self) -> RunInfo:
        """What was run, on what."""
        return self.load("run.json", INFO)

    def write_result(self, result: RunResult) -> None:
        """Write result.json whole: a reader sees the old or the new one, never a part."""
        self.store("result.json", RESULT, result)

    def read_result(self) -> RunResult | None:
        """What was found so far; None before the first scenario finished."""
        return self.load_if_there("result.json", RESULT)

    def so_far(self) -> RunResult:
        """The same; a result without scenarios before the first one finished."""
        return self.read_result() or RunResult(SCHEMA, self.run_id, False, (), (), ())

    def append(self, record: Record) -> None:
        """Add one line to the file of such records and return once it is on the disk.

        What a crash left of an unfinished last line is cut off first.
        """
        name = "trials.jsonl" if isinstance(record, Trial) else "measurements.jsonl"
        self.append_line(name, RECORDS[name].encode(record, f"{name}, {record.id}"))

    def has_records(self) -> bool:
        """Whether a trial or measurement is stored. False if the files cannot be looked at."""
        with suppress(OSError):
            return any(path.stat().st_size for name in RECORDS if (path := self.path / name).exists())
        return False

    def read_records(self) -> tuple[Record, ...]:
        """All trials and measurements."""
        return (*self.read_trials(), *self.read_measurements())

    def read_trials(self) -> tuple[Trial, ...]:
        """All trials in the order they were made; an unfinished last line is not counted."""
        return self.read_lines("trials.jsonl", TRIAL)

    def read_measurements(self) -> tuple[Measurement, ...]:
        """All measurements in the order they were made; an unfinished last line is not counted."""
        return self.read_lines("measurements.jsonl", MEASUREMENT)

    def append_stretch(self, stretch: Stretch) -> None:
        """Add one line to slices.jsonl, as `append` does."""
        self.append_line("slices.jsonl", STRETCH.encode(stretch, f"slices.jsonl, {stretch.id}"))

    def read_stretches(self) -> tuple[Stretch, ...]:
        """All stretches of slices in the order they were made; an unfinished last line is not counted."""
        return self.read_lines("slices.jsonl", STRETCH)

    def append_line(self, name: str, line: bytes) -> None:
        """Add one line to a file of lines, as `append` does. Raises StoreError."""
        path = self.path / _safe(name)
        with storing(path):
            fresh = not path.exists()
            with path.open("a+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _append(file.fileno(), line + b"\n")
            if fresh:
                _sync_folder(self.path)

    def read_lines(self, name: str, codec: Codec[T]) -> tuple[T, ...]:
        """The lines of such a file; an unfinished last one is not counted."""
        path = self.path / _safe(name)
        if not path.exists():
            return ()
        whole = self._read(name).split(b"\n")[:-1]
        return tuple(codec.decode(line, f"{path}, line {number}") for number, line in enumerate(whole, 1))

    def write_comparison(self, comparison: Comparison, html: str) -> None:
        """Write comparison.json and comparison.html, replacing earlier ones."""
        self.store("comparison.json", COMPARISON, comparison)
        self.write_page("comparison.html", html)

    def write_page(self, name: str, text: str) -> Path:
        """Write a page, replacing an earlier one; returns its path. Raises InputError if `name` is not safe."""
        self.replace(name, _text(text, name))
        return self.path / name

    def attach(self, name: str, text: str) -> Path:
        """Keep a text under attachments/; a name that is taken gets the suffix -2, -3 ...

        Returns where it was written. Raises InputError if `name` is no safe file name.
        """
        folder = self.path / "attachments"
        stem, dot, ending = _safe(name).rpartition(".")
        base, data = folder / (stem if dot else ending), _text(text, name)
        with storing(folder / name):
            folder.mkdir(exist_ok=True)
            path = first_free(base, dot + ending if dot else "", lambda path: path.touch(0o644, exist_ok=False))
            with path.open("wb", buffering=0) as file:
                _write_synced(file.fileno(), data)
            _sync_folder(folder)
        return path

    def replace(self, name: str, data: bytes) -> None:
        """Write a file whole: a reader sees the old or the new one. Raises StoreError."""
        path = self.path / _safe(name)
        with storing(path):
            replace_file(path, data)
            _sync_folder(self.path)

    def _read(self, name: str) -> bytes:
        path = self.path / name
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise InputError(f"{path}: missing") from error
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}") from error


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole: a reader sees the old or the new one. Raises OSError, and leaves nothing behind then.

    A link that waits where the new one is written is not followed.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.unlink(missing_ok=True)
        with partial.open("xb", buffering=0) as file:
            _write_synced(file.fileno(), data)
        partial.rename(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise


def _append(descriptor: int, line: bytes) -> None:
    """Append `line` behind the last whole line; on failure leave only whole lines behind."""
    whole = _whole_bytes(descriptor)
    if whole < os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, whole)
    try:
        _write_synced(descriptor, line)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, whole)
        raise


def _whole_bytes(descriptor: int) -> int:
    """The length of the file up to and with its last newline."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_synced(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def first_free(base: Path, ending: str, make: Callable[[Path], None]) -> Path:
    """Make `base + ending`, or the first of `base-2`, `base-3` ... that is not taken. `make` raises FileExistsError."""
    for number in count(1):
        path = base.with_name(f"{base.name}{f'-{number}' if number > 1 else ''}{ending}")
        with suppress(FileExistsError):
            make(path)
            break
    return path


def _safe(name: str) -> str:
    if _SAFE_NAME.fullmatch(name):
        return name
    hint = "use letters, digits, '.', '_' and '-', starting with a letter or digit, at most 128"
    raise InputError(f"{name!r} cannot be used as a file name", hint)


def _text(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{where}: cannot be stored: {error}") from error


@contextmanager
def storing(path: Path, hint: str = "", taken: str = "") -> Iterator[None]:
    """Turn the system's refusal to write into a StoreError that names the file and what to do: `hint`, if it is given.

    `taken` says what to do where a file is made anew, and there is one of its name: an InputError.
    """
    try:
        yield
    except OSError as error:
        if taken and isinstance(error, FileExistsError):
            raise InputError(f"{path}: exists already", taken) from error
        reason = error.strerror or str(error)
        raise StoreError(f"cannot write {path}: {reason}", hint or _HINTS.get(error.errno or 0)) from error


TAGS_FILE: Final = "tags.json"
MOST_TAGS: Final = 32  # of one run
_TAG = re.compile(r"[\w][\w .:/+-]{0,39}")


def read_tags(folder: RunFolder) -> tuple[str, ...]:
    """The run's tags, sorted; none without the file. Raises InputError if it holds anything else."""
    path = folder.path / TAGS_FILE
    try:
        tags = msgspec.json.decode(path.read_bytes(), type=list[str])
    except FileNotFoundError:
        return ()
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path}: {error}", 'write a list of words: ["nightly"], or remove the file') from error
    return _checked(tags)


def tags_or_fault(folder: RunFolder) -> tuple[tuple[str, ...], str]:
    """The run's tags, or what is wrong with their file: its results are whole without it."""
    try:
        return read_tags(folder), ""
    except InputError as error:
        return (), "; ".join(filter(None, (f"{TAGS_FILE} cannot be read: {error.message}", error.hint)))


def write_tags(folder: RunFolder, tags: Iterable[str]) -> None:
    """Replace tags.json whole. Raises InputError for what is no tag, StoreError if it cannot be written."""
    folder.replace(TAGS_FILE, msgspec.json.encode(list(_checked(tags))) + b"\n")


def _checked(tags: Iterable[str]) -> tuple[str, ...]:
    unique = sorted(set(tags))
    for tag in unique:
        if not _TAG.fullmatch(tag):
            hint = "use up to 40 letters, digits, spaces and . : / + - _, starting with a letter or digit"
            raise InputError(f"{tag!r} cannot be a tag", hint)
    if len(unique) > MOST_TAGS:
        raise InputError(f"expected at most {MOST_TAGS} tags of a run, found {len(unique)}", "remove some")
    return tuple(unique)


_LOCK_FILE = "running.lock"
_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Inside, `owner(folder)` is this process. A folder that takes no file has no owner; its run goes on."""
    path = folder / _LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def owner(folder: Path) -> int | None:
    """The process that measures into the folder; None if none does, or if it is of another process namespace."""
    try:
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None
