"""What runs on a host reached by ssh while it is connected: it answers the lab, and holds the bench on a lease.

It ends when its standard input does, when nothing has come for the time of the lease, or by a signal. Whatever bench
it still holds a journal of is then undone, with nothing but the standard library (`lease`).
"""

import hashlib
import os
import platform
import select
import signal
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from pinchpoint.host import lease
from pinchpoint.host.guest_agent import Agent
from pinchpoint.host.guest_line import READY, to_bytes
from pinchpoint.host.interface import Host, Kept
from pinchpoint.host.jobs import Jobs, children_s
from pinchpoint.host.local import Local
from pinchpoint.host.locked import LockedFile
from pinchpoint.host.netlink import count_links

_CHUNK = 1 << 20
_SYSTEM_PATHS = "/usr/local/sbin:/usr/sbin:/sbin"  # where a user's own PATH may not lead
_PREFERRED = -20  # nice(2): as the lab's own machine runs a bench


class SshAgent(Agent):
    """Answers what any host answers, and what a host needs that has nothing of Pinchpoint installed."""

    lease_s = 60.0  # for which the lab may be silent, until it says

    def __init__(self, host: Host) -> None:
        self.jobs = Jobs()
        super().__init__(host)

    def more(self) -> Mapping[str, Callable[..., Any]]:
        """What the host is, the engine's file, the lease."""
        return {
            "identity": self._identity,
            "ping": lambda: None,
            "sha256": _sha256,
            "put": _put,
            "begin": self.jobs.begin,
            "job": self.jobs.state,
            "end_job": self.jobs.stop,
            "count_links": count_links,
            "children_s": children_s,
        }

    def journals(self) -> list[Path]:
        """Of the benches that have not been undone."""
        return [file.path for file in self._files.values() if isinstance(file, LockedFile) and _is_journal(file)]

    def _identity(self, lease_s: float) -> dict[str, object]:
        """The first request: the lab says how long it may be silent, the host what it is."""
        self.lease_s = lease_s
        identity = {"uid": os.geteuid(), "machine": platform.machine(), "node": platform.node()}
        return {**identity, "clock_s": time.time()}


def _is_journal(file: Kept) -> bool:
    return isinstance(file, LockedFile) and file.path.suffix == ".journal"


def _sha256(path: str) -> str | None:
    """Of a file; None if there is none."""
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


def lines(descriptor: int, lease_s: Callable[[], float]) -> Iterator[bytes]:
    """The requests that arrive, until the other end closes or nothing comes for that long."""
    rest = bytearray()
    while select.select([descriptor], [], [], lease_s())[0]:
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return
        *ended, last = chunk.split(b"\n")
        for part in ended:
            yield bytes(rest + part)
            rest = bytearray()
        rest += last


def put(descriptor: int, data: bytes, lease_s: float) -> None:
    """Write all of it. Raises _Silent if the other end takes nothing for that long, OSError if it is gone."""
    left = memoryview(data)
    while left:
        if not select.select([], [descriptor], [], lease_s)[1]:
            raise _Silent
        with suppress(BlockingIOError):
            left = left[os.write(descriptor, left) :]


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _prefer() -> None:
    """Before what else runs there, as on the lab's own machine; what is started inherits it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _PREFERRED)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_PREFERRED), encoding="ascii")


def main() -> None:
    """Serve standard input and output; then undo what is left."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _end)
    os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SYSTEM_PATHS}"
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)  # what is started must neither read requests nor write answers
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.set_blocking(sink, False)
    _prefer()
    host = Local()
    agent = SshAgent(host)
    try:
        put(sink, READY + b"\n", agent.lease_s)
        for line in lines(source, lambda: agent.lease_s):
            put(sink, agent.answer(line), agent.lease_s)
    except (_Silent, OSError):
        pass  # the lab is gone
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        agent.jobs.stop()  # it would make what is being undone
        for path in reversed(agent.journals()):  # as a run does: see `builder.clean`
            lease.undo(path, host)


if __name__ == "__main__":
    main()
