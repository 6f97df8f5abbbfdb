"""`make bench`: our speed against our peers', interleaved, several times, in one table.

Two cores of a shared machine are noisy, so only ratios of neighbouring runs mean
anything: every round runs both contenders, in turns of order.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lab_overhead
import null_rate
import vhost_rate
from rich.console import Console
from rich.table import Table

from pinchpoint.bench.builder import Builder
from pinchpoint.bench.journal import machine_lock
from pinchpoint.bench.resource import Hugepages
from pinchpoint.sweep.setup import hugepage_pool

ROUNDS = 5
CORE = 0
ENGINE_PAGES = 160  # 256 MiB and what EAL adds

Contender = Callable[[], float]


def interleaved(ours: Contender, theirs: Contender) -> tuple[list[float], list[float]]:
    """ROUNDS rounds of both, the first to go changing each time."""
    mine: list[float] = []
    peer: list[float] = []
    for number in range(ROUNDS):
        order = ((ours, mine), (theirs, peer)) if number % 2 == 0 else ((theirs, peer), (ours, mine))
        for contender, results in order:
            results.append(contender())
            print(f"  round {number + 1}: {results[-1] / 1e6:.2f} Mpps", file=sys.stderr, flush=True)
    return mine, peer


def rates(values: list[float]) -> str:
    """Median with its range, in Mpps."""
    return f"{statistics.median(values) / 1e6:.2f} ({min(values) / 1e6:.2f}-{max(values) / 1e6:.2f}) Mpps"


def ratio(mine: list[float], peer: list[float]) -> str:
    """The median of the rounds' ratios, with their range."""
    each = [a / b for a, b in zip(mine, peer, strict=True)]
    return f"{statistics.median(each):.2f} x ({min(each):.2f}-{max(each):.2f})"


@contextmanager
def hugepages(pages: int) -> Iterator[None]:
    """`pages` more of 2 MiB inside the block, journalled like any bench."""
    total, free = hugepage_pool()
    builder = Builder("benchmark")
    missing = max(0, pages - free)
    builder.apply([Hugepages(total, total + missing)] if missing else [])
    try:
        yield
    finally:
        builder.undo()


def null_row(folder: Path) -> tuple[str, ...]:
    """The engine against testpmd flowgen, into net_null."""
    print("64 B, 65,536 five-tuples, into net_null, one core", file=sys.stderr)
    with hugepages(ENGINE_PAGES):
        mine, peer = interleaved(lambda: null_rate.ours(CORE), lambda: null_rate.theirs(CORE, folder))
    return "into net_null, 65,536 five-tuples, stamped", "testpmd flowgen", rates(mine), rates(peer), ratio(mine, peer)


def vhost_row(folder: Path) -> tuple[str, ...]:
    """The engine against testpmd flowgen, through the switch."""
    print("64 B through Open vSwitch, vhost-user both ways, one core and one PMD", file=sys.stderr)
    busy: dict[str, list[float]] = {"ours": [], "theirs": []}

    def noted(name: str, found: tuple[float, float]) -> float:
        busy[name].append(found[1])
        return found[0]

    with vhost_rate.standing_switch() as switch:
        mine, peer = interleaved(
            lambda: noted("ours", vhost_rate.ours(switch, CORE)),
            lambda: noted("theirs", vhost_rate.theirs(switch, CORE, folder)),
        )
    loads = {name: f", PMD {statistics.median(values):.0%} busy" for name, values in busy.items()}
    what = "through OVS vhost-user, both ways"
    return what, "testpmd flowgen", rates(mine) + loads["ours"], rates(peer) + loads["theirs"], ratio(mine, peer)


def overhead_row(folder: Path) -> tuple[str, ...]:
    """The lab's own time per trial."""
    print("the lab's overhead per trial", file=sys.stderr)
    each = lab_overhead.overheads_s(folder / "runs")
    told = f"{statistics.median(each) * 1e3:.0f} ({min(each) * 1e3:.0f}-{max(each) * 1e3:.0f}) ms"
    return "lab per trial beyond traffic and drain", "aim: under 200 ms", told, "", ""


def main() -> None:
    """Print the table."""
    table = Table(title=f"medians (range) of {ROUNDS} interleaved rounds")
    for heading in ("work", "against", "pinchpoint", "peer", "ratio per round"):
        table.add_column(heading)
    with tempfile.TemporaryDirectory() as name:
        with machine_lock():
            for row in (null_row, vhost_row):
                table.add_row(*row(Path(name)))
        table.add_row(*overhead_row(Path(name)))  # a run of its own, which takes the lock itself
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    main()
