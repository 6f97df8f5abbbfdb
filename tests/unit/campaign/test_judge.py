"""Machines that are slower, that drift, and that only vary: which of them is excluded."""

import random

import pytest

from pinchpoint.campaign.machines import Figure, calibrated, fit, half_width, suspect

MACHINES = ("m1", "m2", "m3", "m4")
SEEDS = 200


def controls(seed, count=12, slow=1.0, drift=0.0, noise=0.02, machines=0.02):
    """Figures of four machines that differ by `machines`; the first is slower, or loses `drift` with each figure."""
    chance = random.Random(seed)
    own = {name: 1 + chance.gauss(0, machines) for name in MACHINES}
    own["m1"] = slow
    return {
        name: [
            1e6 * level * (1 - drift * n if name == "m1" else 1) * (1 + chance.gauss(0, noise)) for n in range(count)
        ]
        for name, level in own.items()
    }


def excluded(values, tolerance=0.1):
    """Each machine that is excluded as the figures come one after the other, and after how many."""
    excluded_at = {}
    for n in range(1, len(values["m1"]) + 1):
        for name in MACHINES:
            so_far = {other: figures[:n] for other, figures in values.items() if other not in excluded_at}
            if name not in excluded_at and suspect(name, so_far, tolerance):
                excluded_at[name] = n
    return excluded_at


def test_a_machine_that_is_fifteen_per_cent_slower_is_excluded_and_no_other():
    by_seed = [excluded(controls(seed, slow=0.85, machines=0.0)) for seed in range(SEEDS // 4)]
    assert sum(set(machines) == {"m1"} for machines in by_seed) >= 0.95 * len(by_seed)
    assert not any(set(machines) - {"m1"} for machines in by_seed)


@pytest.mark.thorough
def test_machines_that_only_vary_are_left_alone():
    wrong = sum(bool(excluded(controls(seed, count=8))) for seed in range(SEEDS))
    assert wrong <= 0.01 * SEEDS


def test_a_machine_that_drifts_is_noticed_by_itself_though_there_are_only_two():
    alarms = 0
    for seed in range(20):
        values = controls(seed, count=24, drift=0.012)
        pair = {name: values[name] for name in ("m1", "m2")}
        alone = suspect("m1", pair, 0.1)
        alarms += alone is not None and 0 < alone.since < 24
        assert suspect("m2", pair, 0.1) is None
    assert alarms == 20


def test_two_machines_that_differ_do_not_say_which_is_wrong():
    values = controls(1, slow=0.7)
    assert suspect("m1", {name: values[name] for name in ("m1", "m2")}, 0.1) is None


def test_the_calibration_has_a_factor_with_its_interval_for_each_machine():
    chance, factors = random.Random(1), {"m1": 0.9, "m2": 1.0, "m3": 1.0, "m4": 1.05}
    figures = [
        Figure(f"p{point}", name, 1000 * (point + 1) * factor * (1 + chance.gauss(0, 0.01)))
        for point in range(10)
        for name, factor in factors.items()
    ]
    calibration = calibrated([*figures, Figure("alone", "m1", 5.0)])
    for judged in calibration.factors:
        assert judged.low < judged.factor < judged.high
        assert judged.factor == pytest.approx(factors[judged.machine], rel=0.02)
    assert calibration.repeat_sd == pytest.approx(0.01, rel=0.5)


def test_intervals_hold_the_true_ratio_to_the_mean_as_often_as_they_say():
    """Of a machine among four, over many seeds; the model's own intervals, before the median is taken."""
    held, n = 0, 400
    for seed in range(n):
        chance = random.Random(seed)
        true = {name: chance.gauss(0, 0.05) for name in MACHINES}
        rows = [(p, name, 2.718281828 ** (true[name] + chance.gauss(0, 0.02))) for p in range(6) for name in MACHINES]
        model = fit([Figure(str(point), name, value) for point, name, value in rows])
        apart = true["m1"] - sum(true.values()) / 4
        wide = half_width(model.errors[0], model.freedom, 0.95)
        held += abs(model.effects[0] - apart) <= wide
    assert held >= 0.93 * n


def test_without_machines_that_share_a_point_there_is_no_calibration():
    calibration = calibrated([Figure("a", "m1", 1.0), Figure("b", "m2", 2.0)])
    assert (calibration.factors, calibration.machine_sd) == ((), None)


def test_of_two_generations_of_machines_none_is_excluded():
    for seed in range(20):
        values = controls(seed, machines=0.0)
        two = {
            name: [1.4 * figure for figure in figures] if name in ("m3", "m4") else figures
            for name, figures in values.items()
        }
        assert not excluded(two)


def test_machines_between_which_no_difference_was_seen_have_an_interval_all_the_same():
    chance = random.Random(3)
    figures = [
        Figure(f"p{point}", name, 1000 * (1 + chance.gauss(0, 0.05))) for point in range(4) for name in ("m1", "m2")
    ]
    calibration = calibrated(figures)
    assert calibration.machine_sd == 0
    for factor in calibration.factors:
        assert factor.low < 1 < factor.high
