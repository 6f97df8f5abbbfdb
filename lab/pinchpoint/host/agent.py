"""What runs in a guest, and on a host reached by ssh: it answers the lab (`guest_line`) by what `local` does there.

In a guest, `python -S -m pinchpoint.host.agent /dev/ttyS0`: it sees the lab's files, and needs nothing installed.
Without a device the line is standard input and output, as over ssh, and the agent holds the bench on a lease: it ends
when its input does, when nothing has come for the time of the lease, or by a signal. Whatever bench it still holds a
journal of is then undone (`lease`).

Nothing but the standard library may be imported here, however indirectly.
"""

import json
import os
import platform
import select
import signal
import sys
import time
import tty
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from pinchpoint.host import lease
from pinchpoint.host.guest_line import CREDIT, PIECE, READY, LineError, answer, refusal, to_bytes, to_text
from pinchpoint.host.interface import OPERATIONS, Connection, Host, Kept
from pinchpoint.host.local import Local
from pinchpoint.host.locked import LockedFile
from pinchpoint.host.many import Job
from pinchpoint.host.signals import ENDING

_CHUNK = 1 << 20
_SYSTEM_PATHS = "/usr/local/sbin:/usr/sbin:/sbin"  # where a user's own PATH may not lead
_PREFERRED = -20  # nice(2): as the lab's own machine runs a bench


class Agent:
    """Answers requests, one after the other."""

    lease_s: float | None = None  # for which the lab may be silent; None: for ever

    def __init__(self, host: Host) -> None:
        self._host = host
        self._held: dict[int, Any] = {}  # connections, locked files and jobs, none of which gets the number of another
        self._numbers = count(1)
        self._calls: Mapping[str, Callable[..., Any]] = {
            **{name: getattr(host, name) for name in OPERATIONS},
            "read_bytes": lambda path, offset: to_text(host.read_bytes(path, offset)),
            "cpus": lambda: sorted(host.cpus()),
            "connect": lambda path, packets: self._hold(host.connect(path, packets=packets)),
            "start_file": lambda path, unborn: self._hold(host.start_file(path, unborn)),
            "take_file": lambda path: self._hold(host.take_file(path)),
            "hold": lambda path, holder, token: self._hold(host.hold(path, holder, token)),
            "begin": lambda work, packed: self._hold(Job(work, packed)),
            "send": lambda held, data: self._held[held].sendall(to_bytes(data)),
            "append": lambda held, data: self._held[held].append(to_bytes(data)),
            "state": lambda held: self._held[held].state(),
            "remove": lambda held: self._held.pop(held).remove(),
            "close": lambda held: self._held.pop(held).close(),
            "receive": self._receive, "identity": self._identity, "ping": lambda: None, "sha256": _sha256, "put": _put,
        }  # fmt: skip

    def answer(self, line: bytes) -> bytes:
        """The answer to one request; of a line that is none, an error without a number."""
        try:
            asked = json.loads(line)
            number, call, arguments = asked["id"], self._calls[asked["call"]], dict(asked["with"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            return refusal(None, LineError(f"no request: {type(error).__name__}: {error}"))
        try:
            return answer(number, call(**arguments))
        except Exception as error:  # whatever it is, the lab has to hear of it
            return refusal(number, error)

    def undo(self) -> None:
        """End the jobs, which would make what is being undone; then undo the benches of which it holds a journal."""
        for job in self._held.values():
            if isinstance(job, Job):
                job.close()
        files = [file.path for file in self._held.values() if isinstance(file, LockedFile)]
        for path in reversed(files):  # as a run does: see `builder.clean`
            if path.suffix == ".journal":
                lease.undo(path, self._host)

    def _hold(self, held: Connection | Kept | Job | None) -> int | None:
        if held is None:
            return None
        number = next(self._numbers)
        self._held[number] = held
        return number

    def _receive(self, held: int, most: int, timeout_s: float | None) -> str:
        self._held[held].settimeout(timeout_s)
        return to_text(self._held[held].recv(most))

    def _identity(self, lease_s: float) -> dict[str, object]:
        """The first request by ssh: the lab says how long it may be silent, the host what it is."""
        self.lease_s = lease_s
        return {"uid": os.geteuid(), "machine": platform.machine(), "node": platform.node(), "clock_s": time.time()}


def _sha256(path: str) -> str | None:
    """Of a file; None if there is none."""
    import hashlib  # not before it is asked for: a guest would load the library behind it

    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _put(path: str, data: str, mode: int) -> None:
    """Make a file of compressed bytes; whoever looks sees the whole file or none. What fails leaves nothing.

    The folder is the file's own. A part that an agent left there which was killed meanwhile is removed.
    """
    place = Path(path)
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    for part in place.parent.glob(f"{place.name}.*"):
        if not Path(f"/proc/{part.suffix[1:]}").exists():
            part.unlink(missing_ok=True)
    new = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        new.write_bytes(zlib.decompress(to_bytes(data)))
        new.chmod(mode)
        new.replace(place)
    except BaseException:
        new.unlink(missing_ok=True)
        with suppress(OSError):  # an earlier file may be there
            place.parent.rmdir()
        raise


class _Silent(Exception):
    """Nothing was heard, or taken, for the time of the lease."""


def serve(source: int, sink: int, agent: Agent, *, credits_pieces: bool = True) -> None:
    """Say that the agent is ready, and answer until the other end closes, or is silent for the time of the lease."""
    with suppress(_Silent):
        _put_line(sink, READY + b"\n", agent.lease_s)
        for line in _requests(source, sink if credits_pieces else None, agent):
            _put_line(sink, agent.answer(line), agent.lease_s)


def _requests(source: int, credited: int | None, agent: Agent) -> Iterator[bytes]:
    """The lines that arrive, until the other end closes; to `credited` goes a credit for every PIECE bytes of one."""
    line, since_credit = bytearray(), 0
    while chunk := _next_chunk(source, _CHUNK if credited is None else PIECE, agent.lease_s):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield bytes(line + part)
            line, since_credit = bytearray(), 0
        line += rest
        since_credit += len(rest)
        if credited is not None and since_credit >= PIECE:
            _put_line(credited, CREDIT + b"\n", agent.lease_s)
            since_credit -= PIECE


def _next_chunk(source: int, most: int, lease_s: float | None) -> bytes:
    if lease_s is not None and not select.select([source], [], [], lease_s)[0]:
        raise _Silent
    return os.read(source, most)


def _put_line(sink: int, data: bytes, lease_s: float | None) -> None:
    """Write all of it. Raises _Silent if the other end takes nothing for that long, OSError if it is gone."""
    left = memoryview(data)
    while left:
        if lease_s is not None and not select.select([], [sink], [], lease_s)[1]:
            raise _Silent
        with suppress(BlockingIOError):
            left = left[os.write(sink, left) :]


def _serve_terminal(path: str) -> None:
    """Answer what comes over a terminal, or another device."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    if os.isatty(descriptor):
        tty.setraw(descriptor)
    serve(descriptor, descriptor, Agent(Local()))


def _serve_on_lease() -> None:
    """Answer what comes over standard input and output; then undo what is left.

    It comes before what else runs there, as on the lab's own machine; what is started inherits it.
    """
    for number in ENDING:
        signal.signal(number, lambda *_: sys.exit(0))
    os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SYSTEM_PATHS}"
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)  # what is started must neither read requests nor write answers
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.set_blocking(sink, False)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _PREFERRED)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_PREFERRED), encoding="ascii")
    agent = Agent(Local())
    agent.lease_s = 60.0  # until the lab says
    try:
        with suppress(OSError):  # the lab is gone
            serve(source, sink, agent, credits_pieces=False)
    finally:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        agent.undo()


if __name__ == "__main__":
    if sys.argv[1:]:
        _serve_terminal(sys.argv[1])
    else:
        _serve_on_lease()
