"""A guest: a kernel of its own on this machine, asked over a line to its agent (`guest_line`, `guest_agent`)."""

import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pinchpoint.host.guest_line import Line, LineError, numbers, to_bytes, to_text, words
from pinchpoint.host.interface import COMMAND_TIMEOUT_S, Connection, Environment
from pinchpoint.host.local import LOCAL
from pinchpoint.model.errors import BenchError, DutError

_T = TypeVar("_T")
NAME: Final = "guest"
MODPROBE: Final = "/run/guest/modprobe"  # of a guest: loads its kernel's modules; guest_init.sh makes it
LINE: Final = "{line}"  # in a guest's command: the file descriptor of its end of the line
# When the first process of a namespace ends, however that ends, the kernel ends the rest.
OWN_NAMESPACE: Final = ("unshare", "--pid", "--fork", "--kill-child")
ANSWER_TIMEOUT_S = 60.0  # of a guest whose one CPU may be busy with frames
_LOOK_S = 0.1  # how often a guest that boots is looked at
_MOST_PRINTED = 12  # lines


def init_line(modules: Path, line: str) -> str:
    """The shell command with which a guest begins. In a file, since a kernel's command line knows no quotes.

    `modules` has a folder for each release; `line` is the guest's device that leads to the lab.
    """
    here = Path(__file__)
    words = (here.with_name("guest_init.sh"), sys.executable, here.parents[2], modules, line)
    return f"exec /bin/sh {shlex.join(map(str, words))}"


def has_module(modules: Path, name: str) -> bool:
    """Whether there is such a module of any release, or it is built in (modules.builtin lists those by their paths)."""
    built_in = (path.read_text(encoding="utf-8") for path in modules.rglob("modules.builtin"))
    return any(modules.rglob(f"{name}.ko*")) or any(f"/{name}.ko" in text for text in built_in)


class Guest:
    """A guest kernel; before `start` and after `close` it answers nothing."""

    name = NAME

    def __init__(self, line: Line | None = None) -> None:
        self._line = line
        self._log = ""

    @property
    def is_started(self) -> bool:
        """Whether there is a line to it."""
        return self._line is not None

    def start(self, argv: Sequence[str], environment: Environment, log: str) -> int:
        """Start its kernel with what it prints in `log`. Returns the process. Raises RequirementError."""
        ours, theirs = socket.socketpair()
        self._line, self._log = Line(ours), log
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            command = [word.replace(LINE, str(theirs.fileno())) for word in argv]
            return LOCAL.spawn(command, environment, log, log)

    def await_ready(self, has_ended: Callable[[], bool], timeout_s: float) -> None:
        """Return once its agent answers. Raises BenchError with what the guest printed last."""
        assert self._line is not None, "start"
        for _ in range(max(1, round(timeout_s / _LOOK_S))):
            if has_ended():
                raise BenchError(f"the guest ended while it booted{self._printed()}")
            try:
                if self._line.await_ready(_LOOK_S):
                    return
            except LineError as error:
                raise BenchError(f"the guest did not boot: {error}{self._printed()}") from None
        raise BenchError(f"the guest did not boot within {timeout_s:g} s{self._printed()}")

    def close(self) -> None:
        """Give up the line."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def run(
        self,
        argv: Sequence[str],
        netns: str | None = None,
        environment: Environment = (),
        cpus: Sequence[int] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> str:
        """Run a command without a shell; returns its stdout. Raises CommandFailed or RequirementError."""
        given = {"argv": list(argv), "netns": netns, "environment": list(environment), "timeout_s": timeout_s}
        pinned = {"cpus": None if cpus is None else list(cpus)}
        return str(self._ask("run", {**given, **pinned}, timeout_s + ANSWER_TIMEOUT_S))

    def read_bytes(self, path: str, offset: int = 0) -> bytes:
        """A file from `offset` to its end. Raises OSError."""
        return self._bytes("read_bytes", {"path": path, "offset": offset})

    def read(self, path: str) -> str:
        """A file as text; bytes that are not UTF-8 are replaced. Raises OSError."""
        return str(self._ask("read", {"path": path}))

    def size(self, path: str) -> int:
        """Bytes of a file. Raises OSError."""
        return int(self._ask("size", {"path": path}))

    def write(self, path: str, text: str) -> None:
        """Replace what a file holds. Raises OSError."""
        self._ask("write", {"path": path, "text": text})

    def names(self, folder: str) -> list[str]:
        """What a folder holds. Raises OSError."""
        return self._checked(words, self._ask("names", {"folder": folder}))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._ask("exists", {"path": path}))

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
        given = {"argv": list(argv), "environment": list(environment), "output": output, "errors": errors}
        return int(self._ask("spawn", given))

    def ended(self, pid: int) -> bool:
        """Whether a process that `spawn` started has ended; then it is forgotten. False of any other."""
        return bool(self._ask("ended", {"pid": pid}))

    def signal(self, pids: Sequence[int], number: int) -> list[int]:
        """Send a signal to each. Returns those that are gone."""
        return self._checked(numbers, self._ask("signal", {"pids": list(pids), "number": int(number)}))

    def connect(self, path: str, *, packets: bool = False) -> Connection:
        """Connect to a Unix socket: a stream, or one that keeps packets apart. Raises OSError."""
        return _Connection(self, int(self._ask("connect", {"path": path, "packets": packets})))

    def which(self, program: str) -> str | None:
        """Where a program is found."""
        found = self._ask("which", {"program": program})
        return None if found is None else str(found)

    def cpus(self) -> frozenset[int]:
        """CPUs that may be used."""
        return frozenset(self._checked(numbers, self._ask("cpus", {})))

    def release(self) -> str:
        """The kernel's release (uname(2))."""
        return str(self._ask("release", {}))

    def ticks_per_s(self) -> int:
        """Clock ticks in which the kernel counts processor time (SC_CLK_TCK)."""
        return int(self._ask("ticks_per_s", {}))

    def _bytes(self, call: str, given: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        return self._checked(to_bytes, self._ask(call, given, timeout_s))

    def _ask(self, call: str, given: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        if self._line is None:
            raise DutError(f"{call}: the guest does not run")
        try:
            return self._line.ask(call, given, timeout_s)
        except LineError as error:
            raise self._lost(error) from None

    def _checked(self, reader: Callable[[object], _T], value: object) -> _T:
        try:
            return reader(value)
        except LineError as error:
            raise self._lost(error) from None

    def _lost(self, error: LineError) -> DutError:
        return DutError(f"the guest does not answer: {error}{self._printed()}")

    def _printed(self) -> str:
        """What its kernel printed last, to be appended to an error."""
        try:
            printed = LOCAL.read(self._log).splitlines()
        except OSError:
            printed = []
        plain = ("".join(filter(str.isprintable, line)).strip() for line in printed)
        lines = [line for line in plain if line][-_MOST_PRINTED:]
        return "".join(f"\n  | {line}" for line in lines) or "; it printed nothing"


class _Connection:
    """A connection that the agent holds."""

    def __init__(self, guest: Guest, number: int) -> None:
        self._guest, self._number = guest, number
        self._timeout_s: float | None = ANSWER_TIMEOUT_S
        self._is_open = True

    def sendall(self, data: bytes, /) -> None:
        """Send all. Raises OSError."""
        self._guest._ask("send", {"connection": self._number, "data": to_text(data)})

    def recv(self, most: int, /) -> bytes:
        """What has arrived, at most `most` bytes; none: the other end is closed. Raises OSError, TimeoutError."""
        given = {"connection": self._number, "most": most, "timeout_s": self._timeout_s}
        longest_s = ANSWER_TIMEOUT_S + (ANSWER_TIMEOUT_S if self._timeout_s is None else self._timeout_s)
        return self._guest._bytes("receive", given, longest_s)

    def settimeout(self, seconds: float | None, /) -> None:
        """How long `recv` may wait; None: as long as for any answer."""
        self._timeout_s = seconds

    def close(self) -> None:
        """Close it; one whose guest has gone is no error."""
        if self._is_open and self._guest.is_started:
            self._is_open = False
            try:
                self._guest._ask("close", {"connection": self._number})
            except DutError:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
