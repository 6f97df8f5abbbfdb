"""A host that is asked over a line: each call is a request to its agent (`guest_line`, `guest_agent`)."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from pinchpoint.host.guest_line import LineError, number, numbers, seconds, text, to_bytes, to_text, truth, words
from pinchpoint.host.interface import COMMAND_TIMEOUT_S, Connection, Environment, Kept
from pinchpoint.model.errors import PinchpointError

_T = TypeVar("_T")
ANSWER_TIMEOUT_S = 60.0  # of an agent whose one CPU may be busy with frames


class AskedHost:
    """What every carrier of the line has in common; it says how a request is put, and what a lost line is."""

    @property
    def is_started(self) -> bool:
        """Whether there is a line to it."""
        raise NotImplementedError

    @property
    def connection(self) -> int:
        """The number of its connection: each one that is made has a higher one, and an agent of its own."""
        return 0

    def _ask(self, call: str, arguments: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        raise NotImplementedError

    def _lost(self, error: LineError) -> PinchpointError:
        raise NotImplementedError

    def run(
        self,
        argv: Sequence[str],
        netns: str | None = None,
        environment: Environment = (),
        cpus: Sequence[int] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> str:
        """Run a command without a shell; returns its stdout. Raises CommandFailed or RequirementError."""
        arguments = {"argv": list(argv), "netns": netns, "environment": list(environment), "timeout_s": timeout_s}
        pinned = {"cpus": None if cpus is None else list(cpus)}
        return self._checked(text, self._ask("run", {**arguments, **pinned}, timeout_s + ANSWER_TIMEOUT_S))

    def read_bytes(self, path: str, offset: int = 0) -> bytes:
        """A file from `offset` to its end. Raises OSError."""
        return self._bytes("read_bytes", {"path": path, "offset": offset})

    def read(self, path: str) -> str:
        """A file as text; bytes that are not UTF-8 are replaced. Raises OSError."""
        return self._checked(text, self._ask("read", {"path": path}))

    def size(self, path: str) -> int:
        """Bytes of a file. Raises OSError."""
        return self._checked(number, self._ask("size", {"path": path}))

    def write(self, path: str, text: str) -> None:
        """Replace what a file holds. Raises OSError."""
        self._ask("write", {"path": path, "text": text})

    def names(self, folder: str) -> list[str]:
        """What a folder holds. Raises OSError."""
        return self._checked(words, self._ask("names", {"folder": folder}))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self._checked(truth, self._ask("exists", {"path": path}))

    def make_folder(self, path: str) -> None:
        """Make a folder that only its owner may enter, with its parents. Raises OSError, also where it exists."""
        self._ask("make_folder", {"path": path})

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that it holds; one that is absent is no error. Raises OSError."""
        self._ask("remove_folder", {"path": path})

    def spawn(self, argv: Sequence[str], environment: Environment, output: str, errors: str) -> int:
        """Start a process of a session of its own; both files are appended to. Returns its id.

        Raises RequirementError if there is no such program.
        """
        arguments = {"argv": list(argv), "environment": list(environment), "output": output, "errors": errors}
        return self._checked(number, self._ask("spawn", arguments))

    def ended(self, pid: int) -> bool:
        """Whether a process that `spawn` started has ended; then it is forgotten. False of any other."""
        return self._checked(truth, self._ask("ended", {"pid": pid}))

    def signal(self, pids: Sequence[int], number: int) -> list[int]:
        """Send a signal to each. Returns those that are gone."""
        return self._checked(numbers, self._ask("signal", {"pids": list(pids), "number": int(number)}))

    def connect(self, path: str, *, packets: bool = False) -> Connection:
        """Connect to a Unix socket: a stream, or one that keeps packets apart. Raises OSError."""
        return _Connection(self, self._checked(number, self._ask("connect", {"path": path, "packets": packets})))

    def which(self, program: str) -> str | None:
        """Where a program is found."""
        path = self._ask("which", {"program": program})
        return None if path is None else self._checked(text, path)

    def cpus(self) -> frozenset[int]:
        """CPUs that may be used."""
        return frozenset(self._checked(numbers, self._ask("cpus", {})))

    def release(self) -> str:
        """The kernel's release (uname(2))."""
        return self._checked(text, self._ask("release", {}))

    def _bytes(self, call: str, arguments: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        return self._checked(to_bytes, self._ask(call, arguments, timeout_s))

    def start_file(self, path: str, unborn: str) -> Kept:
        """A new file, locked by the agent. Raises OSError."""
        return _Kept(self, self._checked(number, self._ask("start_file", {"path": path, "unborn": unborn})))

    def take_file(self, path: str) -> Kept | None:
        """A file whose owner has ended, locked by the agent; None while its owner lives. Raises OSError."""
        file_number = self._ask("take_file", {"path": path})
        return None if file_number is None else _Kept(self, self._checked(number, file_number))

    def hold(self, path: str, holder: str, token: str) -> Kept:
        """A lock that ends with the agent. Raises BlockingIOError with the name of who holds it."""
        arguments = {"path": path, "holder": holder, "token": token}
        return _Kept(self, self._checked(number, self._ask("hold", arguments)))

    def remove_file(self, path: str) -> None:
        """Remove a file; one that is absent is no error. Raises OSError."""
        self._ask("remove_file", {"path": path})

    def modified_s(self, path: str) -> float:
        """When a file was last written, seconds since 1970. Raises OSError."""
        return self._checked(seconds, self._ask("modified_s", {"path": path}))

    def keep_to(self, cpus: Sequence[int]) -> None:
        """Run the agent, and what it starts from now on, on these CPUs. Raises OSError."""
        self._ask("keep_to", {"cpus": sorted(cpus)})

    def bind_memory(self, nodes: Sequence[int]) -> None:
        """Take the memory of what the agent starts from now on from these NUMA nodes; none: from any."""
        self._ask("bind_memory", {"nodes": sorted(nodes)})

    def _checked(self, reader: Callable[[object], _T], value: object) -> _T:
        try:
            return reader(value)
        except LineError as error:
            raise self._lost(error) from None


class _Held:
    """What an agent holds, by its number there: to the agent of a later connection that is something else."""

    def __init__(self, host: AskedHost, number: int) -> None:
        self._host, self._number = host, number
        self._made_on = host.connection

    @property
    def _is_held(self) -> bool:
        return self._host.is_started and self._host.connection == self._made_on

    def _require(self) -> None:
        if self._host.connection != self._made_on:
            raise self._host._lost(LineError("the connection on which this was opened has ended"))


class _Connection(_Held):
    """A connection that the agent holds."""

    def __init__(self, host: AskedHost, number: int) -> None:
        super().__init__(host, number)
        self._timeout_s: float | None = ANSWER_TIMEOUT_S
        self._is_open = True

    def sendall(self, data: bytes, /) -> None:
        """Send all. Raises OSError."""
        self._require()
        self._host._ask("send", {"connection": self._number, "data": to_text(data)})

    def recv(self, most: int, /) -> bytes:
        """What has arrived, at most `most` bytes; none: the other end is closed. Raises OSError, TimeoutError."""
        self._require()
        arguments = {"connection": self._number, "most": most, "timeout_s": self._timeout_s}
        longest_s = ANSWER_TIMEOUT_S + (ANSWER_TIMEOUT_S if self._timeout_s is None else self._timeout_s)
        return self._host._bytes("receive", arguments, longest_s)

    def settimeout(self, seconds: float | None, /) -> None:
        """How long `recv` may wait; None: as long as for any answer."""
        self._timeout_s = seconds

    def close(self) -> None:
        """Close it; one whose host has gone is no error."""
        if self._is_open and self._is_held:
            self._is_open = False
            try:
                self._host._ask("close", {"connection": self._number})
            except PinchpointError:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


class _Kept(_Held):
    """A locked file that the agent holds."""

    def append(self, data: bytes) -> None:
        """Write all of it through to the disk, or nothing. Raises OSError."""
        self._require()
        self._host._ask("append", {"file": self._number, "data": to_text(data)})

    def remove(self) -> None:
        """Delete the file and give up the lock. Raises OSError."""
        self._require()
        self._host._ask("remove", {"file": self._number})

    def close(self) -> None:
        """Give up the lock; where the host has gone, it has ended already."""
        if not self._is_held:
            return
        try:
            self._host._ask("leave", {"file": self._number})
        except PinchpointError:
            return
