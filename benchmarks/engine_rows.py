"""`make bench-engine`: the engine against its peers on this machine, in one table."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import account_rate
import connections_rate
import cpu
import null_rate
import sockets_rate
import table
import veth_rate
import vhost_rate
from contest import Contender, Contest, Outcome, Sample, hold
from peers import SECONDS, SMOKE_SECONDS, clock_hz

from pinchpoint.bench.journal import machine_lock
from pinchpoint.host.local import Local
from pinchpoint.model.errors import PinchpointError

ROUNDS = 5
CORE, OTHER = 0, 1
GUESS_S = 4.0  # one run of one contender; corrected as runs end


def all_contests(folder: Path, seconds: float = SECONDS) -> list[Contest]:
    """All rows, in the order of the table; a sample takes `seconds`."""
    other = OTHER if (cpu.present() > OTHER) else CORE
    return [
        *null_rate.contests(CORE, folder, seconds),
        *vhost_rate.contests(CORE, folder, seconds),
        *veth_rate.contests(CORE, folder, seconds),
        *account_rate.contests(CORE, other, seconds),
        *connections_rate.contests(CORE, other, seconds),
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


def measure(rounds: int, only: str = "", seconds: float = SECONDS) -> list[Outcome]:
    """All contests whose name contains `only`; nothing else may use the machine's bench meanwhile."""
    cpu.end_on_signals()
    cpu.keep_off(CORE)
    with machine_lock(Local()), tempfile.TemporaryDirectory() as name:
        return hold_all(all_contests(Path(name), seconds), rounds, only)


def hold_all(contests: Sequence[Contest], rounds: int, only: str) -> list[Outcome]:
    """Those of `contests` whose name contains `only`, with progress on stderr."""
    chosen = [contest for contest in contests if only.lower() in contest.name.lower()]
    progress = Progress(chosen, rounds)
    outcomes = []
    for number, contest in enumerate(chosen, start=1):
        progress.contest(number, contest)
        outcomes.append(_outcome(contest, rounds, progress))
        progress.over()
    return outcomes


def _outcome(contest: Contest, rounds: int, progress: Progress) -> Outcome:
    """Of one contest; a bench that cannot be built is a failure of each of its rows."""
    try:
        return hold(contest, rounds, progress.sample, progress.failure)
    except PinchpointError as error:
        for contender in contest.contenders:
            progress.failure(contender, error.message)
        return Outcome(contest, failures={contender.name: error.message for contender in contest.contenders})


def options(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """What all tables can be asked for; `chosen` reads it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N", help=f"rounds of every row ({rounds})")
    parser.add_argument("--only", default="", metavar="WORDS", help="only the rows whose name contains WORDS")
    parser.add_argument("--json", action="store_true", help="print every sample instead of the table")
    parser.add_argument(
        "--smoke", action="store_true", help="one short round of every row; exit 1 where one fails, absent peers aside"
    )
    return parser


def chosen(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options as given; --smoke asks for one round."""
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds = 1
    return arguments


def sample_s(smoke: bool) -> float:
    """Seconds of one sample."""
    return SMOKE_SECONDS if smoke else SECONDS


def broken(outcomes: Sequence[Outcome]) -> list[str]:
    """The contenders that could have taken part and gave no sample, with the reason."""
    return [
        f"{outcome.contest.name}: {contender.name}: {outcome.failures[contender.name]}"
        for outcome in outcomes
        for contender in outcome.contest.contenders
        if contender.missing is None and contender.name in outcome.failures
    ]


def exit_code(outcomes: Sequence[Outcome], smoke: bool) -> int:
    """1 if a smoke run found a row that does not work. A measured table names what failed in its cells."""
    problems = broken(outcomes) if smoke else []
    for line in problems:
        print(line, file=sys.stderr)
    return int(bool(problems))


def tell(outcomes: Sequence[Outcome], rounds: int, as_json: bool) -> None:
    """The table, or everything that it is made of."""
    clock = clock_hz()
    if as_json:
        print(json.dumps(table.as_data(outcomes, rounds, clock), indent=2))
    else:
        table.show(outcomes, rounds, clock)


def main() -> int:
    """Measure and print."""
    arguments = chosen(options(__doc__, ROUNDS))
    outcomes = measure(arguments.rounds, arguments.only, sample_s(arguments.smoke))
    tell(outcomes, arguments.rounds, arguments.json)
    return exit_code(outcomes, arguments.smoke)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(str(error))
