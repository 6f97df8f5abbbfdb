"""`make bench-causes`: causes planted in real devices, and which cause the lab names first, and confirms.

Each plant changes one thing of a bench that is otherwise fast, or two. Clean benches are measured between them, in
which nothing may be blamed but the device's own speed.
"""

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import cpu
from cause_plants import PAIRS, PLANTS, Plant
from lab_run import stored
from rich.console import Console
from rich.table import Table

from pinchpoint.model.causes import Standing


@dataclass(frozen=True)
class Row:
    """What was said of one plant in one round."""

    plant: str
    expected: tuple[str, ...]
    named: tuple[str, ...]  # suspicions, the likeliest first
    confirmed: tuple[str, ...]
    verdict: str
    seconds: float
    is_clean: bool
    also: tuple[str, ...] = ()
    was_tried: bool = False  # by counter-experiments

    @property
    def is_right(self) -> bool:
        """Whether the planted cause is first, or of two both are named; of a clean bench: whether nobody is blamed."""
        if self.is_clean:
            return set(self.named) <= set(self.expected)
        if self.also:
            return all(set(self.named) & set(causes) for causes in (self.expected, self.also))
        return bool(self.named) and self.named[0] in self.expected


def measured(plant: Plant, folder: Path, traffic_s: float, is_confirmed: bool) -> Row:
    """One run of it."""
    path = folder / f"{re.sub(r'[^a-z0-9]+', '-', plant.name.lower())}-{time.monotonic_ns()}.toml"
    path.write_text(plant.text(traffic_s))
    verb = "explain" if is_confirmed and plant.can_confirm else "run"
    began = time.monotonic()
    with plant.beside():
        _, result = stored(verb, path, passes=(0, 4, 9))  # a failed or undecided counter-experiment leaves the verdict
    verdict = result.scenarios[0].verdict
    branches = [branch for explanation in result.explanations for branch in explanation.branches]
    return Row(
        plant.name,
        plant.causes,
        tuple(suspicion.cause for suspicion in verdict.suspicions) if verdict else (),
        tuple(tested.suspicion.cause for tested in branches if tested.standing is Standing.CONFIRMED),
        verdict.headline if verdict else result.scenarios[0].reason,
        time.monotonic() - began,
        plant.is_clean,
        plant.also,
        verb == "explain",
    )


def line(row: Row) -> str:
    """What was said of one plant."""
    tried = f" | confirmed: {', '.join(row.confirmed) or '-'} in {row.seconds:.0f} s" if row.was_tried else ""
    return f"{row.plant}: {', '.join(row.named) or '-'}{tried} | {row.verdict[:120]}"


def show(all_rows: list[Row]) -> None:
    """A table: a line a plant, with what was named first and how often; then the sums."""
    table = Table(title="planted causes: what was named first")
    for name in ("plant", "rounds", "right", "named", "confirmed", "named first instead"):
        table.add_column(name)
    for plant in dict.fromkeys(row.plant for row in all_rows):
        rows = [row for row in all_rows if row.plant == plant]
        others = Counter(row.named[0] if row.named else "nothing" for row in rows if not row.is_right)
        table.add_row(
            plant,
            str(len(rows)),
            str(sum(row.is_right for row in rows)),
            str(sum(bool(set(row.named) & set(row.expected)) for row in rows)),
            str(sum(bool(set(row.confirmed) & set(row.expected)) for row in rows)),
            ", ".join(f"{name} {count}" for name, count in others.most_common()),
        )
    Console().print(table)
    print("\n".join(sums(all_rows)))


def sums(rows: list[Row]) -> Iterator[str]:
    """What the aims are about."""
    clean = [row for row in rows if row.is_clean]
    pairs = [row for row in rows if row.also]
    single = [row for row in rows if not row.is_clean and not row.also]
    confirmable = [row for row in single if row.was_tried]
    confirmed = [row for row in confirmable if set(row.confirmed) & set(row.expected)]
    yield f"planted cause first: {sum(row.is_right for row in single)} of {len(single)}"
    yield f"two planted together, both named: {sum(row.is_right for row in pairs)} of {len(pairs)}"
    yield f"clean benches accused: {sum(not row.is_right for row in clean)} of {len(clean)}"
    if confirmable:
        took = f"; {statistics.median(row.seconds for row in confirmed):.0f} s in the median" if confirmed else ""
        yield f"confirmed, where there is a counter-experiment: {len(confirmed)} of {len(confirmable)}{took}"


def main() -> int:
    """Print the matrix; 1 where a clean bench was blamed or a planted cause was not first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of every plant (5)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only plants whose name contains this")
    parser.add_argument("--traffic", type=float, default=6.0, metavar="SECONDS", help="of each search (6)")
    parser.add_argument("--confirm", action="store_true", help="try each suspicion by its counter-experiment")
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--smoke", action="store_true", help="three plants once; what is named is not judged")
    asked = parser.parse_args()
    plants = [plant for plant in (*PLANTS, *PAIRS) if asked.only in plant.name]
    if asked.smoke:
        plants, asked.rounds, asked.traffic = plants[:3], 1, 1.0
    shuffled, rows = random.Random(asked.seed), list[Row]()
    cpu.end_on_signals()
    with tempfile.TemporaryDirectory(prefix="causes-") as place:
        for number in range(asked.rounds):
            for plant in shuffled.sample(plants, len(plants)):
                row = measured(plant, Path(place), asked.traffic, asked.confirm)
                rows.append(row)
                print(f"{number + 1} {line(row)}", file=sys.stderr, flush=True)
    if asked.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        show(rows)
    return 0 if asked.smoke or all(row.is_right for row in rows) else 1


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
