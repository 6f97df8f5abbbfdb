"""Recordings by perf(1), as processes of the bench, and why the kernel freed frames that it did not deliver.

The reasons are in the kernel's own words: what no counter names. The tracepoint skb:kfree_skb has them from Linux 5.17
on (include/net/dropreason-core.h). Recording slows what it watches, and belongs to a trial whose numbers nobody reads.
"""

import re
import signal
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from pinchpoint.host.interface import SYS, Environment, Host, text_at
from pinchpoint.host.priority import share_priority
from pinchpoint.host.processes import end_processes, session, soon
from pinchpoint.model.errors import BenchError
from pinchpoint.model.measurement import DropReason

INSTALL: Final = "apt-get install linux-perf"
OPTIONS: Final = ("-q", "-B", "-N", "--no-inherit")  # no build ids: perf keeps copies of programs in the home folder
MOST_DATA: Final = 16 << 20  # bytes that perf may record; 8 threads with the deepest stacks take 8 MB in 2 s
_MOST_SAID: Final = 200  # characters
_END_S: Final = 10.0  # for perf to write its file, and again to end when it is asked to
_SCRIPT_S: Final = 60.0
EVENT: Final = "skb:kfree_skb"
MOST: Final = "8M"  # bytes that are recorded, some 80,000 drops: then perf ends
MOUNT: Final = f"mount -t tracefs nodev {SYS}/kernel/tracing"
_FORMATS: Final = tuple(f"{SYS}/kernel/{place}/events/skb/kfree_skb/format" for place in ("tracing", "debug/tracing"))
_REASON: Final = re.compile(r"\breason: (\w{1,60})\s*$", re.MULTILINE)


class Recording:
    """perf beside a trial: started once, ended by itself, then read. Its files go with the bench's folder."""

    def __init__(self, host: Host, folder: str, environment: Environment) -> None:
        """`environment` marks what is started as the bench's."""
        self._host, self._data, self._errors = host, f"{folder}/perf.data", f"{folder}/perf.errors"
        self._environment = (*environment, ("PERF_CONFIG", "/dev/null"), ("LC_ALL", "C"))
        self._pid: int | None = None

    def can_run(self) -> str | None:
        """Why perf cannot record; None where it is installed."""
        return None if self._host.which("perf") else f"perf is not installed: {INSTALL}"

    def run(self, argv: Sequence[str], timeout_s: float = _END_S) -> str:
        """What perf prints. Raises CommandFailed and RequirementError."""
        return self._host.run(argv, environment=self._environment, timeout_s=timeout_s)

    def options(self) -> Sequence[str]:
        """What is recorded, as perf-record(1) takes it."""
        raise NotImplementedError

    def start(self, duration_s: float) -> None:
        """Record for so long, beside whatever happens; once."""
        if self._pid is None:
            argv = ["perf", "record", *OPTIONS, *self.options(), "-o", self._data, "--", "sleep", f"{duration_s:g}"]
            self._pid = self._host.spawn(argv, self._environment, self._errors, self._errors)
            share_priority(self._host, self._pid)  # else it would not get a turn beside the bench before the load ends

    def stop(self) -> None:
        """End the recording and all that it started; what it recorded stays. Nothing if none runs."""
        if self._pid is not None and not self._host.ended(self._pid):
            end_processes(self._host, session(self._host, self._pid), _END_S)
            self._host.ended(self._pid)
        self._pid = None

    def script(self, options: Sequence[str]) -> str:
        """What `perf script` prints of it, once it has ended. Raises BenchError and what `run` raises."""
        if self._pid is None:
            raise BenchError("the traffic ended before it could be sampled")
        self._await_end(self._pid)
        self._pid = None
        try:
            size = self._host.size(self._data)
        except OSError as error:
            raise BenchError(f"perf recorded nothing: {self._said() or error}") from error
        if size > MOST_DATA:
            raise BenchError(f"perf recorded {size:,} bytes, more than {MOST_DATA:,}")
        return self.run(["perf", "script", "-i", self._data, *options], _SCRIPT_S)

    def _await_end(self, pid: int) -> None:
        """Wait for it; one that does not end is asked to (SIGINT: perf writes what it has), then ended."""
        for number in (None, signal.SIGINT):
            if number is not None:
                self._host.signal([pid], number)
            if soon(partial(self._host.ended, pid), _END_S, 0.02):
                return
        self.stop()

    def _said(self) -> str:
        return " ".join(text_at(self._host, self._errors).split())[:_MOST_SAID]


class DropReasons(Recording):
    """One recording on the CPUs of a bench."""

    def __init__(self, host: Host, folder: str, cpus: Sequence[int], environment: Environment) -> None:
        super().__init__(host, folder, environment)
        self._cpus = ",".join(map(str, sorted(set(cpus))))

    def can_run(self) -> str | None:
        """Needs perf, the tracepoint, and its reasons."""
        if (why := super().can_run()) is not None:
            return why
        formats = [path for path in _FORMATS if self._host.exists(path)]
        if not formats:
            return f"the kernel's tracepoints are not mounted, or it has none: {MOUNT}"
        if "reason" not in self._host.read(formats[0]):
            return f"this kernel ({self._host.release()}) gives no reasons for drops; Linux 5.17 and later do"
        return None

    def options(self) -> Sequence[str]:
        """The tracepoint, on these CPUs."""
        return ("-e", EVENT, "--max-size", MOST, "-C", self._cpus)

    def read(self) -> tuple[DropReason, ...]:
        """The reasons, most frequent first, once it has ended. Raises BenchError and RequirementError."""
        return reasons(self.script(("-F", "trace")))


def reasons(text: str) -> tuple[DropReason, ...]:
    """`perf script -F trace` of the tracepoint. Raises BenchError where no line gives a reason."""
    counts = Counter(_REASON.findall(text))
    if text.strip() and not counts:
        raise BenchError(f"perf script shows no reason: {text.strip()[:80]!r}")
    total = sum(counts.values())
    return tuple(DropReason(reason, count, count / total) for reason, count in counts.most_common())
