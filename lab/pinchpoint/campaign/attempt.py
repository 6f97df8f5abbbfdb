"""One attempt at a unit: `pinchpoint run --resume` on a run folder, in a process of its own.

What dead runs have left on the machine is removed first. The process is sent SIGTERM when the one that started it ends
(prctl(2), PR_SET_PDEATHSIG), so that its bench is removed whatever becomes of the lab.
"""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pinchpoint.host.local import Local, exit_code
from pinchpoint.model.campaign import Bench, What
from pinchpoint.model.errors import BenchError, RequirementError
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.store.folder import RunFolder

LOG: Final = "attempt.log"
GROWING: Final = ("trials.jsonl", "measurements.jsonl")
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


class Attempt:
    """A started attempt, and how far its files were read."""

    def __init__(self, folder: RunFolder, bench: Bench, programs: Mapping[str, str], ceiling: bool) -> None:
        self.folder, self._host = folder, Local()
        self._read = dict.fromkeys(GROWING, 0)
        for name in GROWING:
            if (path := folder.path / name).exists():
                self._read[name] = path.stat().st_size
        log = str(folder.path / LOG)
        self._pid: int | None = self._host.spawn(_words(folder.path, bench, programs, ceiling), (), log, log)
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
        lengths = {}
        for name in GROWING:
            path = self.folder.path / name
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._read[name])
                data = file.read(_LARGEST)
            lines = data[: data.rfind(b"\n") + 1]
            if lines:
                self._read[name] += len(lines)
                lengths[name] = lines
        return lengths

    def said(self) -> str:
        """The end of what it printed."""
        return said_in(self.folder.path / LOG)


def said_in(log: Path) -> str:
    """The end of what a process printed."""
    try:
        return log.read_text(errors="replace")[-_SAID:].strip()
    except OSError:
        return ""


def _words(folder: Path, bench: Bench, programs: Mapping[str, str], ceiling: bool) -> Sequence[str]:
    options = [*(f"--set={key}={value}" for key, value in programs.items()), *([] if ceiling else ["--no-ceiling"])]
    run = ["run", "--resume", str(folder), "--quiet", *options]
    if bench.addresses:
        run += [f"--await-host={AWAITED_S}s"]
    commands = json.dumps([*cleaning(bench), run])
    return _ended_with_this((sys.executable, "-c", _COMMAND, commands, str(_BUSY_S), str(folder / "result.json")))


def cleaning(bench: Bench) -> list[list[str]]:
    """What removes what dead runs have left on a machine, on every host of a site; by sudo, so none where it is off."""
    if not bench.sudo:
        return []
    return [["clean", "--host", address] for address in bench.addresses] or [["clean"]]


def asking(bench: Bench) -> Sequence[str]:
    """The command that asks whether a machine by ssh answers, and cleans it; it ends with 0 if every host does."""
    return _ended_with_this((sys.executable, "-c", _ASKING, json.dumps(cleaning(bench))))


def _ended_with_this(words: Sequence[str]) -> Sequence[str]:
    return ("setpriv", "--pdeathsig", "TERM", "--", *words)


def outcome(folder: RunFolder, code: int, said: str) -> tuple[What, str, ScenarioResult | None]:
    """How an attempt ended, by its exit code and what its folder holds; why; and what it found."""
    result = folder.read_result()
    last = result.scenarios[-1] if result and result.scenarios else None
    if code == INTERRUPTED or code == -signal.SIGTERM:
        return What.INTERRUPTED, "interrupted", None
    if last is not None and last.outcome in (Outcome.MEASURED, Outcome.WRONG, Outcome.SKIPPED):
        return What.FINISHED, "", last
    if last is not None and last.outcome is Outcome.IMPOSSIBLE:
        return What.IMPOSSIBLE, last.reason, last
    if last is not None:
        return What.FAILED, last.reason, last
    told = said.splitlines()[-4:]
    return What.FAILED, f"exit code {code}: {' / '.join(told) or 'it said nothing'}", None


def is_machines_fault(code: int, result: ScenarioResult | None) -> bool:
    """Whether the machine could not even begin: something is missing, another run is active, or no bench is built."""
    return result is None and code in (RequirementError.exit_code, BenchError.exit_code)
