"""`make bench-exhaustion`: exhaustions planted in real balancers, and which resource the lab names.

One thing of a bench is too small or does not work: local ports, the table, descriptors, the accept queue, a backend,
the scheduler; how small and where is drawn by the seed. Clean benches are measured between them, of which no resource
may be blamed.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass

from exhaustion_plants import PLANTED, UNFAIR, Plant, clean, planted
from rich.console import Console
from rich.table import Table

from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import Setup, prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.model.errors import DutError, EngineError, PinchpointError
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.scenario import parse

NOTHING, WRONG, FAILED = "nothing", "wrong in another way", "not measured"
SMOKE = (("local ports: nft", "connections"), ("blocks: nft", "verify"), ("clean: nft", "verify"))


@dataclass(frozen=True)
class Row:
    """What was named of one plant in one round."""

    what: str
    kind: str
    named: str
    is_right: bool
    is_clean: bool
    said: str
    seconds: float
    drawn: str = ""

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.what}: {self.kind}"


def measured(plant: Plant, traffic_s: float) -> Row:
    """One bench with it. Raises PinchpointError."""
    began = time.monotonic()
    scenario = parse(plant.text(traffic_s), f"{plant.name.replace(': ', '-').replace(' ', '-')}.toml")
    if missing := [probe for probe in device_of(scenario).needs(scenario, Local()) if not probe.ok]:
        raise PinchpointError(f"{plant.name}: {missing[0].detail}", missing[0].hint)
    try:
        name, said = _named(plant, prepare(scenario, Machines(Local())))
    except (DutError, EngineError) as error:
        name, said = FAILED, error.message
    expected = (NOTHING,) if plant.is_clean else (str(plant.expected or UNFAIR),)
    seconds, is_right = time.monotonic() - began, name in expected
    return Row(plant.what, plant.kind, name, is_right, plant.is_clean, said, seconds, plant.drawn)


def _named(plant: Plant, setup: Setup) -> tuple[str, str]:
    """What its measure names, and in which words."""
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        plant.change(setup, live)
        bench = Standing(setup, live, [find_engine(Local())], Task(), time.monotonic())
        result = measure_of(setup.scenario).run(bench)
    return (served if plant.measure == "verify" else ended)(result)


def ended(result: ScenarioResult) -> tuple[str, str]:
    """The resource that a verdict of `connections` names, if it is one that is planted; its words."""
    if result.verdict is None:
        return NOTHING, result.reason
    limit, words = result.verdict.limit, (result.verdict.headline, *result.verdict.evidence[:1])
    return (str(limit) if limit in PLANTED else NOTHING), "; ".join(words)


def served(result: ScenarioResult) -> tuple[str, str]:
    """What `verify` finds wrong: an unfair scheduler where all connections are served, and not in turn."""
    wrong = {metric.name for metric in result.metrics if metric.cautions}
    if wrong == {"busiest backend"}:
        return UNFAIR, result.reason
    return (NOTHING if result.outcome is Outcome.MEASURED else WRONG), result.reason


def show(all_rows: list[Row]) -> None:
    """A table: a line a plant and kind of balancer; then the sums."""
    table = Table(title="planted exhaustions: what was named")
    for name in ("planted", "balancer", "rounds", "right", "named instead"):
        table.add_column(name)
    for name in dict.fromkeys(row.name for row in sorted(all_rows, key=lambda row: (row.is_clean, row.name))):
        rows = [row for row in all_rows if row.name == name]
        others = Counter(row.named for row in rows if not row.is_right)
        instead = ", ".join(f"{other} {count}" for other, count in others.most_common())
        table.add_row(rows[0].what, rows[0].kind, str(len(rows)), str(sum(row.is_right for row in rows)), instead)
    Console().print(table)
    print("\n".join(sums(all_rows)))


def sums(rows: list[Row]) -> Iterator[str]:
    """What the aims are about."""
    planted, clean = [row for row in rows if not row.is_clean], [row for row in rows if row.is_clean]
    yield f"planted exhaustion named: {sum(row.is_right for row in planted)} of {len(planted)}"
    yield f"clean benches accused: {sum(row.named not in (NOTHING, FAILED) for row in clean)} of {len(clean)}"
    if failed := sum(row.named == FAILED for row in rows):
        yield f"not measured: {failed} of {len(rows)}"


def is_met(rows: list[Row]) -> bool:
    """Whether 19 of 20 are named, and no clean bench is accused."""
    named = [row.is_right for row in rows if not row.is_clean]
    return 20 * sum(named) >= 19 * len(named) and all(row.is_right for row in rows if row.is_clean)


def drawn(seed: int, number: int, only: str = "") -> list[Plant]:
    """What a round measures, in its order; `only` leaves the sizes of the others as they are."""
    draw = random.Random(f"{seed}.{number}")
    plants = [*planted(draw), *clean(draw)]
    draw.shuffle(plants)
    return [plant for plant in plants if only in plant.name]


def main() -> int:
    """Print the matrix; 1 where fewer than 19 of 20 are named, or a clean bench is accused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of every plant (3: 30 clean benches)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only plants whose name contains this")
    parser.add_argument("--traffic", type=float, default=2.0, metavar="SECONDS", help="of each search (2)")
    parser.add_argument("--seed", type=int, default=1, help="of sizes, places and order (1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--smoke", action="store_true", help="two plants and a clean bench once; nothing is judged")
    asked = parser.parse_args()
    rounds, rows = [drawn(asked.seed, number, asked.only) for number in range(asked.rounds)], list[Row]()
    if asked.smoke:
        asked.traffic = 1.0
        rounds = [[plant for plant in drawn(asked.seed, 0) if (plant.name, plant.measure) in SMOKE]]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for number, plants in enumerate(rounds, start=1):
        for plant in plants:
            row = measured(plant, asked.traffic)
            rows.append(row)
            mark = "" if row.is_right else "MISSED "
            print(
                f"{number} {mark}{row.name} ({row.drawn}): {row.named} | {row.said} | {row.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    if asked.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        show(rows)
    return 0 if asked.smoke or is_met(rows) else 1


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
