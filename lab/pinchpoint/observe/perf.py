"""Recordings by perf(1), as processes of the bench: why the kernel freed frames, what functions threads are in.

The reasons are in the kernel's own words: what no counter names. The tracepoint skb:kfree_skb has them from Linux 5.17
on (include/net/dropreason-core.h). Samples of what functions forwarding threads are in are kept as folded stacks: a
line `thread;caller;callee COUNT`, the input of FlameGraph. Recording slows what it watches, and belongs to a trial
whose numbers nobody reads. Formats: perf-record(1), perf-script(1).
"""

import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pinchpoint.host.interface import SYS, CommandFailed, Environment, Host, text_at
from pinchpoint.host.priority import share_priority
from pinchpoint.host.processes import end_processes, session, soon
from pinchpoint.model.errors import BenchError, RequirementError
from pinchpoint.model.hops import DropKind
from pinchpoint.model.measurement import DropReason, FunctionShare
from pinchpoint.observe.snapshot import Forwarding

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
KINDS: Final[Mapping[str, DropKind]] = {
    "NEIGH_": DropKind.NEIGHBOUR, "IP_RPFILTER": DropKind.SOURCE, "NETFILTER_DROP": DropKind.RULE,
    "TC_": DropKind.RULE, "QDISC_": DropKind.KERNEL_QUEUE, "CPU_BACKLOG": DropKind.KERNEL_QUEUE,
    "FULL_RING": DropKind.KERNEL_QUEUE, "PKT_TOO_BIG": DropKind.MTU, "NOMEM": DropKind.BUFFERS,
    "PKT_TOO_SMALL": DropKind.MALFORMED, "HDR_TRUNC": DropKind.MALFORMED, "IP_INHDR": DropKind.MALFORMED,
    "IP_CSUM": DropKind.MALFORMED, "SKB_CSUM": DropKind.MALFORMED,
}  # fmt: skip
"""How reasons begin, and what they are in the words of causes (include/net/dropreason-core.h)."""
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
            return f"the kernel's tracepoints are missing or not mounted: {MOUNT}"
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


def kind_of(reason: str) -> DropKind:
    """What a reason of the kernel is, whatever it calls it."""
    return next((kind for begin, kind in KINDS.items() if reason.startswith(begin)), DropKind.OTHER)


PERMIT: Final = "sysctl -w kernel.perf_event_paranoid=-1"
EVENTS: Final = ("cycles", "cpu-clock")  # the first that can be sampled; perf may itself put the second for the first
PER_S: Final = 499  # samples of each thread: not in step with timers of 100, 250 or 1,000 Hz
MOST_THREADS: Final = 8  # that are sampled
MOST_TEXT: Final = 64_000_000  # characters of its script
MOST_STACKS: Final = 50_000  # different ones
MOST_FRAMES: Final = 64  # of a stack, the innermost
MOST_NAME: Final = 200  # characters of a function or a file
_HEAD: Final = re.compile(r" *(\d{1,10})(?: +\[(\d{1,5})\])?:? *")
_FRAME: Final = re.compile(r"\s+[0-9a-f]{1,16} (.*\))")
_UNKNOWN: Final = "[unknown]"
_KERNEL: Final = ("[kernel.kallsyms]", "[kernel.vmlinux]")
_RECEIVE: Final = frozenset({"net_rx_action", "napi_threaded_poll", "__napi_poll", "process_backlog"})
"""Functions of the kernel in which a receive softirq, or a thread in its place, takes frames (net/core/dev.c)."""
Frame = tuple[str, str]  # a function, empty where there is no symbol, and its file


@dataclass(frozen=True)
class Stacks:
    """Samples by thread and stack, the outermost function first."""

    counts: Mapping[tuple[str, tuple[Frame, ...]], int]
    elsewhere: int = 0  # samples of the CPUs outside of receive softirqs

    @property
    def samples(self) -> int:
        """The number of samples, of all threads and stacks."""
        return sum(self.counts.values())

    @property
    def unnamed(self) -> int:
        """Those in code without a symbol."""
        return sum(count for (_, frames), count in self.counts.items() if not frames[-1][0])

    def functions(self) -> tuple[FunctionShare, ...]:
        """Samples by the innermost function, most first."""
        counts = Counter[Frame]()
        for (_, frames), count in self.counts.items():
            counts[frames[-1]] += count
        rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
        return tuple(FunctionShare(*frame, count, count / self.samples) for frame, count in rows)

    def folded(self) -> str:
        """A line for each stack, the most frequent first; a function without a symbol is its file in brackets."""
        lines = Counter[str]()
        for (thread, frames), count in self.counts.items():
            lines[";".join((_plain(thread), *(name or f"[{source.strip('[]')}]" for name, source in frames)))] += count
        return "".join(f"{line} {count}\n" for line, count in sorted(lines.items(), key=lambda row: (-row[1], row[0])))


def parse(text: str, thread_of: Callable[[int, int | None], str | None], softirqs: bool) -> Stacks:
    """The output of `perf script -F tid,ip,sym,dso`, or with `cpu` after `tid`.

    `thread_of` names the thread of a (thread id, CPU); None: it was not asked for. `softirqs`: only stacks within a
    receive softirq count, from there inwards. Raises BenchError naming the first line that is not understood.
    """
    if len(text) > MOST_TEXT:
        raise BenchError(f"perf script printed {len(text):,} characters, more than {MOST_TEXT:,}")
    counts, elsewhere = Counter[tuple[str, tuple[Frame, ...]]](), 0
    for number, head, frames in _samples(text):
        thread = thread_of(int(head[1]), None if head[2] is None else int(head[2]))
        if thread is None:
            raise BenchError(f"perf script, line {number}: a sample of a thread that was not asked for: {head[0]!r}")
        if softirqs:
            first = next((place for place, frame in enumerate(frames) if frame[0] in _RECEIVE), None)
            if first is None:
                elsewhere += 1
                continue
            frames = frames[first:]
        counts[thread, frames] += 1
        if len(counts) > MOST_STACKS:
            raise BenchError(f"perf script printed more than {MOST_STACKS:,} different stacks")
    return Stacks(counts, elsewhere)


def _samples(text: str) -> Iterator[tuple[int, re.Match[str], tuple[Frame, ...]]]:
    """(number of its first line, that line, stack from the outermost function) of each sample."""
    head: re.Match[str] | None = None
    begun, frames = 0, list[Frame]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if not line.strip(" \t"):
            if head is not None:
                yield begun, head, tuple(reversed(frames)) or (("", _UNKNOWN),)
            head, frames = None, []
        elif head is None:
            head, begun = _HEAD.fullmatch(line), number
            if head is None:
                raise BenchError(f"perf script, line {number}: expected a thread id, found {line[:80]!r}")
        elif len(frames) < MOST_FRAMES:
            frames.append(_frame(line, number))


def _frame(line: str, number: int) -> Frame:
    """Of `ADDRESS FUNCTION (FILE)`; both may hold brackets and spaces."""
    match = _FRAME.fullmatch(line)
    opened = _opening(match[1]) if match else None
    if match is None or opened is None:
        raise BenchError(f"perf script, line {number}: expected an address, a function and (its file): {line[:80]!r}")
    function, path = match[1][:opened].strip(), match[1][opened + 1 : -1]
    if not function:
        raise BenchError(f"perf script, line {number}: no function: {line[:80]!r}")
    source = "kernel" if path in _KERNEL else path if path.startswith("[") else path.rpartition("/")[2]
    return "" if function == _UNKNOWN else _plain(function), _plain(source) or _UNKNOWN


def _opening(text: str) -> int | None:
    """The place of the bracket that the last character closes."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return None


def _plain(name: str) -> str:
    """A name without what separates names in a folded stack, and without characters that are not printed."""
    kept = "".join(char if char.isprintable() else "?" for char in name.replace(";", ":"))
    return kept if len(kept) <= MOST_NAME else f"{kept[:MOST_NAME]}..."


class Functions(Recording):
    """One recording of a device's forwarding threads."""

    name = "functions"
    event = ""  # what perf samples by, as it says itself

    def __init__(self, host: Host, folder: str, forwarding: Iterable[Forwarding], environment: Environment) -> None:
        """`environment` marks what is started as the bench's."""
        super().__init__(host, folder, environment)
        places, self._tried = list(forwarding), f"{folder}/perf-tried.data"
        threads = [(number, name) for place in places for number, name in place.threads.items()]
        self._threads = dict(threads[:MOST_THREADS])
        self._cpus = sorted({cpu for place in places for cpu in place.cpus})[:MOST_THREADS] if not threads else []

    @property
    def threads(self) -> tuple[str, ...]:
        """What is sampled, as the device calls it."""
        return tuple(self._threads.values()) or tuple(map(_softirq, self._cpus))

    def can_run(self) -> str | None:
        """Needs perf, leave to use it, and a device that names where it forwards. Finds the event, by trying."""
        if not self._threads and not self._cpus:
            return "the device names no thread that forwards"
        if (why := super().can_run()) is not None:
            return why
        said = ""
        for self.event in EVENTS:
            try:
                self.run(["perf", "record", *OPTIONS, *self.options(), "-o", self._tried, "--", "true"])
                self.event = self.run(["perf", "evlist", "-i", self._tried]).partition("\n")[0].strip()[:MOST_NAME]
                return None
            except (CommandFailed, RequirementError) as error:
                said = error.output if isinstance(error, CommandFailed) else error.message
        return f"perf cannot sample here ({' '.join(said.split())[:160]}): {PERMIT}"

    def options(self) -> Sequence[str]:
        """The stacks of these threads, or of the softirqs on these CPUs."""
        whose = ("-t", self._threads) if self._threads else ("-C", self._cpus)
        return ["-e", self.event, "-F", str(PER_S), "-g", whose[0], ",".join(map(str, whose[1]))]

    def read(self) -> Stacks:
        """The samples, once the recording has ended. Raises BenchError or RequirementError."""
        fields = "tid,ip,sym,dso" if self._threads else "tid,cpu,ip,sym,dso"
        text = self.script(("--no-inline", "--max-stack", str(MOST_FRAMES), "-F", fields))
        stacks = parse(text, self._thread_of, softirqs=not self._threads)
        if not stacks.samples:
            told = f"; {stacks.elsewhere:,} samples of their CPUs were of other code" if stacks.elsewhere else ""
            raise BenchError(f"no sample found {', '.join(self.threads)} at work{told}")
        return stacks

    def _thread_of(self, thread: int, cpu: int | None) -> str | None:
        if self._threads:
            return self._threads.get(thread)
        return _softirq(cpu) if cpu in self._cpus else None


def _softirq(cpu: int | None) -> str:
    return f"softirq on CPU {cpu}"
