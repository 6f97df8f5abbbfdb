"""What a build comes to: metrics, and warnings that name their reason."""

import pytest

from pinchpoint.diagnose.building import Built, Disturbance, Usage, metrics, warnings
from pinchpoint.model.scenario import Build


def built(what="flows", growth=1.0, disturbance=None, taken=()):
    build = Build(what, "process", 1000, 40, len(taken), 0.0)
    usage = Usage(10_000_000, 12_000_000, 50_000_000, 1.5, 3.0)
    return Built(build, 2.0, 2.5, growth, 4.0, None, usage, disturbance, taken, 0.01)


def values(found):
    return {metric.name: metric.value for metric in found}


def test_rates_and_costs_are_per_item():
    found = values(metrics(built()))
    assert found["build rate"] == 500
    assert found["time per item"] == pytest.approx(0.002)
    assert found["switch memory per item"] == 2000
    assert found["visible time"] == 2.5
    assert found["growth"] == 1.0
    assert "blocked time" not in found
    assert "removal growth" not in found


def test_veth_pairs_cost_the_switch_nothing():
    assert not [name for name in values(metrics(built("veths"))) if name.startswith("switch")]


def test_the_last_probed_rule_s_first_frame_is_the_figure_and_untaken_ones_are_told():
    found = built(taken=(0.5, None, 2.25))
    (metric,) = [metric for metric in metrics(found) if metric.name == "first frame time"]
    assert (metric.value, metric.low) == (2.25, 0.5)
    assert "2 of 3" in metric.note
    assert warnings(metrics(found), found.build, None, 1) == ("1 of 3 probed rules took no frame",)


def test_growth_is_told_with_its_reason():
    found = built("ports", growth=9.0)
    (words,) = warnings(metrics(found), found.build, None, 0)
    assert "grew 9.0 x" in words
    assert "whole database" in words


def test_a_load_that_was_too_much_before_building_is_told():
    found = built(disturbance=Disturbance(0.5, 0.1, 0.02))
    assert values(metrics(found))["blocked time"] == 0.5
    (words,) = warnings(metrics(found), found.build, 0.02, 0)
    assert "2.0% of the load" in words
