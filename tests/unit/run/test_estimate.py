"""What a run will take: in proportion before it starts, right once some of it is done."""

from dataclasses import replace

import pytest
from sweeps import base, factor, sweep

from pinchpoint.dut.ovs.spec import Datapath, ExtraPorts, RuleSeries
from pinchpoint.measure.blocked.run import Blocked
from pinchpoint.measure.build.run import Build
from pinchpoint.measure.burst.run import Burst
from pinchpoint.measure.capacity.run import Capacity
from pinchpoint.measure.change.run import Changed
from pinchpoint.measure.connections.run import Connections
from pinchpoint.measure.load.run import Load
from pinchpoint.measure.loss_curve.run import LossCurve
from pinchpoint.measure.rates.run import Rates
from pinchpoint.measure.recovery.run import Recovery
from pinchpoint.measure.registry import measures
from pinchpoint.measure.soak.run import Soak
from pinchpoint.measure.sockets.run import Bandwidth, ConnectRequestResponse, RequestResponse
from pinchpoint.measure.verify.run import Verify
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.run.budget import Forecast, expected_s
from pinchpoint.run.order import units

PLAIN = base()
WORKLOAD = ("a", "b", 1, 1, 1, None, 1.0, 10.0, 3, 1.0)
ASKED = [
    Rates((0.5,), 1.0),
    Load((1e5,), 1.0, 3),
    Soak(None, 0.9, 3600.0, 10.0),
    Recovery(None, 1.1, 60.0, 0.5, 10.0, 5),
    Blocked("restart", 1, {}, 1e5, 1.0, 2.0, 5),
    Build("flows", "file", 1000, 40, 0, 0.0),
    Burst(50, None, None, 1_000_000, 0.01),
    LossCurve(None, 0.1, 6, 1.0),
    Bandwidth(*WORKLOAD),
    RequestResponse(*WORKLOAD),
    ConnectRequestResponse(*WORKLOAD),
    Verify(300, 200.0, 2, 2.0, 0.5),
    Connections((0.0,), 10.0, 1e6, 1.0, 0.0, 20.0, 0.02, "request", 1, 0.0, 1.0, False, 60.0, False),
    Capacity(None, 1_000_000, 5000.0, 0.0, 0.02, 0.5, 1.0, 60.0),
    Changed("silent", 0, 2.0, 3.0, 3.0, 500.0, 2, 0.0, 1.0),
]


def with_rules(count):
    (bridge,) = PLAIN.dut.bridges
    bridge = replace(bridge, rule_series=(RuleSeries("in_port={i},actions=drop", count),))
    return replace(PLAIN, dut=replace(PLAIN.dut, bridges=(bridge,)))


def build(what, method, count, concurrency=40):
    made = Build(what, method, count, concurrency, probe_rules=0, load_fps=0.0)
    return replace(PLAIN, measure=made)


def test_a_search_costs_its_trials_and_its_bench():
    by_library = replace(PLAIN, search=replace(PLAIN.search, method=SearchMethod.MLRSEARCH))
    search = by_library.search
    assert expected_s(by_library) > search.duration_sum_s
    longer = replace(by_library, search=replace(search, duration_sum_s=10 * search.duration_sum_s))
    assert expected_s(longer) - expected_s(by_library) > 9 * search.duration_sum_s
    bounded = replace(longer, search=replace(longer.search, max_duration_s=1.0))
    assert expected_s(bounded) < expected_s(by_library)


def test_our_own_search_is_expected_to_use_up_its_traffic_as_on_a_host_that_moves():
    search = PLAIN.search
    assert expected_s(PLAIN) > search.max_traffic_s
    longer = replace(PLAIN, search=replace(search, max_traffic_s=2 * search.max_traffic_s, max_duration_s=3600.0))
    assert expected_s(longer) - expected_s(PLAIN) > search.max_traffic_s


@pytest.mark.parametrize(
    "more", [with_rules(1_000_000), replace(PLAIN, dut=replace(PLAIN.dut, extra_ports=ExtraPorts(5000, "internal")))]
)
def test_rules_and_ports_take_time_to_make(more):
    assert expected_s(more) > expected_s(PLAIN) + 10


def test_socket_workloads_and_loads_cost_their_windows():
    over_sockets = replace(PLAIN, measure=Bandwidth(*WORKLOAD))
    assert 33 < expected_s(over_sockets) < 45
    loaded = replace(PLAIN, measure=Load((1e5, 2e5), 5.0, 3))
    assert 30 < expected_s(loaded) < 45


@pytest.mark.parametrize("measure", ASKED, ids=lambda measure: measure.kind)
def test_every_measure_and_datapath_has_an_estimate(measure):
    for datapath in Datapath:
        assert expected_s(replace(PLAIN, measure=measure, dut=replace(PLAIN.dut, datapath=datapath))) > 0


def test_no_measure_is_left_out():
    assert {measure.kind for measure in ASKED} == {measure.name for measure in measures()}


def test_building_is_slower_by_processes_than_from_a_file():
    assert expected_s(build("flows", "process", 500_000)) > 10 * expected_s(build("flows", "file", 500_000))
    assert expected_s(build("flows", "unheard of", 100)) > 0


def test_a_forecast_learns_from_its_group_first_and_from_the_others_else():
    near, far = units([sweep(factor([1, 2, 3]), group="near"), sweep(factor([1]), group="far")])[0::3]
    expected = expected_s(near)
    forecast = Forecast()
    assert forecast.unit_s(near) == pytest.approx(expected)
    forecast.finished(near, 3 * expected)
    assert forecast.unit_s(near) == pytest.approx(3 * expected)
    assert forecast.unit_s(far) == pytest.approx(3 * expected_s(far))
    forecast.finished(far, expected_s(far))
    assert forecast.unit_s(far) == pytest.approx(expected_s(far))
    assert forecast.unit_s(near) == pytest.approx(3 * expected)
    assert forecast.left_s([near, far]) == pytest.approx(3 * expected + expected_s(far))


def test_time_over_which_loss_is_seen_counts_and_a_given_rate_saves_the_search():
    wanted = replace(PLAIN, measure=Soak(1e6, 0.9, 3600.0, 10.0))
    searched = replace(wanted, measure=Soak(None, 0.9, 3600.0, 10.0))
    assert 3600 < expected_s(wanted) < 3650
    assert expected_s(searched) > expected_s(wanted) + 5
    overload = replace(PLAIN, measure=Recovery(1e6, 1.1, 60.0, 0.5, 10.0, 5))
    assert 350 < expected_s(overload) < 380
    blocked = replace(PLAIN, measure=Blocked("none", 1, {}, 1e5, 1.0, 2.0, 5))
    assert 15 < expected_s(blocked) < 60
