"""What is set aside must not depend on what was lost: over simulated trials, and over rules that break it."""

import math
from dataclasses import replace

import pytest
from support import Bench
from trials import stream_counts, trial

from pinchpoint.diagnose.rejection import ALARM, held_back, of_search
from pinchpoint.diagnose.validity import explained_frames
from pinchpoint.engine.simulated import StallKind, Stalls, Truth
from pinchpoint.model.trial import TrialValidity

CAPACITY = 1e6
NOISY = Stalls(StallKind.DUT_THREAD, per_second=3.0, length_s=0.0009)
"""The host takes the switch's core now and then: the ring absorbs each, but two in a trial are set aside in all."""
LONG = Stalls(StallKind.DUT_THREAD, per_second=1.0, length_s=0.003)
"""As long as three rings absorb."""


def search(seed, stalls=(NOISY,), loads=(0.99, 1.0, 1.01), each=40):
    """Trials near the capacity of a DUT whose speed varies by 1 %."""
    bench = Bench(Truth(CAPACITY, noise=0.01, stalls=stalls, seed=seed))
    return [bench.measure(0.5, share * CAPACITY) for _ in range(each) for share in loads]


def lost_share(trials):
    return sum(one.lost > 0 for one in trials) / len(trials)


def kept(trials):
    return [one for one in trials if one.validity is TrialValidity.VALID]


def judged_by(trials, rejects):
    """The same trials as another rule would have judged them; `rejects` is asked of the disturbed ones."""
    return [
        replace(one, validity=TrialValidity.VALID, reason="")
        if one.validity is TrialValidity.NOISY_HOST and not rejects(one)
        else one
        for one in trials
    ]


def test_trials_that_are_kept_lose_as_often_as_those_of_a_host_that_disturbs_nothing():
    noisy = [one for seed in range(20) for one in search(seed, loads=(1.0,))]
    quiet = [one for seed in range(20, 40) for one in search(seed, stalls=(), loads=(1.0,))]
    some = kept(noisy)
    assert 0.3 < len(some) / len(noisy) < 0.8, "the host must disturb enough to show"
    spread = math.sqrt(0.25 / len(some) + 0.25 / len(quiet))
    assert abs(lost_share(some) - lost_share(quiet)) < 3 * spread


def test_a_rule_that_asks_whether_the_disturbance_explains_the_loss_would_move_the_rate():
    """As the rule of this lab once did: a loss larger than the disturbance explains was judged."""
    noisy = [one for seed in range(20) for one in search(seed, loads=(1.0,))]
    once = judged_by(noisy, lambda one: one.lost <= explained_frames(one))
    quiet = [one for seed in range(20, 40) for one in search(seed, stalls=(), loads=(1.0,))]
    assert lost_share(kept(once)) > lost_share(quiet) + 0.1


def test_an_even_handed_rule_raises_an_alarm_no_more_often_than_stated():
    found = [of_search(search(seed)) for seed in range(60)]
    alarms = sum(one.too_low_p < ALARM or one.too_high_p < ALARM for one in found)
    assert alarms <= 2
    assert not any("more often than others" in warning for one in found[:5] for warning in one.warnings)


@pytest.mark.parametrize(
    ("rejects", "words"),
    [
        (lambda one: one.lost == 0, "the rates may be too low"),
        (lambda one: one.lost > explained_frames(one), "the rates may be too high"),
    ],
    ids=["lossless ones", "losing ones"],
)
def test_a_biased_rule_is_caught(rejects, words):
    caught = sum(
        any(words in warning for warning in of_search(judged_by(search(seed), rejects)).warnings) for seed in range(10)
    )
    assert caught >= 9


def test_what_a_disturbance_itself_cost_is_no_sign_of_bias():
    """Every disturbed trial lost, since it was disturbed; none of the others did."""
    trials = search(0, stalls=(LONG,), loads=(0.9,), each=120)
    rejected = [one for one in trials if one.validity is TrialValidity.NOISY_HOST]
    assert rejected and all(one.lost for one in rejected)
    assert not any(one.lost for one in kept(trials))
    assert not any("more often than others" in warning for warning in of_search(trials).warnings)


def disturbed(**changes):
    return trial(run_delay_ns=5_000_000_000, validity=TrialValidity.NOISY_HOST, **changes)


def test_trials_of_other_loads_and_other_distances_are_not_compared():
    lossy = stream_counts(received=0)
    kept_lossy = [trial(counts=lossy, number=n) for n in range(10)]
    clean_elsewhere = [disturbed(load_fps=2000.0) for _ in range(10)]
    assert of_search(kept_lossy + clean_elsewhere).too_low_p == 1.0
    far = [replace(disturbed(cache_line=(160.0, 160.0))) for _ in range(10)]
    near = [replace(one, witness=trial(cache_line=(30.0, 30.0)).witness) for one in kept_lossy]
    assert of_search(near + far).too_low_p == 1.0


def test_the_test_is_fishers():
    """Of 10 kept all lost, of 10 set aside none: 1 in C(20, 10)."""
    trials = [trial(counts=stream_counts(received=0)) for _ in range(10)] + [disturbed() for _ in range(10)]
    assert of_search(trials).too_low_p == pytest.approx(1 / math.comb(20, 10))


def test_the_share_and_its_causes_are_told_from_a_quarter_on():
    still = "offered 8.0 % too few of 1,000 frames: the engine's core stood still for 40 ms in all"
    waited = "lost 5 frames during 2.00 ms in which pmd-c01 waited for a core"
    noisy = [replace(disturbed(), reason=reason) for reason in (still, still, waited)]
    few = of_search([trial() for _ in range(9)] + noisy[:2])
    assert few.warnings == ()
    many = of_search([trial() for _ in range(6)] + noisy + [trial(validity=TrialValidity.COUNTER_MISMATCH)])
    assert many.share == pytest.approx(0.4)
    (warning,) = many.warnings
    assert warning == (
        "40.0 % of 10 trials set aside: 2 the engine's core stood still, "
        "1 the switch's thread waited for its core, 1 counter mismatch"
    )
    (metric,) = many.metrics
    assert (metric.name, metric.unit, metric.value) == ("trials set aside", "share", pytest.approx(0.4))
    assert of_search([]).metrics == ()


def test_loads_near_the_rate_that_gaps_held_back_by_more_than_a_search_distinguishes_are_told():
    near = [trial(counts=stream_counts(offered=1000 - short, shortfall=short)) for short in (40, 20, 30)]
    far = [trial(2000.0, counts=stream_counts(offered=500, shortfall=500))] * 9
    assert "for 3.00 % of the trials near the rate (median)" in held_back(near + far, 1000.0, 0.005)
    assert held_back(near + far, 1000.0, 0.05) == ""
    assert held_back(far, 1000.0, 0.005) == ""
    assert held_back(near, None, 0.005) == ""
