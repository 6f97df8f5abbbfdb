"""Before the first judged trial the DUT must have learnt every five-tuple.

A switch learns by misses: each new flow goes to its slow path once. With many rules
that is so slow that frames are lost meanwhile, and what was lost was not learnt. So
rounds are sent, each no faster than the last one was carried, until one misses nothing.
"""

from pinchpoint.causes.catalogue import by_name
from pinchpoint.dut.registry import device_of
from pinchpoint.measure.forwarding import total
from pinchpoint.measure.trial import Measurer
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import WARM_UP

FIRST_FPS = 1e6  # too little to overload most benches
SLOWEST_FPS = 10e3
SHORTEST_S = 0.5
LONGEST_S = 30.0  # of all rounds together
LEARNT = 0.001  # misses, as a share of the frames sent: what a busy table turns over anyway


def first_round(scenario: Scenario) -> tuple[float, float]:
    """(seconds, frames per second): every five-tuple twice, within reason."""
    load_fps = min(FIRST_FPS, scenario.search.max_load_fps)
    return min(LONGEST_S, max(SHORTEST_S, 2 * _flows(scenario) / load_fps)), load_fps


def warm_up(scenario: Scenario, measurer: Measurer) -> str:
    """Send until the DUT has learnt. Returns a warning; empty when it has learnt everything."""
    duration_s, load_fps = first_round(scenario)
    left_s = LONGEST_S
    while True:
        trial = measurer.trial(WARM_UP, duration_s, load_fps)
        left_s -= duration_s
        missed = total(load.slow_path for load in trial.threads)  # lookups that no cache answered
        if missed is None or missed <= LEARNT * trial.offered:
            return ""
        if left_s <= 0:
            advice = by_name("slow-path").advice(device_of(scenario).advice("slow-path", trial.observed))
            return (
                f"the switch still missed {missed:,} of {trial.offered:,} frames after {LONGEST_S:g} s of warm-up: "
                f"its table of flows may be too small: {advice}"
            )
        carried_fps = trial.received / trial.sent_duration_s if trial.sent_duration_s else 0.0
        load_fps = min(load_fps, max(SLOWEST_FPS, carried_fps)) if trial.lost else first_round(scenario)[1]
        duration_s = min(left_s, max(SHORTEST_S, 1.1 * _flows(scenario) / load_fps))


def _flows(scenario: Scenario) -> int:
    return sum(stream.flows for stream in scenario.streams)
