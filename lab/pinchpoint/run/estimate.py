"""How long a run will take: estimated before it starts, corrected as its units finish; pure.

The constants are what benches took on a 2-core virtual machine. They only have to be
right in proportion: the ratio of spent to estimated time corrects them group by group.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from pinchpoint.dut.registry import device_of
from pinchpoint.measure.burst.run import expected_bursts
from pinchpoint.measure.loss_curve.run import expected_trials as expected_loss_trials
from pinchpoint.measure.rates.run import expected_trials
from pinchpoint.measure.warm_up import first_round
from pinchpoint.model.scenario import Build, MeasureKind, Relative, Scenario

RULE_S = 20e-6
PORT_S = 10e-3  # an idle port of the switch, made and removed
TRIAL_S = 0.25  # around a trial: settling, counters read twice, the record synced
LATENCY_RETRIES = 1.5
WINDOW_S = 0.5  # around a window of a socket workload

# Per item made, its removal included; "process" is divided by what runs at once.
ITEM_S: Mapping[tuple[str, str], float] = {
    ("flows", "process"): 10e-3,
    ("flows", "file"): RULE_S,
    ("flows", "bundle"): 2 * RULE_S,
    ("ports", "process"): 60e-3,
    ("ports", "transaction"): PORT_S,
    ("veths", "process"): 10e-3,
    ("veths", "file"): 2e-3,
    ("veths", "netlink"): 2e-3,
}
UNKNOWN_ITEM_S = 5e-3
RESTART_S = 1.0  # of a switch that stands
RATIO_S = 12.0  # an engine for two benches, calibration, slices until their ratio is known to some per cent
REPEAT_S = 4.0  # around an action under traffic: the engine's start, a warm-up, a quiet second


def expected_s(scenario: Scenario) -> float:
    """Seconds that a scenario takes from its bench's first action to its last."""
    own_s, relative = _MEASURES_S[scenario.measure](scenario), scenario.point.relative
    if relative is Relative.NO or scenario.measure is not MeasureKind.RATES or _is_reference(scenario):
        return _standing_s(scenario) + own_s
    ratio_s = RATIO_S + 2 * first_round(scenario)[0]
    return _standing_s(scenario) + ratio_s + (own_s if relative is Relative.BESIDE else 0.0)


def _is_reference(scenario: Scenario) -> bool:
    """Whether the others of its group are planned to be measured relative to it."""
    return scenario.name.removesuffix(f".r{scenario.point.repeat}") == scenario.point.reference


def _standing_s(scenario: Scenario) -> float:
    return device_of(scenario).standing_s(scenario)


def _rates_s(scenario: Scenario) -> float:
    search, latency = scenario.search, scenario.latency
    searching = expected_trials(scenario) * (search.trial_duration_s + search.drain_s + TRIAL_S)
    latencies = len(latency.at) * LATENCY_RETRIES * (latency.duration_s + search.drain_s + TRIAL_S)
    return first_round(scenario)[0] + min(searching, search.max_duration_s) + latencies


def _load_s(scenario: Scenario) -> float:
    load = scenario.load
    return first_round(scenario)[0] + len(load.at_fps) * load.repeats * (load.duration_s + TRIAL_S)


def _sockets_s(scenario: Scenario) -> float:
    sockets = scenario.sockets
    return 0.0 if sockets is None else sockets.repeats * (sockets.warm_up_s + sockets.duration_s + WINDOW_S)


def _searching_s(scenario: Scenario) -> float:
    search = scenario.search
    return expected_trials(scenario) * (search.trial_duration_s + search.drain_s + TRIAL_S)


def _soak_s(scenario: Scenario) -> float:
    if scenario.soak is None:
        return 0.0
    searching = _searching_s(scenario) if scenario.soak.load_fps is None else 0.0
    return first_round(scenario)[0] + min(searching, scenario.search.max_duration_s) + scenario.soak.duration_s


def _recovery_s(scenario: Scenario) -> float:
    if (recovery := scenario.recovery) is None:
        return 0.0
    searching = _searching_s(scenario) if recovery.throughput_fps is None else 0.0
    each = recovery.overload_s + recovery.reduced_s + scenario.search.drain_s + TRIAL_S
    return first_round(scenario)[0] + min(searching, scenario.search.max_duration_s) + recovery.repeats * each


def _blocked_s(scenario: Scenario) -> float:
    if (blocked := scenario.blocked) is None:
        return 0.0
    acting = UNKNOWN_ITEM_S * blocked.count * blocked.action.endswith("-ports") + RULE_S * blocked.count
    if blocked.action == "restart":
        acting = RESTART_S
    return blocked.repeats * (REPEAT_S + blocked.before_s + acting + blocked.after_s)


def _build_s(scenario: Scenario) -> float:
    return 0.0 if scenario.build is None else scenario.build.count * _item_s(scenario.build)


def _item_s(build: Build) -> float:
    """Processes start side by side but end at one switch: more than a few at once gain nothing."""
    item_s = ITEM_S.get((build.what, build.method), UNKNOWN_ITEM_S)
    return item_s / min(2, build.concurrency) if build.method == "process" else item_s


def _burst_s(scenario: Scenario) -> float:
    burst, search = scenario.burst, scenario.search
    if burst is None:
        return 0.0
    searched = expected_trials(scenario) * (search.trial_duration_s + search.drain_s + TRIAL_S)
    throughput_s = 0.0 if burst.throughput_fps else min(searched, search.max_duration_s)
    return first_round(scenario)[0] + throughput_s + expected_bursts(burst) * (search.drain_s + TRIAL_S)


def _loss_curve_s(scenario: Scenario) -> float:
    curve, search = scenario.loss_curve, scenario.search
    if curve is None:
        return 0.0
    return first_round(scenario)[0] + expected_loss_trials(curve) * (curve.duration_s + search.drain_s + TRIAL_S)


_MEASURES_S: Mapping[MeasureKind, Callable[[Scenario], float]] = {
    MeasureKind.RATES: _rates_s,
    MeasureKind.LOAD: _load_s,
    MeasureKind.BANDWIDTH: _sockets_s,
    MeasureKind.RR: _sockets_s,
    MeasureKind.CRR: _sockets_s,
    MeasureKind.BUILD: _build_s,
    MeasureKind.SOAK: _soak_s,
    MeasureKind.RECOVERY: _recovery_s,
    MeasureKind.BLOCKED: _blocked_s,
    MeasureKind.BURST: _burst_s,
    MeasureKind.LOSS_CURVE: _loss_curve_s,
}


class Forecast:
    """The estimate of every unit, corrected by what finished units of its group took."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = defaultdict(float)
        self._expected: dict[str, float] = defaultdict(float)

    def finished(self, unit: Scenario, spent_s: float) -> None:
        """A unit took this long."""
        self._spent[unit.point.group] += spent_s
        self._expected[unit.point.group] += expected_s(unit)

    def unit_s(self, unit: Scenario) -> float:
        """Seconds that this unit will take: by its group's own ratio, else by that of all groups."""
        return expected_s(unit) * self._ratio(unit.point.group)

    def left_s(self, units: Iterable[Scenario]) -> float:
        """Seconds that these units will take together."""
        return sum(self.unit_s(unit) for unit in units)

    def _ratio(self, group: str) -> float:
        spent_s, expected = self._spent.get(group, 0.0), self._expected.get(group, 0.0)
        if not expected:
            spent_s, expected = sum(self._spent.values()), sum(self._expected.values())
        return spent_s / expected if expected else 1.0
