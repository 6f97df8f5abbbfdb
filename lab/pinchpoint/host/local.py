"""The machine on which the lab runs; SIGINT, SIGTERM and SIGHUP at a moment that leaves nothing half done."""

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pinchpoint.host import numa
from pinchpoint.host.interface import COMMAND_TIMEOUT_S, CommandFailed, Connection, Environment, Kept, prefix
from pinchpoint.host.locked import LockedFile
from pinchpoint.model.errors import RequirementError

_CONNECT_TIMEOUT_S = 10.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Local:
    """The machine on which this process runs: commands and files without ssh in between."""

    name = ""

    def run(
        self,
        argv: Sequence[str],
        netns: str | None = None,
        environment: Environment = (),
        cpus: Sequence[int] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> str:
        """Run a command without a shell; returns its stdout. Raises CommandFailed or RequirementError."""
        process: subprocess.Popen[str] | None = None
        try:
            with signals_later():
                process = subprocess.Popen(
                    [*prefix(netns, cpus), *argv],
                    env={**os.environ, **dict(environment)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    # Ctrl-C is for the lab: a half-run command would leave the bench undefined. A session of its own
                    # would have the weight of a session of priority 0 (sched(7), autogroup), whatever the command has.
                    process_group=0,
                )
            stdout, stderr = process.communicate(timeout=timeout_s)
        except FileNotFoundError as error:
            raise _not_installed(error.filename) from error
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(argv, f"it did not end within {timeout_s:g} s") from error
        finally:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            raise CommandFailed(argv, stderr or stdout)
        return stdout

    def read_bytes(self, path: str, offset: int = 0) -> bytes:
        """A file from `offset` to its end. Raises OSError."""
        with open(path, "rb") as file:
            if offset:
                file.seek(offset)
            return file.read()

    def read(self, path: str) -> str:
        """A file as text; bytes that are not UTF-8 are replaced. Raises OSError."""
        return self.read_bytes(path).decode(errors="replace")

    def size(self, path: str) -> int:
        """Bytes of a file. Raises OSError."""
        return Path(path).stat().st_size

    def write(self, path: str, text: str) -> None:
        """Replace what a file holds. Raises OSError."""
        Path(path).write_text(text, encoding="utf-8")

    def names(self, folder: str) -> list[str]:
        """What a folder holds. Raises OSError."""
        return [place.name for place in Path(folder).iterdir()]

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return Path(path).exists()

    def make_folder(self, path: str) -> None:
        """Make a folder that only its owner may enter, with its parents. Raises OSError, also where it exists."""
        Path(path).mkdir(mode=0o700, parents=True)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that it holds; one that is absent is no error. Raises OSError."""
        shutil.rmtree(path, ignore_errors=True)
        if Path(path).exists():
            shutil.rmtree(path)  # raises what kept it

    def spawn(self, argv: Sequence[str], environment: Environment, output: str, errors: str) -> int:
        """Start a process of a session of its own; both files are appended to. Returns its id.

        Raises RequirementError if there is no such program.
        """
        new = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, new, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, errors, new, 0o600),
        ]
        words = {**os.environ, **dict(environment)}
        try:
            return os.posix_spawnp(argv[0], [*argv], words, file_actions=files, setsid=True, setsigmask=())
        except FileNotFoundError as error:
            raise _not_installed(argv[0]) from error

    def ended(self, pid: int) -> bool:
        """Whether a process that `spawn` started has ended; then it is forgotten. False of any other."""
        with suppress(ChildProcessError):
            return os.waitpid(pid, os.WNOHANG)[0] != 0
        return False

    def signal(self, pids: Sequence[int], number: int) -> list[int]:
        """Send a signal to each. Returns those that are gone."""
        gone = []
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                gone.append(pid)
        return gone

    def connect(self, path: str, *, packets: bool = False) -> Connection:
        """Connect to a Unix socket: a stream, or one that keeps packets apart. Raises OSError."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if packets else socket.SOCK_STREAM)
        connection.settimeout(_CONNECT_TIMEOUT_S)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            raise
        return connection

    def which(self, program: str) -> str | None:
        """Where a program is found."""
        return shutil.which(program)

    def cpus(self) -> frozenset[int]:
        """CPUs that this process may use."""
        return frozenset(os.sched_getaffinity(0))

    def release(self) -> str:
        """The kernel's release (uname(2))."""
        return os.uname().release

    def start_file(self, path: str, unborn: str) -> Kept:
        """A new file, which has the name `unborn` until it is locked. Raises OSError."""
        return LockedFile.start(path, unborn)

    def take_file(self, path: str) -> Kept | None:
        """A dead owner's file, locked, a torn last line cut off; None while its owner lives. Raises OSError."""
        return LockedFile.take(path)

    def hold(self, path: str, holder: str, token: str) -> Kept:
        """A lock in the name of `holder`. Raises BlockingIOError naming the holder."""
        return LockedFile.hold(path, holder, token)

    def remove_file(self, path: str) -> None:
        """Remove a file; one that is absent is no error. Raises OSError."""
        Path(path).unlink(missing_ok=True)

    def modified_s(self, path: str) -> float:
        """When a file was last written, seconds since 1970. Raises OSError."""
        return Path(path).stat().st_mtime

    def keep_to(self, cpus: Sequence[int]) -> None:
        """Run on these CPUs from now on, with all that is started. Raises OSError."""
        os.sched_setaffinity(0, cpus)

    def bind_memory(self, nodes: Sequence[int]) -> None:
        """Start what follows with its memory on these NUMA nodes; none: on any. Raises RequirementError."""
        numa.bind_memory(nodes)


def _not_installed(program: str) -> RequirementError:
    return RequirementError(f"{program}: not installed", "pinchpoint doctor")


def exit_code(pid: int) -> int | None:
    """The exit code of a process that `spawn` started, once; of a killed one the signal, negative. None: it runs."""
    ended_pid, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended_pid else None


def reach(address: str, timeout_s: float) -> None:
    """Connect to HOST:PORT and hang up. Raises OSError where nothing answers."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()


@contextmanager
def signals_wait() -> Iterator[None]:
    """Inside, these signals are blocked: what is half removed would have to be found again."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def signals_later() -> Iterator[None]:
    """Inside, these signals are noted, and raised anew at the end.

    What strikes while a command is being started would leave it running, unknown to whoever
    undoes its work. They are not blocked: the command would inherit that.
    """
    if threading.current_thread() is not threading.main_thread():  # no handler runs in another one
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number in before:
            signal.signal(number, lambda signalled, _: arrived.append(signalled))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for signalled in arrived:
            signal.raise_signal(signalled)
