"""Runs many processes at a concurrency, or one process with lines on its stdin; an exception ends either.

An agent does such work, or makes and removes many links, in a thread beside its answers, and says how long it takes
there. The lab asks meanwhile how far it is, and looks at what is made. Nothing but the standard library may be imported
here.
"""

import fcntl
import json
import math
import os
import selectors
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from pinchpoint.host.guest_line import to_bytes, to_text
from pinchpoint.host.interface import CommandFailed, Environment
from pinchpoint.host.netlink import create_veths, remove_groups, remove_kind
from pinchpoint.model.errors import RequirementError

LOOK_S = 0.05  # how long whoever watches may have to wait for its turn
_CHUNK = 1 << 16  # bytes of stderr that are read at a time
_LINES = 1000  # that are written at a time, some 64 KiB
_MOST_WORDS = 40  # of a command that are shown when it fails
_MOST_SAID = 1 << 20  # bytes of stderr that are stored


def run_many(
    on_done: Callable[[int], None], commands: Iterable[Sequence[str]], concurrency: int, environment: Environment
) -> None:
    """One process a command, `concurrency` at a time; `on_done` receives the number that have ended.

    It is also called while none ends; what it raises ends the processes that still run.
    Raises CommandFailed with the words of the first that failed, or RequirementError.
    """
    added, waiting, done = {**os.environ, **dict(environment)}, iter(commands), 0
    with selectors.DefaultSelector() as running:
        try:
            while True:
                while len(running.get_map()) < concurrency and (argv := next(waiting, None)) is not None:
                    child = _Child(argv, added, subprocess.DEVNULL)
                    # The end of its stderr is its own, without a wait for any child.
                    running.register(child.stderr, selectors.EVENT_READ, child)
                if not running.get_map():
                    return
                for child in _ending(running):
                    _finish(child, partial(on_done, done))
                    running.unregister(child.stderr)
                    child.close()
                    done += 1
                on_done(done)
        finally:
            for key in list(running.get_map().values()):
                key.data.end()


def _ending(running: selectors.BaseSelector) -> "list[_Child]":
    """Those that have closed their stderr or, where something of theirs still holds it, have ended."""
    if events := running.select(LOOK_S):
        return [key.data for key, _ in events if key.data.hear()]
    return [key.data for key in running.get_map().values() if key.data.process.poll() is not None]


def run_fed(
    on_wait: Callable[[int], None],
    argv: Sequence[str],
    lines: Iterable[str],
    environment: Environment,
    *,
    timeout_s: float = math.inf,
    pipe_bytes: int | None = None,
) -> None:
    """One process with `lines` on its stdin; `on_wait` receives the number of lines written, twenty times a second.

    What `on_wait` raises ends the process. With a small pipe (`pipe_bytes`, at least a page) what
    it has been given is nearly what it has read. Raises RequirementError, or CommandFailed if it
    fails, ends without having been given all lines, or has not ended after `timeout_s` seconds.
    """
    child = _Child(argv, {**os.environ, **dict(environment)}, subprocess.PIPE)
    deadline = time.monotonic() + timeout_s
    stdin = child.process.stdin
    assert stdin is not None

    def look(written: int) -> None:
        if time.monotonic() > deadline:
            raise CommandFailed(child.shown, f"it did not end within {timeout_s:g} s")
        on_wait(written)

    try:
        if pipe_bytes is not None:
            fcntl.fcntl(stdin, fcntl.F_SETPIPE_SZ, pipe_bytes)
        os.set_blocking(stdin.fileno(), False)
        written, all_written = _feed(child, iter(lines), look)
        stdin.close()
        _finish(child, lambda: look(written))
        if not all_written:
            told = f"ended with status 0 after {written:,} lines, before it had read all of them"
            raise CommandFailed(child.shown, f"{told}: {child.said.decode(errors='replace').strip()}")
    finally:
        child.end()


def _feed(child: "_Child", lines: Iterator[str], look: Callable[[int], None]) -> tuple[int, bool]:
    """Give it all lines, unless it ends or takes no more: how many were given, and whether that is all."""
    stdin = child.process.stdin
    assert stdin is not None
    written, looked_at = 0, time.monotonic()
    with selectors.DefaultSelector() as ready:
        ready.register(stdin, selectors.EVENT_WRITE)
        ready.register(child.stderr, selectors.EVENT_READ)
        for chunk, count in _chunks(lines):
            rest = memoryview(chunk)
            while rest:
                events = [key.fileobj for key, _ in ready.select(LOOK_S)]
                if child.stderr in events and child.hear():
                    ready.unregister(child.stderr)  # its stderr is closed; it may still read
                try:
                    rest = rest[os.write(stdin.fileno(), rest) :] if stdin in events else rest
                except BlockingIOError:
                    continue  # writable for less than this
                except BrokenPipeError:
                    return written, False
                if time.monotonic() - looked_at >= LOOK_S:
                    if child.process.poll() is not None:  # something else may hold its stdin open
                        return written, False
                    look(written + int(count * (1 - len(rest) / len(chunk))))
                    looked_at = time.monotonic()
            written += count
    return written, True


def _finish(child: "_Child", on_wait: Callable[[], None]) -> None:
    """Wait for its end, twenty times a second with `on_wait`; raises CommandFailed if it failed."""
    with selectors.DefaultSelector() as hearing:
        hearing.register(child.stderr, selectors.EVENT_READ)
        closed = False
        while child.process.poll() is None:
            if closed:
                with suppress(subprocess.TimeoutExpired):
                    child.process.wait(LOOK_S)
                    break
                on_wait()
            elif hearing.select(LOOK_S):
                closed = child.hear()
            else:
                on_wait()
        while not closed and hearing.select(0):
            closed = child.hear()
    if child.process.returncode != 0:
        raise CommandFailed(child.shown, child.said.decode(errors="replace"))


def _chunks(lines: Iterator[str]) -> Iterator[tuple[bytes, int]]:
    """Lines joined into pieces, each with how many lines it holds."""
    while piece := list(islice(lines, _LINES)):
        yield ("\n".join(piece) + "\n").encode(), len(piece)


class _Child:
    """A process and its stderr, which is read without waiting."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str], stdin: int) -> None:
        words = list(argv)
        self.shown = words if len(words) <= _MOST_WORDS else [*words[:_MOST_WORDS], f"... {len(words)} words in all"]
        self.said = bytearray()  # on stderr
        try:
            self.process = subprocess.Popen(
                argv,
                env=environment,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,  # Ctrl-C is for the lab
            )
        except FileNotFoundError as error:
            raise RequirementError(f"{error.filename}: not installed", "pinchpoint doctor") from error
        assert self.process.stderr is not None
        self.stderr = self.process.stderr
        os.set_blocking(self.stderr.fileno(), False)

    def hear(self) -> bool:
        """Store what is on its stderr; returns whether that is closed."""
        try:
            chunk = os.read(self.stderr.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        self.said += chunk[: _MOST_SAID - len(self.said)]
        return not chunk

    def end(self) -> None:
        """Kill it if it still runs, and close its pipes."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Close its stdin and stderr; one that is closed already is no error."""
        for stream in (self.process.stdin, self.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


_END_S: Final = 10.0  # for work that is stopped to end: a group of links is removed in one go


def pack(arguments: Sequence[object], named: Mapping[str, object]) -> str:
    """What a piece of work is given, as it goes over the line: commands and rules are alike."""
    return to_text(zlib.compress(json.dumps([arguments, named], default=list).encode(), 1))


_WORKS: Final[Sequence[Callable[..., None]]] = (run_many, run_fed, create_veths, remove_groups, remove_kind)
"""The first argument of each hears how far it is, and what that raises ends it."""


class _Stopped(Exception):
    """The lab wants no more of it, or is gone."""


class Job:
    """One piece of work in a thread, timed from its first action to its end."""

    def __init__(self, work: str, packed: str) -> None:
        """`work` is its name among those above, `packed` what `pack` made of its arguments."""
        arguments, named = json.loads(zlib.decompress(to_bytes(packed)))
        (function,) = (known for known in _WORKS if known.__name__ == work)
        self._work = partial(function, self._reach, *arguments, **named)
        self._done, self._seconds, self._is_stopped = 0, 0.0, False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self._work()
        except Exception as error:  # whatever it is, the lab has to hear of it
            self._error = error
        self._seconds = time.monotonic() - began

    def _reach(self, done: int) -> None:
        if self._is_stopped:
            raise _Stopped
        self._done = done

    def state(self) -> tuple[bool, int, float]:
        """Whether it has ended, how much is done, and the seconds that it took. Raises what ended it."""
        if self._thread.is_alive():
            return False, self._done, 0.0
        if self._error is not None:
            raise self._error
        return True, self._done, self._seconds

    def close(self) -> None:
        """End it where it is, with its processes."""
        self._is_stopped = True
        self._thread.join(_END_S)
