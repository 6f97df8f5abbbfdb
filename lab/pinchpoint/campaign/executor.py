"""Attempts at units, and what starts them on machines; the loop of a campaign knows no more of machines than this.

An attempt is `pinchpoint run --resume` on a run folder, in a process of its own. What dead runs have left on the
machine is removed first. The process is sent SIGTERM when the one that started it ends (prctl(2), PR_SET_PDEATHSIG), so
that its bench is removed whatever becomes of the lab.
"""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pinchpoint.host.local import Local, exit_code
from pinchpoint.model.campaign import Bench, What
from pinchpoint.model.errors import BenchError, RequirementError
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.store.campaign import GROWING
from pinchpoint.store.folder import RunFolder

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
        paths = {name: folder.path / name for name in GROWING}
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
        return What.FAILED, f"exit code {code}: {' / '.join(told) or 'it said nothing'}", None
    if last.outcome in (Outcome.MEASURED, Outcome.WRONG, Outcome.SKIPPED):
        return What.FINISHED, "", last
    return What.IMPOSSIBLE if last.outcome is Outcome.IMPOSSIBLE else What.FAILED, last.reason, last


def is_machines_fault(code: int, result: ScenarioResult | None) -> bool:
    """Whether the machine could not even begin: something is missing, another run is active, or no bench is built."""
    return result is None and code in (RequirementError.exit_code, BenchError.exit_code)
