"""Attempts at units, and what starts them on machines; the loop of a campaign knows no more of machines than this.

An attempt is `pinchpoint run --resume` on a run folder, in a process of its own. What dead runs have left on the
machine is removed first. The process is sent SIGTERM when the one that started it ends (prctl(2), PR_SET_PDEATHSIG), so
that its bench is removed whatever becomes of the lab.

`Processes` starts attempts on this machine: on its own bench, and on those of hosts by ssh. Such a machine is
asked by `pinchpoint clean --host` whether it answers: before it joins; when an attempt on it has failed, since the
machine may be what failed; and again and again while it does not answer.
"""

import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pinchpoint.host.local import Local, exit_code
from pinchpoint.model.campaign import Bench, What
from pinchpoint.model.errors import UNDECIDED, BenchError, RequirementError
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.folder import RECORDS, RunFolder

LOG: Final = "attempt.log"
INTERRUPTED: Final = 130
_SAID: Final = 2000  # characters
_LARGEST: Final = 1 << 20  # bytes of lines that are read at once
_COMMAND: Final = (
    "import json, os, sys, time\n"
    "from pinchpoint.cli.main import main\n"
    "commands, ends_s = json.loads(sys.argv[1]), time.monotonic() + float(sys.argv[2])\n"
    "while True:\n"
    "    code = [main(words) for words in commands][-1]\n"
    "    if code != 3 or os.path.exists(sys.argv[3]) or time.monotonic() > ends_s: sys.exit(code)\n"
    "    time.sleep(3)\n"
)
_ASKING: Final = (
    "import json, sys\n"
    "from pinchpoint.cli.main import main\n"
    "sys.exit(next((code for words in json.loads(sys.argv[1]) if (code := main(words))), 0))\n"
)
AWAITED_S: Final = 30  # for a host that is lost to answer again: then another machine measures the unit
_BUSY_S: Final = 90  # for an attempt that died there to be undone: a lease and more (docs/hosts.md)
ASKED_EVERY_S: Final = 10.0  # a machine that does not answer
MISSED_S: Final = 300.0  # for so long what no other machine can measure waits for a lost machine
_POLL_S: Final = 0.1


@dataclass(frozen=True)
class Order:
    """One attempt that a machine shall make."""

    attempt: str
    bench: Bench
    files: Mapping[str, bytes]  # of its run folder: run.json, and what an interrupted attempt has found
    programs: Mapping[str, str]  # keys that only a command line may set
    ceiling: bool


@dataclass(frozen=True)
class Joined:
    """A machine is there, and what dead runs had left on it is removed."""

    bench: Bench


@dataclass(frozen=True)
class Gone:
    """A machine is not there any more, with what it measured."""

    machine: str
    reason: str
    is_unusable: bool = False  # it is there, but cannot measure


@dataclass(frozen=True)
class Grown:
    """Whole lines that an attempt has added to a file on its machine."""

    attempt: str
    file: str
    lines: bytes


@dataclass(frozen=True)
class Ended:
    """An attempt is over."""

    attempt: str
    machine: str
    exit_code: int
    files: Mapping[str, bytes]  # of its run folder; empty: they are in the campaign's folder already
    said: str  # the end of what it printed


Event = Joined | Gone | Grown | Ended


class Executor(Protocol):
    """Machines, each of which makes one attempt at a time."""

    @property
    def grace_s(self) -> float:
        """After the last machine has joined, how long others may still come that can measure what no other can."""

    @property
    def absent_s(self) -> float:
        """Without any machine, after how long the campaign ends, to be resumed."""

    def start(self, order: Order) -> None:
        """Begin an attempt on a machine that has joined and is free. Raises PinchpointError."""

    def wait(self, timeout_s: float) -> Sequence[Event]:
        """What has happened; returns at once if something has."""

    def stop(self) -> None:
        """Interrupt every attempt; each ends as an interrupted run does, its bench removed."""

    def close(self) -> None:
        """End what was started."""


class Attempt:
    """A started attempt, and how far its files were read."""

    def __init__(self, folder: RunFolder, order: Order) -> None:
        self.folder, self._host = folder, Local()
        paths = {name: folder.path / name for name in RECORDS}
        self._read = {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}
        log = str(folder.path / LOG)
        self._pid: int | None = self._host.spawn(_words(folder.path, order), (), log, log)
        self._code = 0

    def ended(self) -> int | None:
        """Its exit code, a signal's number negative; None while it runs."""
        if self._pid is not None:
            code = exit_code(self._pid)
            if code is None:
                return None
            self._pid, self._code = None, code
        return self._code

    def stop(self) -> None:
        """Interrupt it: it keeps what it has and removes its bench."""
        if self._pid is not None:
            self._host.signal([self._pid], signal.SIGTERM)

    def grown(self) -> dict[str, bytes]:
        """Whole lines that it has added since this was asked last, by file."""
        grown = {}
        for name, begin in self._read.items():
            path = self.folder.path / name
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(begin)
                data = file.read(_LARGEST)
            if lines := data[: data.rfind(b"\n") + 1]:
                self._read[name] = begin + len(lines)
                grown[name] = lines
        return grown

    def said(self) -> str:
        """The end of what it printed."""
        return said_in(self.folder.path / LOG)


def said_in(log: Path) -> str:
    """The end of what a process printed."""
    try:
        return log.read_text(errors="replace")[-_SAID:].strip()
    except OSError:
        return ""


def _words(folder: Path, order: Order) -> Sequence[str]:
    run = ["run", "--resume", str(folder), "--quiet", *(f"--set={key}={path}" for key, path in order.programs.items())]
    if not order.ceiling:
        run.append("--no-ceiling")
    if order.bench.addresses:
        run.append(f"--await-host={AWAITED_S}s")
    commands = [*cleaning(order.bench), run]
    return _ended_with_this(_COMMAND, json.dumps(commands), str(_BUSY_S), str(folder / "result.json"))


def cleaning(bench: Bench) -> list[list[str]]:
    """What removes what dead runs have left on a machine, on every host of a site; by sudo, so none where it is off."""
    if not bench.sudo:
        return []
    return [["clean", "--host", address] for address in bench.addresses] or [["clean"]]


def asking(bench: Bench) -> Sequence[str]:
    """The command that asks whether a machine by ssh answers, and cleans it; it ends with 0 if every host does."""
    return _ended_with_this(_ASKING, json.dumps(cleaning(bench)))


def _ended_with_this(program: str, *arguments: str) -> Sequence[str]:
    return ("setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-c", program, *arguments)


def outcome(folder: RunFolder, code: int, said: str) -> tuple[What, str, ScenarioResult | None]:
    """How an attempt ended, by its exit code and what its folder holds; why; and what it found."""
    result = folder.read_result()
    last = result.scenarios[-1] if result and result.scenarios else None
    if code in (INTERRUPTED, -signal.SIGTERM):
        return What.INTERRUPTED, "interrupted", None
    if last is None:
        told = said.splitlines()[-4:]
        return What.FAILED, f"exit code {code}: {' / '.join(told) or 'no output'}", None
    if last.outcome in (Outcome.MEASURED, Outcome.WRONG, Outcome.SKIPPED):
        return What.FINISHED, "", last
    return What.IMPOSSIBLE if last.outcome is Outcome.IMPOSSIBLE else What.FAILED, last.reason, last


def is_machines_fault(code: int, result: ScenarioResult | None) -> bool:
    """Whether the machine could not even begin: something is missing, another run is active, or no bench is built."""
    return result is None and code in (RequirementError.exit_code, BenchError.exit_code)


@dataclass
class _Asked:
    """A machine by ssh that is asked whether it answers."""

    bench: Bench
    ended: Ended | None = None  # the attempt that failed on it; if it answers, the attempt alone is to blame
    lost_s: float | None = None  # since when it does not answer; None: not known yet
    pid: int | None = None  # of the process that asks
    next_s: float = 0.0  # when the next one does


class Processes:
    """Each machine's attempts are started here, in the campaign's own folder."""

    def __init__(self, folder: CampaignFolder, benches: Sequence[Bench]) -> None:
        self._folder, self._host = folder, Local()
        self._joining: list[Event] = [Joined(bench) for bench in benches if not bench.addresses]
        self._asked = {bench.name: _Asked(bench) for bench in benches if bench.addresses}
        self._running: dict[str, tuple[Order, Attempt]] = {}  # by machine
        self._logs = tempfile.TemporaryDirectory(prefix="pinchpoint-campaign-", ignore_cleanup_errors=True)
        self._stopped = False

    @property
    def grace_s(self) -> float:
        """Others may come while it is not known of one whether it answers, and for a time after it is lost."""
        since_s = [time.monotonic() if ask.lost_s is None else ask.lost_s for ask in self._asked.values()]
        return float("inf") if since_s and time.monotonic() - max(since_s) < MISSED_S else 0.0

    @property
    def absent_s(self) -> float:
        """None comes where none is asked any more."""
        return MISSED_S if self._asked else 0.0

    def start(self, order: Order) -> None:
        self._running[order.bench.name] = order, Attempt(self._folder.attempt(order.attempt), order)

    def wait(self, timeout_s: float) -> Sequence[Event]:
        until_s = time.monotonic() + timeout_s
        while True:
            events, self._joining = self._joining, []
            if events := [*events, *self._ended(), *self._answered()]:
                return events
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return ()
            time.sleep(min(_POLL_S, left_s))

    def _ended(self) -> Iterator[Event]:
        for machine, (order, attempt) in list(self._running.items()):
            code = attempt.ended()
            if code is None:
                continue
            del self._running[machine]
            ended = Ended(order.attempt, machine, code, {}, attempt.said())
            failed = code not in (0, UNDECIDED, INTERRUPTED, -signal.SIGTERM)
            if failed and order.bench.addresses and not self._stopped:
                self._asked[machine] = _Asked(order.bench, ended)
            else:
                yield ended

    def _answered(self) -> Iterator[Event]:
        """What machines that are asked have said."""
        for machine, ask in list(self._asked.items()):
            log = Path(self._logs.name) / f"{machine}.log"
            if ask.pid is None:
                if time.monotonic() >= ask.next_s:
                    log.unlink(missing_ok=True)
                    ask.pid = self._host.spawn(asking(ask.bench), (), str(log), str(log))
                continue
            code = exit_code(ask.pid)
            if code is None:
                continue
            ask.pid, ask.next_s = None, time.monotonic() + ASKED_EVERY_S
            if code == 0:
                del self._asked[machine]
                yield ask.ended or Joined(ask.bench)
            elif ask.lost_s is None:
                yield self._lost(ask, said_in(log))

    def _lost(self, ask: _Asked, said: str) -> Gone:
        """A machine that never answered is not awaited: the file is wrong, rather than the machine."""
        reason = " / ".join(said.splitlines()[-4:]) or "it does not answer"
        if is_new := ask.ended is None:
            del self._asked[ask.bench.name]
        ask.ended, ask.lost_s = None, time.monotonic()
        return Gone(ask.bench.name, reason, is_unusable=is_new)

    def stop(self) -> None:
        self._stopped = True
        for _, attempt in self._running.values():
            attempt.stop()
        for ask in self._asked.values():
            if ask.ended is not None:
                self._joining.append(ask.ended)
            if ask.pid is not None:
                self._host.signal([ask.pid], signal.SIGTERM)
                while exit_code(ask.pid) is None:
                    time.sleep(_POLL_S)
        self._asked.clear()

    def close(self) -> None:
        """Whatever still runs is interrupted and waited for: a bench is never left."""
        self.stop()
        while self._running:
            if not self.wait(60.0):
                break
        self._logs.cleanup()
