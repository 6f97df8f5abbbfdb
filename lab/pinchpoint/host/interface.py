"""A host, and what it offers. A path names a file of that host; a process id, one of its processes."""

import os
import resource
import shlex
import shutil
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from pinchpoint.host import memory_policy, netlink
from pinchpoint.host.locked import LockedFile
from pinchpoint.host.signals import signals_later
from pinchpoint.model.errors import BenchError, RequirementError

COMMAND_TIMEOUT_S = 120.0  # of a command that does not say otherwise
_CONNECT_TIMEOUT_S = 10.0
MOST_WORDS = 1_000  # of a command that people are shown
PROC: Final = "/proc"  # proc(5)
SYS: Final = "/sys"  # sysfs(5)
TICKS_PER_S: Final = 100  # in which Linux counts processor time for processes: USER_HZ, but for Alpha
NAMESPACES: Final = netlink.NAMESPACES
Environment = Sequence[tuple[str, str]]


class CommandFailed(BenchError):
    """A command failed; `output` is its stderr, or its stdout if that is empty."""

    def __init__(self, argv: Sequence[str], output: str) -> None:
        self.argv = tuple(argv)
        self.output = output.strip()
        command = shell_line(self.argv, None, None)
        super().__init__(f"{argv[0]} failed: {self.output or 'no output'}\n  command: {command}")


class Connection(Protocol):
    """A connection to a Unix socket, as `socket.socket` offers it. To be closed."""

    def sendall(self, data: bytes, /) -> None:
        """Send all. Raises OSError."""

    def recv(self, most: int, /) -> bytes:
        """What has arrived, at most `most` bytes; none: the other end is closed. Raises OSError, TimeoutError."""

    def settimeout(self, seconds: float | None, /) -> None:
        """How long either of the above may wait; None: for ever."""

    def close(self) -> None:
        """Close this end of the socket. A second call is no error."""


class Kept(Protocol):
    """A file that is locked for as long as its owner lives, so that others can tell a dead one."""

    def append(self, data: bytes, /) -> None:
        """Write all of it through to the disk, or nothing. Raises OSError."""

    def remove(self) -> None:
        """Delete the file and give up the lock. Raises OSError."""

    def close(self) -> None:
        """Give up the lock and leave the file."""


class Host:
    """The machine on which this process runs. A host that is asked over a line offers the same (`asked`)."""

    name = ""
    """The scenario's word for it; empty: the machine on which the lab runs."""

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
        """A lock in the name of `holder`; who has the same token gives it up. Raises BlockingIOError naming the holder.

        Its file stays.
        """
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
        memory_policy.bind(nodes)

    def count_links(self, netns: str) -> int:
        """Links of a namespace, lo included; 0 where there is no such namespace."""
        return netlink.count_links(netns)

    def children_s(self) -> float:
        """Processor time of all processes that were started here and have ended."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


OPERATIONS: Final = tuple(name for name, member in vars(Host).items() if callable(member) and not name.startswith("_"))
"""What is asked of a host, by the names of its methods."""


def _not_installed(program: str) -> RequirementError:
    return RequirementError(f"{program}: not installed", "pinchpoint doctor")


def text_at(host: Host, path: str) -> str:
    """What a file holds; empty where it is absent, or has nothing to tell now."""
    try:
        return host.read(path)
    except OSError:
        return ""


def printed_by(host: Host, *argv: str) -> str:
    """What a command prints; empty where it fails or is not installed."""
    try:
        return host.run(argv)
    except (CommandFailed, RequirementError):
        return ""


def names_in(host: Host, folder: str) -> list[str]:
    """What a folder holds, in order; nothing where it is absent."""
    try:
        return sorted(host.names(folder))
    except OSError:
        return []


def shell_line(argv: Sequence[str], netns: str | None, cpus: Sequence[int] | None) -> str:
    """The command as one would type it, for people; never given to a shell."""
    words = [*prefix(netns, cpus), *argv[: MOST_WORDS if len(argv) <= MOST_WORDS else MOST_WORDS // 10]]
    if len(argv) > MOST_WORDS:
        return f"{shlex.join(words)} ...    # {len(argv) - MOST_WORDS // 10:,} more words"
    return shlex.join(words)


def is_path(netns: str | None) -> bool:
    """Whether a network namespace is given by its file, as that of a process is, and not by its name (ip-netns(8))."""
    return netns is not None and netns.startswith("/")


def prefix(netns: str | None, cpus: Sequence[int] | None) -> list[str]:
    """The words before a command that is to run in a namespace, on some CPUs."""
    words = ["ip", "netns", "exec", netns] if netns else []
    if is_path(netns):
        words = ["nsenter", f"--net={netns}", "--"]
    return words + (["taskset", "-c", ",".join(map(str, cpus))] if cpus is not None else [])
