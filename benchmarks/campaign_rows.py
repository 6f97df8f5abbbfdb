"""`make bench-campaign`: the campaign's scheduler on virtual time, with machines that fail at random.

Units take one to ten minutes, a tenth of them need a label that a fifth of the machines have. The bound is that of
campaign_faults.py: no schedule, also one that knew all failures, ends before it. Fails where an aim is missed.
"""

import argparse
import json
import sys
from dataclasses import dataclass, replace

from campaign_faults import Faults, Simulated, made_up, simulate

from pinchpoint.campaign.schedule import Limits
from pinchpoint.model.campaign import Control, Requirement, Unit

OWN_S, ABOVE_BOUND = 0.005, 1.10
UNITS, MACHINES = 100_000, 1_000
SMOKE = 20  # a share of both


@dataclass(frozen=True)
class Row:
    """One simulated campaign."""

    name: str
    faults: Faults
    control: bool = False
    priorities: bool = False


ROWS = (
    Row("no failures", Faults()),
    Row("times differ by 20 %", Faults(spread=0.2)),
    Row("each machine fails once a day", Faults(86_400, 600, 0.2)),
    Row("each machine fails every four hours", Faults(14_400, 600, 0.2)),
    Row("and a control every hour", Faults(14_400, 600, 0.2), control=True),
    Row("and seven priorities", Faults(14_400, 600, 0.2), control=True, priorities=True),
)


def measured(row: Row, units: int, machines: int) -> Simulated:
    """The row's campaign, whole."""
    made, benches = made_up(units, machines)
    if row.priorities:
        made = [replace(unit, priority=number % 7) for number, unit in enumerate(made)]
    control = Control(Unit("control", "control", 1, Requirement(), 30.0), {}, 3600.0, 0.1) if row.control else None
    return simulate(made, benches, Limits(), control, row.faults)


def is_met(campaign: Simulated, units: int) -> bool:
    """Whether every unit was measured once, near the bound and in little time of the scheduler's own."""
    once = len(campaign.finished) == units and set(campaign.finished.values()) == {1}
    return once and campaign.own_per_unit_s <= OWN_S and campaign.makespan_s <= ABOVE_BOUND * campaign.bound_s


def shown(campaign: Simulated) -> dict[str, float]:
    """A row for programs."""
    return {
        "makespan_s": campaign.makespan_s,
        "bound_s": campaign.bound_s,
        "lost": campaign.lost,
        "controls": campaign.controls,
        "own_per_unit_s": campaign.own_per_unit_s,
    }


def main() -> int:
    """Print the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--smoke", action="store_true", help="a twentieth of both")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    share = SMOKE if asked.smoke else 1
    units, machines = asked.units // share, asked.machines // share
    rows = [(row.name, measured(row, units, machines)) for row in ROWS]
    missed = [name for name, campaign in rows if not is_met(campaign, units)]
    if asked.json:
        print(json.dumps({name: shown(campaign) for name, campaign in rows}))
        return 1 if missed else 0
    print(f"{units:,} units on {machines:,} machines")
    print(f"{'':36} {'makespan':>10} {'bound':>10} {'ratio':>7} {'lost':>6} {'controls':>9} {'own time a unit':>16}")
    for name, campaign in rows:
        print(
            f"{name:36} {campaign.makespan_s / 3600:8.2f} h {campaign.bound_s / 3600:8.2f} h"
            f" {campaign.makespan_s / campaign.bound_s:7.3f} {campaign.lost:6,} {campaign.controls:9,}"
            f" {campaign.own_per_unit_s * 1e6:13.0f} us"
        )
    for name in missed:
        print(f"missed: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
