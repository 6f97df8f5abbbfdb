"""Many processes at a concurrency, and one process that is fed and watched: both can be left at any moment."""

import fcntl
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from pinchpoint.bench.host import CommandFailed
from pinchpoint.model.errors import RequirementError

LOOK_S = 0.05  # how long whoever watches may have to wait for its turn
_CHUNK = 1 << 16  # bytes
_MOST_WORDS = 40  # of a command that are told when it fails
Environment = Sequence[tuple[str, str]]


def run_many(
    commands: Iterable[Sequence[str]],
    concurrency: int,
    environment: Environment,
    on_done: Callable[[int], None],
) -> None:
    """One process a command, `concurrency` at a time; `on_done` is told how many have ended.

    It is also called while none ends; what it raises ends the processes that still run.
    Raises CommandFailed with the words of the first that failed, or RequirementError.
    """
    added = {**os.environ, **dict(environment)}
    waiting = iter(commands)
    done = 0
    with selectors.DefaultSelector() as running:
        try:
            while True:
                _fill(running, waiting, concurrency, added)
                if not running.get_map():
                    return
                for key, _ in running.select(LOOK_S):
                    process: subprocess.Popen[bytes] = key.data
                    running.unregister(key.fileobj)
                    _finish(process)
                    done += 1
                on_done(done)
        finally:
            for key in list(running.get_map().values()):
                _end(key.data)


def _fill(
    running: selectors.BaseSelector, waiting: Iterator[Sequence[str]], concurrency: int, environment: dict[str, str]
) -> None:
    while len(running.get_map()) < concurrency:
        argv = next(waiting, None)
        if argv is None:
            return
        process = _start(argv, environment, subprocess.DEVNULL)
        # Nothing is said until it ends: the end of its stderr is its own, without a wait for any child.
        running.register(process.stderr, selectors.EVENT_READ, process)  # type: ignore[arg-type]


def run_fed(
    argv: Sequence[str],
    lines: Iterable[str],
    environment: Environment,
    on_wait: Callable[[int], None],
    *,
    pipe_bytes: int | None = None,
) -> None:
    """One process with `lines` on its stdin; `on_wait` is told how many it has been given, twenty times a second.

    What `on_wait` raises ends the process. With a small pipe (`pipe_bytes`, at least a page) what
    it has been given is nearly what it has read. Raises CommandFailed or RequirementError.
    """
    process = _start(argv, {**os.environ, **dict(environment)}, subprocess.PIPE)
    assert process.stdin is not None and process.stderr is not None
    try:
        if pipe_bytes is not None:
            fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, pipe_bytes)
        os.set_blocking(process.stdin.fileno(), False)
        given = _feed(process, iter(lines), on_wait)
        with suppress(BrokenPipeError):
            process.stdin.close()
        with selectors.DefaultSelector() as ending:
            ending.register(process.stderr, selectors.EVENT_READ)
            while not ending.select(LOOK_S):
                on_wait(given)
        _finish(process)
    finally:
        _end(process)


def _feed(process: subprocess.Popen[bytes], lines: Iterator[str], on_wait: Callable[[int], None]) -> int:
    """Give it all lines; ends early if it ends. How many lines were given."""
    assert process.stdin is not None and process.stderr is not None
    given, looked_at = 0, time.monotonic()
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdin, selectors.EVENT_WRITE)
        ready.register(process.stderr, selectors.EVENT_READ)
        for chunk, count in _chunks(lines):
            rest = memoryview(chunk)
            while rest:
                events = [key.fileobj for key, _ in ready.select(LOOK_S)]
                if process.stderr in events:
                    return given
                if process.stdin in events:
                    with suppress(BlockingIOError, BrokenPipeError):
                        rest = rest[os.write(process.stdin.fileno(), rest) :]
                if time.monotonic() - looked_at >= LOOK_S:
                    on_wait(given + int(count * (1 - len(rest) / len(chunk))))
                    looked_at = time.monotonic()
            given += count
    return given


def _chunks(lines: Iterator[str]) -> Iterator[tuple[bytes, int]]:
    """Lines joined into pieces of about 64 KiB, each with how many lines it holds."""
    held: list[str] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line) + 1
        if size >= _CHUNK:
            yield ("\n".join(held) + "\n").encode(), len(held)
            held, size = [], 0
    if held:
        yield ("\n".join(held) + "\n").encode(), len(held)


def _start(argv: Sequence[str], environment: dict[str, str], stdin: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            env=environment,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the lab
        )
    except FileNotFoundError as error:
        raise RequirementError(f"{error.filename}: not installed", "pinchpoint doctor") from error


def _finish(process: subprocess.Popen[bytes]) -> None:
    """Its end, which has begun; raises CommandFailed if it failed."""
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    if process.wait() != 0:
        assert isinstance(process.args, (list, tuple))
        words = [str(word) for word in process.args]
        shown = words if len(words) <= _MOST_WORDS else [*words[:_MOST_WORDS], f"... {len(words)} words in all"]
        raise CommandFailed(shown, said.decode(errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever it does, it ends now."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
