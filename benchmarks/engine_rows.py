"""`make bench-engine`: the engine against its peers on this machine, in one table."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import account_rate
import cpu
import null_rate
import sockets_rate
import table
import veth_rate
import vhost_rate
from contest import Contender, Contest, Outcome, Sample, hold
from peers import clock_hz

from pinchpoint.bench.journal import machine_lock
from pinchpoint.model.errors import PinchpointError

ROUNDS = 5
CORE, OTHER = 0, 1
GUESS_S = 4.0  # one run of one contender; corrected as runs end


def all_contests(folder: Path) -> list[Contest]:
    """All rows, in the order of the table."""
    other = OTHER if (cpu.present() > OTHER) else CORE
    return [
        *null_rate.contests(CORE, folder),
        *vhost_rate.contests(CORE, folder),
        *veth_rate.contests(CORE, folder),
        *account_rate.contests(CORE, other),
        *sockets_rate.contests(CORE, other, folder),
    ]


class Progress:
    """Lines on stderr: what was measured, and about how long the rest takes."""

    def __init__(self, contests: list[Contest], rounds: int) -> None:
        self._runs = {contest.name: _runs(contest, rounds) for contest in contests}
        self._began = time.monotonic()
        self._done = 0
        self._contest = ""

    def contest(self, number: int, contest: Contest) -> None:
        """A contest begins."""
        self._contest = contest.name
        self._tell(f"[{number}/{len(self._runs)}] {contest.name}; {self._left()}")
        self._ahead = sum(list(self._runs.values())[:number])

    def over(self) -> None:
        """A contest has ended, perhaps without some of its contenders."""
        self._done = self._ahead

    def sample(self, number: int, contender: Contender, sample: Sample) -> None:
        """One run is over."""
        self._done += 1
        told = f"{sample.rate / 1e6:.2f} M/s" if sample.rate >= 1e6 else f"{sample.rate / 1e3:.1f} k/s"
        self._tell(f"  round {number + 1}, {contender.name}: {told}; {self._left()}")

    def failure(self, contender: Contender, why: str) -> None:
        """A contender is out."""
        self._tell(f"  {contender.name} is out: {why}")

    def _left(self) -> str:
        rest = sum(self._runs.values()) - self._done
        each_s = (time.monotonic() - self._began) / self._done if self._done else GUESS_S
        return f"about {rest * each_s / 60:.1f} min left"

    @staticmethod
    def _tell(words: str) -> None:
        print(words, file=sys.stderr, flush=True)


def _runs(contest: Contest, rounds: int) -> int:
    taking_part = sum(contender.missing is None for contender in contest.contenders)
    return taking_part * min(rounds, contest.rounds or rounds)


def measure(rounds: int, only: str = "") -> list[Outcome]:
    """All contests whose name contains `only`; nothing else may use the machine's bench meanwhile."""
    cpu.end_on_signals()
    cpu.keep_off(CORE)
    with machine_lock(), tempfile.TemporaryDirectory() as name:
        contests = [contest for contest in all_contests(Path(name)) if only.lower() in contest.name.lower()]
        progress = Progress(contests, rounds)
        outcomes = []
        for number, contest in enumerate(contests, start=1):
            progress.contest(number, contest)
            outcomes.append(_outcome(contest, rounds, progress))
            progress.over()
        return outcomes


def _outcome(contest: Contest, rounds: int, progress: Progress) -> Outcome:
    """Of one contest; a bench that cannot be built is told in its rows."""
    try:
        return hold(contest, rounds, progress.sample, progress.failure)
    except PinchpointError as error:
        for contender in contest.contenders:
            progress.failure(contender, error.message)
        return Outcome(contest, failures={contender.name: error.message for contender in contest.contenders})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds of every row ({ROUNDS})")
    parser.add_argument("--only", default="", metavar="WORDS", help="only the rows whose name contains WORDS")
    parser.add_argument("--json", action="store_true", help="print every sample instead of the table")
    arguments = parser.parse_args()
    clock = clock_hz()
    outcomes = measure(arguments.rounds, arguments.only)
    if arguments.json:
        print(json.dumps(table.as_data(outcomes, arguments.rounds, clock), indent=2))
    else:
        table.show(outcomes, arguments.rounds, clock)


if __name__ == "__main__":
    try:
        main()
    except PinchpointError as error:
        sys.exit(str(error))
