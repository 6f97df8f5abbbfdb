"""`make bench-compare`: how often a duet of A with A raises an alarm, and whether a small real change is found.

Two benches stand at once, as `pinchpoint compare` builds them, and one engine has the ports of both: A and A, and
then A and B, whose rules do one more thing to a frame. Everything from the slices to the decision is the command's
own. Both are built several times for each comparison, as the command does: where their memory lies and which seeds
their tables have differs between any two, and is in the interval. With --benches 1 it is not.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import cpu
from rich.console import Console
from rich.table import Table
from scenario_text import one_way
from scipy.stats import binomtest

from pinchpoint.bench.journal import machine_lock
from pinchpoint.findings.comparing import decision_of
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Task
from pinchpoint.model.comparison import Decision
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.scenario import Scenario
from pinchpoint.run.duet import AlternatingSlices, SliceRecord
from pinchpoint.run.paired_benches import beside, first_of_pair, warm_pair
from pinchpoint.run.scenario import built_bench
from pinchpoint.scenario import parse
from pinchpoint.stats.duet import Duet as Findings
from pinchpoint.stats.duet import compare_slices

COMPARISONS, SAME_S = 40, 30.0  # of A with A
CHANGED, CHANGED_S = 20, 60.0  # of A with B
SMOKE_S = 1.0
BENCHES = 8  # as the command builds
# Source NAT, so that the generator has time to spare and a ring bridges the pauses of its core.
RULES = """table=0,ip,in_port={{left}},actions=ct(commit,table=1,nat(src=10.0.0.1))
table=1,ip,actions={more}output:{{right}}"""
FLOWS = 'ipv4_dst = "48.0.0.1-48.0.0.255"\nflows = 255'


@dataclass(frozen=True)
class One:
    """One comparison; a ratio of None: every slice was discarded."""

    ratio: float | None
    low: float | None
    high: float | None
    decision: str
    slices: int
    used: int
    a_fps: float | None
    b_fps: float | None
    discarded: Mapping[str, int]  # reason -> slices


@dataclass(frozen=True)
class Series:
    """Comparisons of one kind."""

    what: str
    found: tuple[One, ...]
    seconds: float


def scenario(more: str) -> Scenario:
    """One stream through source NAT, whose last rule does `more` to each frame."""
    text = one_way(
        "rates",
        "",
        pmd=min(1, cpu.present() - 1),
        rules=RULES.format(more=more),
        stream=FLOWS,
        dut="max_idle_ms = 600_000\nmemory_mb = 512",
        search="drain_s = 0.02",
    )
    return parse(text, "benchmark.toml")


def series(what: str, more: str, comparisons: int, length_s: float, benches: int) -> Series:
    """Comparisons of a bench with one whose rule does `more`; each builds both `benches` times."""
    began, duets = time.monotonic(), list[One]()
    while len(duets) < comparisons:
        duets.append(_compared(more, length_s, benches))
        print(f"{what}: {len(duets)} of {comparisons}: {_words(duets[-1])}", file=sys.stderr)
    return Series(what, tuple(duets), time.monotonic() - began)


def _compared(more: str, length_s: float, benches: int) -> One:
    machines, a, b = Machines(Local()), scenario(""), scenario(more)
    record = SliceRecord(lambda _: None)
    for number in range(1, benches + 1):
        record.build = number
        with (
            first_of_pair(machines, a, Task()) as first,
            built_bench(machines, b, Task(), beside(first)) as second,
            warm_pair(first, second) as pair,
        ):
            AlternatingSlices(pair, record).measure(length_s * number / benches)
    return _concluded(compare_slices(record.stretches))


def _concluded(findings: Findings) -> One:
    ratio, summary = findings.difference, findings.summary
    a_fps, b_fps = ([quad.a_fps for quad in findings.quads], [quad.b_fps for quad in findings.quads])
    return One(
        ratio.value if ratio else None,
        ratio.low if ratio else None,
        ratio.high if ratio else None,
        decision_of(ratio) if ratio else Decision.REFUSED,
        summary.slices,
        summary.used,
        median(a_fps) if a_fps else None,
        median(b_fps) if b_fps else None,
        summary.discarded,
    )


def _words(duet: One) -> str:
    if duet.ratio is None:
        return f"every one of {duet.slices} slices was discarded: {_most(duet)}"
    used = f"{duet.used} of {duet.slices} slices; discarded: {_most(duet)}"
    return f"{duet.ratio:.4f} [{duet.low:.4f} .. {duet.high:.4f}] {duet.decision}, {used}"


def _most(duet: One) -> str:
    """The reasons for which most slices were discarded."""
    reasons = Counter(duet.discarded).most_common(2)
    return ", ".join(f"{reason} {count}" for reason, count in reasons) or "none"


def cells(kind: Series) -> tuple[str, ...]:
    """A row of the table."""
    decided = [duet for duet in kind.found if duet.decision not in (Decision.REFUSED, Decision.TOO_FEW)]
    alarms = sum(duet.decision != Decision.NOT_FOUND for duet in decided)
    share = "-"
    if decided:
        low, high = binomtest(alarms, len(decided)).proportion_ci(0.95, "exact")
        share = f"{alarms} of {len(decided)} = {alarms / len(decided):.1%} [{low:.1%} .. {high:.1%}]"
    used, made = sum(duet.used for duet in kind.found), sum(duet.slices for duet in kind.found)
    rates = sorted(duet.a_fps for duet in kind.found if duet.a_fps)
    return (
        kind.what,
        share,
        _median([100 * (duet.ratio - 1) for duet in decided if duet.ratio], "{:+.2f} %"),
        _median([100 * (duet.high - duet.low) / 2 for duet in decided if duet.high and duet.low], "{:.2f} %"),
        f"{len(kind.found) - len(decided)}",
        f"{used:,} of {made:,}",
        f"{rates[0] / 1e6:.2f} .. {rates[-1] / 1e6:.2f} Mpps" if rates else "-",
        f"{kind.seconds / max(1, len(kind.found)):.1f} s",
    )


def _median(values: Sequence[float], form: str) -> str:
    return form.format(median(values)) if values else "-"


def show(kinds: Sequence[Series]) -> None:
    """Print the table."""
    table = Table(title="duets of two standing benches, forwarded rate under overload, 95 %", show_lines=True)
    for heading in ("what", "difference found [exact binomial interval]", "median B/A - 1", "median half interval",
                    "undecided", "slices used", "A alone", "time each"):  # fmt: skip
        table.add_column(heading)
    for kind in kinds:
        table.add_row(*cells(kind))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def options() -> argparse.Namespace:
    """What the user asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=COMPARISONS, help=f"of A with A ({COMPARISONS})")
    parser.add_argument("--changed", type=int, default=CHANGED, help=f"of A with B ({CHANGED})")
    parser.add_argument("--seconds", type=float, default=SAME_S, help=f"of slices of A with A ({SAME_S:g})")
    parser.add_argument("--changed-seconds", type=float, default=CHANGED_S, help=f"of A with B ({CHANGED_S:g})")
    parser.add_argument("--more", default="mod_dl_dst:02:00:00:00:00:99", help="what B's rule does besides")
    parser.add_argument("--benches", type=int, default=BENCHES, help=f"times that both are built ({BENCHES})")
    parser.add_argument("--smoke", action="store_true", help="one short round of each; it shows that all of it runs")
    parser.add_argument("--json", action="store_true", help="print every comparison instead of the table")
    wanted = parser.parse_args()
    if wanted.smoke:
        wanted.comparisons, wanted.changed, wanted.seconds, wanted.changed_seconds = 1, 1, SMOKE_S, SMOKE_S
        wanted.benches = 1
    return wanted


def main() -> None:
    """Measure and print; nothing else may use the machine's bench meanwhile."""
    wanted = options()
    cpu.end_on_signals()
    kinds = [("A with A", "", wanted.comparisons, wanted.seconds, wanted.benches),
             (f"A with {wanted.more} more", f"{wanted.more},", wanted.changed, wanted.changed_seconds,
              wanted.benches)]  # fmt: skip
    with machine_lock(Local()):
        measured = [series(*kind) for kind in kinds if kind[2]]
    if wanted.json:
        print(json.dumps([asdict(kind) for kind in measured]))
    else:
        show(measured)


if __name__ == "__main__":
    try:
        main()
    except PinchpointError as error:
        sys.exit(str(error))
