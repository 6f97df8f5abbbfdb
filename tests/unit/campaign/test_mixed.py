"""The mixed model against statsmodels 0.15.0, and where it has nothing to say."""

import random

import pytest

from pinchpoint.campaign.machines import Figure, fit

# mixedlm("y ~ C(point)", groups=machine).fit(reml=True, method=["lbfgs"], gtol=1e-10) of the same rows.
STATSMODELS = [
    ((4, 5, 3, 0.05), 0.0535660, 0.0166068, (0.064251, -0.061454, -0.018637, 0.015839)),
    ((6, 8, 2, 0.1), 0.1001428, 0.0195341, (0.111914, 0.118877, -0.006123, -0.089238, -0.123219, -0.012211)),
    ((3, 4, 2, 0.02), 0.0363218, 0.0259138, (0.036217, -0.033439, -0.002778)),
]


def rows(seed, machines, points, repeats, deviation):
    """Figures of machines at points, a fifth of them missing."""
    chance = random.Random(seed)
    own = [chance.gauss(0, deviation) for _ in range(machines)]
    drawn = []
    for point in range(points):
        for machine in range(machines):
            for _ in range(repeats):
                if chance.random() < 0.8:
                    value = 1000 * (point + 1) * 2.718281828459045 ** (own[machine] + chance.gauss(0, 0.02))
                    drawn.append(Figure(str(point), str(machine), round(value, 3)))
    return drawn


def figures(points, machines, values):
    return [Figure(*row) for row in zip(points, machines, values, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_variances_and_effects_are_those_of_statsmodels(seed):
    made, machine_sd, repeat_sd, effects = STATSMODELS[seed]
    model = fit(rows(seed, *made))
    assert model.machine_sd == pytest.approx(machine_sd, rel=1e-4)
    assert model.repeat_sd == pytest.approx(repeat_sd, rel=1e-4)
    by_machine = dict(zip(model.machines, model.effects, strict=True))
    assert [by_machine[str(n)] for n in range(made[0])] == pytest.approx(effects, abs=2e-6)


def test_machines_that_do_not_differ_have_no_variance_of_their_own():
    model = fit(figures("112233", "ab" * 3, (10.0, 10.1, 20.2, 20.0, 30.0, 30.0)))
    assert model.machine_sd == pytest.approx(0.0, abs=1e-3)


def test_too_little_or_nothing_in_common_has_no_model():
    assert fit(figures("11", "ab", (1.0, 2.0))) is None
    assert fit(figures("111222", "aaabbb", (1.0, 1.1, 1.2, 2.0, 2.1, 2.2))) is None


def test_a_value_that_has_no_logarithm_is_refused():
    with pytest.raises(ValueError, match="positive"):
        fit(figures("11", "ab", (0.0, 1.0)))
