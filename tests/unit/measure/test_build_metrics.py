"""What a build comes to: metrics, and warnings that name their reason."""

from types import SimpleNamespace

import pytest
import trials

from pinchpoint.dut.device import made_by
from pinchpoint.dut.registry import default, device
from pinchpoint.measure.build.run import Build, Built, Usage, metrics, warnings
from pinchpoint.measure.traffic import Carried, Disturbance, disturbance, judged
from pinchpoint.model.trial import TrialValidity
from pinchpoint.model.warning import Warn


def built(what="flows", growth=1.0, disturbed=None, taken=(), peak=50_000_000):
    build = Build(what, "process", 1000, 40, len(taken), 0.0)
    usage = Usage(10_000_000, 12_000_000, peak, 1.5, 3.0)
    shown_by = made_by(device(default()).keys)[what].shown_by
    made = SimpleNamespace(returned_s=2.0, visible_s=2.5, look_s=0.1, growth=growth)
    return Built(build, shown_by, made, SimpleNamespace(visible_s=4.0, growth=None), usage, disturbed, taken, 0.01)


def why(build):
    """Why time per item may grow, as the device that makes them says."""
    return made_by(device(default()).keys)[build.what].why_slower.get(build.method, "")


def measurement(built_, account=None, observed=None):
    """The measurement that holds `found`."""
    told = {"metrics": tuple(metrics(built_)), "account": account or {}, "observed": observed or {}}
    return trials.measurement("build", wall_s=9.0, **told)


def carried(lost=0, offered=10_000, seconds=10.0, gap_s=0.0, missed=0, engine_gaps_s=0.0):
    return Carried(offered, offered - lost, seconds, gap_s, missed, engine_gaps_s)


def values(figures):
    return {metric.name: metric.value for metric in figures}


def test_rates_and_costs_are_per_item():
    by_name = values(metrics(built()))
    assert by_name["build rate"] == 500
    assert by_name["time per item"] == pytest.approx(0.002)
    assert by_name["switch memory per item"] == 2000
    assert by_name["visible time"] == 2.5
    assert by_name["growth"] == 1.0
    assert "blocked time" not in by_name
    assert "removal growth" not in by_name


def test_veth_pairs_cost_the_switch_nothing():
    assert not [name for name in values(metrics(built("veths"))) if name.startswith("switch")]


def test_the_last_probed_rule_s_first_frame_is_the_figure_and_untaken_ones_are_told():
    build = built(taken=(0.5, None, 2.25))
    (metric,) = [metric for metric in metrics(build) if metric.name == "first frame time"]
    assert (metric.value, metric.low) == (2.25, 0.5)
    assert "2 of 3" in metric.note
    account = {"probes": {"taken_s": list(build.taken_s)}}
    assert warnings(measurement(build, account), "") == (Warn.TOOK_NO_FRAME.of(untaken=1, probed=3),)


def test_growth_is_told_with_its_reason():
    build = built("ports", growth=9.0)
    (told,) = warnings(measurement(build), why(build.build))
    assert (told.kind, told.values["growth"]) == (Warn.GETS_SLOWER, 9.0)
    assert "grew 9.0 x" in told.text and "whole database" in told.text


def test_lost_frames_are_the_time_that_forwarding_was_blocked():
    disturbed = disturbance(carried(), carried(lost=500, gap_s=0.1))
    assert disturbed == Disturbance(pytest.approx(0.5), 0.0, 0.1)
    told = {metric.name: metric for metric in metrics(built(disturbed=disturbed))}
    assert (told["blocked time"].value, told["blocked time"].low) == (pytest.approx(0.5), pytest.approx(0.5))
    assert told["longest gap"].value == 0.1


def test_what_is_lost_also_while_nothing_is_built_is_not_building_s():
    disturbed = disturbance(carried(lost=5), carried(lost=105))
    assert disturbed.blocked_s == pytest.approx(0.1)


def test_a_path_that_never_worked_has_no_blocked_time_and_that_is_told():
    quiet = carried(lost=10_000, gap_s=None)
    why = disturbance(quiet, carried(lost=10_000, gap_s=None))
    assert "100 % of the load was lost before anything happened" in why
    assert warnings(measurement(built(), {"refused": why}), "") == (Warn.NO_BLOCKED_TIME.of(why),)
    assert "blocked time" not in values(metrics(built()))


@pytest.mark.parametrize("quiet", [carried(offered=0), carried()])
def test_nothing_offered_is_told_instead_of_a_time(quiet):
    assert "could offer no frame" in disturbance(quiet, carried(offered=0, seconds=0.0))


@pytest.mark.parametrize("own", [{"missed": 300}, {"engine_gaps_s": 0.3}], ids=["missed", "stood still"])
def test_losses_that_the_engine_may_have_caused_are_no_blocked_time(own):
    assert "the engine itself missed" in disturbance(carried(), carried(lost=500, **own))


def test_a_small_part_of_the_engine_s_own_is_the_interval():
    disturbed = disturbance(carried(), carried(lost=500, engine_gaps_s=0.1))
    (metric,) = [metric for metric in metrics(built(disturbed=disturbed)) if metric.name == "blocked time"]
    assert (metric.value, metric.low) == (pytest.approx(0.5), pytest.approx(0.4))


def test_a_gap_that_nobody_received_anything_around_is_not_zero():
    assert "longest gap" not in values(metrics(built(disturbed=Disturbance(0.5, 0.0, None))))


@pytest.mark.parametrize(("what", "words"), [("flows", "OpenFlow"), ("ports", "datapath"), ("veths", "kernel")])
def test_visible_says_who_was_asked_and_how_long_that_took(what, words):
    (metric,) = [metric for metric in metrics(built(what)) if metric.name == "visible time"]
    assert words in metric.note
    assert (metric.low, metric.high) == (2.4, 2.5)


def test_a_peak_that_may_be_of_an_earlier_build_is_not_given():
    assert "lab peak memory" in values(metrics(built()))
    assert "lab peak memory" not in values(metrics(built(peak=None)))


def cpu(busy, steal=0):
    ticks = {"busy": busy, "steal": steal, "softirq": 0, "irq": 0}
    return {f"host/cpu/1/{name}_ticks": count for name, count in ticks.items()}


DISTURBED = [
    (cpu(195, steal=5) | {"host/process/lab/ticks": 195}, "stolen from CPU 1"),
    (cpu(195) | {"host/process/lab/ticks": 150}, "processes outside the bench took"),
]


@pytest.mark.parametrize(("observed", "words"), DISTURBED, ids=["steal", "others"])
def test_a_build_that_the_host_disturbed_says_so_in_every_place(observed, words):
    window = judged(measurement(built(), observed=observed), 2.0)
    assert window.validity is TrialValidity.NOISY_HOST
    assert words in window.reason
    assert all(metric.disturbed and "the host was disturbed" in metric.cautions for metric in window.metrics)
    (warning,) = warnings(window, "")
    assert words in warning.text


def test_a_build_on_a_quiet_host_is_valid():
    window = measurement(built(), observed=cpu(190) | {"host/process/lab/ticks": 185})
    assert judged(window, 2.0) == window


def test_one_tick_in_a_short_build_is_no_disturbance():
    window = measurement(built(), observed=cpu(3) | {"host/process/lab/ticks": 2})
    assert judged(window, 0.03) == window
