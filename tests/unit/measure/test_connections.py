"""The measure `connections` over a balancer of known truth."""

from dataclasses import replace

import pytest
from balancers import Balancer, Opener, bench
from msgspec import structs
from support import TWO_PORTS as SCENARIO

from pinchpoint.engine.connections import Backend, Load, Server
from pinchpoint.keys.kinds import MismatchError
from pinchpoint.measure.connections.failing import judged
from pinchpoint.measure.connections.metrics import Sustained, plan, predicted, why_not
from pinchpoint.measure.connections.metrics import metrics as figures_of
from pinchpoint.measure.connections.run import BORNE, DOUBLED, OVERLOAD, Connections, _Measured, unstamped, work
from pinchpoint.measure.connections.steady import CompletedRate
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.measurement import Bound
from pinchpoint.model.result import Limit as Pinch
from pinchpoint.model.result import Outcome, Rate, RateStatus
from pinchpoint.model.warning import Warn

ASKS = Connections(
    failure_ratios=(0.0,),
    min_cps=10.0,
    max_cps=5000.0,
    trial_duration_s=0.5,
    ramp_s=0.0,
    max_traffic_s=10.0,
    relative_width=0.05,
    work="request",
    requests=1,
    hold_s=0.0,
    timeout_s=1.0,
    early_reuse=False,
    sustain_within_s=60.0,
    confirm=True,
)


def measured(balancer, ceiling_cps=1e9, disturbed="", **changes):
    return _Measured(bench(SCENARIO, replace(ASKS, **changes)), Opener(balancer, ceiling_cps, disturbed)).result()


def metrics(result):
    return {metric.name: metric for metric in result.metrics}


def test_a_pool_of_ports_gives_two_numbers_and_is_named():
    result = measured(Balancer(places=80, held_s=1.0))
    figures = metrics(result)
    assert figures["burst rate"].value == pytest.approx(160, rel=0.03), "80 places in 0.5 s"
    assert figures["sustained rate"].value == figures["predicted sustained rate"].value == pytest.approx(80, rel=0.01)
    assert figures["sustained rate"].low == pytest.approx(72)
    assert result.verdict.limit is Pinch.LOCAL_PORTS
    assert result.verdict.headline == "burst: local ports; sustained: local ports, confirmed"
    (advice,) = [line for line in result.verdict.evidence if line.startswith("what to do: ")]
    assert "more local addresses or ports" in advice
    assert result.outcome is Outcome.MEASURED


def test_doubling_the_resource_doubles_the_sustained_rate():
    result = measured(Balancer(places=80, held_s=1.0))
    assert metrics(result)["sustained rate, doubled"].value == pytest.approx(160, rel=0.01)
    assert any(line.startswith("confirmed by doubling") for line in result.verdict.evidence)


def test_doubling_that_changes_nothing_says_so():
    result = measured(Balancer(places=80, held_s=1.0, doubles=1.0))
    assert any(line.startswith("not confirmed by doubling: ") for line in result.verdict.evidence)


def test_a_device_that_frees_places_early_disproves_the_prediction():
    result = measured(Balancer(places=80, held_s=1.0, reuses=1.4), confirm=False)
    figures = metrics(result)
    assert figures["sustained rate"].note.startswith("the prediction failed")
    assert figures["sustained rate"].value > 1.2 * figures["predicted sustained rate"].value
    assert result.verdict.headline == "burst: local ports; sustained: local ports, not as predicted"


@pytest.mark.parametrize("phase", [OVERLOAD, BORNE])
def test_a_load_whose_account_is_unusable_confirms_no_prediction_and_disproves_none(phase):
    result = measured(Balancer(places=80, held_s=1.0, reuses=1.4), disturbed=phase)
    sustained = metrics(result)["sustained rate"]
    assert sustained.value == metrics(result)["predicted sustained rate"].value
    assert sustained.note.startswith("predicted, not confirmed: of ")
    assert sustained.note.endswith("/s others had the engine's core")


def test_doubling_is_not_judged_by_a_load_whose_account_is_unusable():
    result = measured(Balancer(places=80, held_s=1.0), disturbed=DOUBLED)
    assert "sustained rate, doubled" not in metrics(result)
    assert any(
        line.startswith("not confirmed by doubling: of ") and "others had" in line for line in result.verdict.evidence
    )


def test_no_sustained_rate_is_above_what_is_completed():
    result = measured(Balancer(places=800, held_s=2.0, capacity_cps=390.0, queue=100.0), steady_s=4.0, confirm=False)
    published = metrics(result)
    assert published["completed rate"].value == pytest.approx(390, rel=0.01), (
        "a queue makes 400 /s of it in a load of 6 s"
    )
    assert published["sustained rate"].value == published["completed rate"].value
    assert result.verdict.headline.endswith("sustained: what ends the completed rate")


def test_an_overload_that_is_carried_in_full_gives_at_least():
    result = measured(Balancer(places=80, held_s=1.0, reuses=2.0), confirm=False)
    sustained = metrics(result)["sustained rate"]
    assert (sustained.bound, sustained.low) == (Bound.AT_LEAST, sustained.value)


def test_what_a_core_bears_is_sustained_where_the_pool_bears_more():
    result = measured(Balancer(places=100_000, held_s=1.0, capacity_cps=1000.0))
    figures = metrics(result)
    assert figures["burst rate"].value == pytest.approx(1000, rel=0.05)
    assert figures["sustained rate"].value == figures["burst rate"].value
    assert result.verdict.limit is Pinch.SOFTIRQ
    assert result.verdict.headline == "burst: softirq; sustained: what ends the burst"


def test_a_generator_that_is_the_limit_gives_at_least():
    result = measured(Balancer(places=100_000), ceiling_cps=2000.0)
    burst = metrics(result)["burst rate"]
    assert (burst.bound, result.verdict.limit) == (Bound.AT_LEAST, Pinch.GENERATOR)
    assert burst.value == pytest.approx(2000, rel=0.05)
    assert "the generator opens no more than" in result.verdict.headline


def test_the_highest_rate_that_was_allowed_gives_at_least():
    result = measured(Balancer(places=100_000), max_cps=500.0)
    assert metrics(result)["burst rate"].bound is Bound.AT_LEAST
    assert result.verdict.limit is Pinch.SEARCH_MAXIMUM


@pytest.mark.parametrize(
    ("answered", "arrived", "told"),
    [
        (20, 20, []),
        (0, 20, ["no time stamps: none of 20 SYNs was answered with one"]),
        (20, 0, ["no time stamps: none of 20 SYNs at the backends had one"]),
    ],
)
def test_time_stamps_that_a_device_does_not_send_are_warned_of(answered, arrived, told):
    account = Opener(Balancer()).open("search", Load(20, 100.0, 1, 1.0)).seen.account
    client = structs.replace(account.client, established=20, stamped=answered)
    server = Server((Backend(20, 20, stamped=arrived), Backend(0, 0)))
    accounts = [structs.replace(account, client=client, server=server)]
    assert [warning.text for warning in unstamped(accounts)] == told


def test_a_device_that_bears_no_rate_has_none_and_a_warning_says_so():
    result = measured(Balancer(places=0, held_s=1.0))
    assert not {"burst rate", "sustained rate"} & metrics(result).keys()
    assert result.warnings[0].text.startswith("burst rate: none")


def test_every_second_syn_without_an_answer_is_a_share_that_fails_at_any_rate_and_no_rate_is_sustained():
    asks = {"trial_duration_s": 1.0, "max_traffic_s": 8.0, "steady_s": 4.0, "sustain_within_s": 0.0}
    result = measured(Balancer(places=100_000, drops=2), **asks)
    published = metrics(result)
    assert published["fails at any rate"].value == pytest.approx(0.5, abs=0.01)
    assert published["fails at any rate"].note.startswith("at the SYN: ")
    assert 'measure = "verify"' in published["fails at any rate"].note
    assert not {"burst rate", "completed rate", "sustained rate", "predicted sustained rate"} & published.keys()
    assert result.verdict.headline.startswith("50 % of the connections fail at any rate down to ")
    assert result.verdict.headline.endswith(", at the SYN: unexplained")
    kinds = [warning.kind for warning in result.warnings]
    assert kinds.count(Warn.FAILS_AT_ANY_RATE) == 1, "once, whatever the ratios"


def test_the_stage_of_what_fails_at_any_rate_is_not_that_of_overloads():
    measure = _Measured(bench(SCENARIO, ASKS), Opener(Balancer(places=100_000, drops=4, capacity_cps=200.0)))
    trials = [measure._trial(1.0, cps) for cps in (10.0, 12.0, 40.0, 100.0, 5000.0)]
    below = Rate(0.0, RateStatus.BELOW_MINIMUM, None, 12.0, 1.0, 1.0, "most trials lost frames")
    ended = measure._ended(judged(below, trials), trials)
    assert ended.stage.words == "at the SYN: 41 of 41 timed out connecting"


def test_a_queue_is_a_burst_in_connections_and_the_completed_rate_is_what_the_core_bears():
    result = measured(Balancer(places=100_000, capacity_cps=1000.0, queue=200.0), steady_s=4.0)
    published = metrics(result)
    assert published["burst rate"].value == pytest.approx(1400, rel=0.05), "200 at once and 1,000 a second, in 0.5 s"
    assert published["completed rate"].value == pytest.approx(1000, rel=0.02)
    assert (published["burst"].value, published["burst"].unit) == (pytest.approx(200, abs=50), "count")
    assert published["sustained rate"].value == published["completed rate"].value
    assert published["sustained rate"].note.startswith("the completed rate: local ports sustain 100 k/s")
    assert result.verdict.headline == "burst: softirq; completed: softirq; sustained: what ends the completed rate"


def test_places_that_bear_less_than_what_is_completed_are_what_is_sustained():
    result = measured(Balancer(places=800, held_s=2.0, capacity_cps=450.0, queue=100.0), steady_s=4.0, confirm=False)
    published = metrics(result)
    assert published["completed rate"].value == pytest.approx(450, rel=0.05)
    assert published["sustained rate"].value == pytest.approx(400, rel=0.02)
    assert result.verdict.headline.endswith("sustained: local ports, confirmed")


def test_without_places_for_a_long_load_there_is_no_completed_rate_and_a_warning_says_why():
    result = measured(Balancer(places=80, held_s=1.0), steady_s=4.0)
    published = metrics(result)
    assert "completed rate" not in published
    (told,) = (warning.text for warning in result.warnings if warning.kind is Warn.NO_COMPLETED_RATE)
    assert told.startswith("no completed rate: local ports: 80 places are taken ")
    assert published["burst"].value == pytest.approx(40, abs=4), "80 in 0.5 s, where 80 a second are sustained"


def test_without_places_for_connections_that_are_held_there_is_no_completed_rate():
    result = measured(Balancer(places=8000, held_s=20.0), steady_s=4.0, hold_s=1.0)
    assert "completed rate" not in metrics(result), "most of a load of 1.44 s passes before the first one completes"
    assert any(" are taken 1.44 s after 5.00 k/s began" in warning.text for warning in result.warnings)


def test_connections_that_are_held_are_completed_as_fast_as_they_are_opened():
    result = measured(Balancer(places=100_000, held_s=1.0), max_cps=500.0, steady_s=4.0, hold_s=1.0)
    assert metrics(result)["completed rate"].value == pytest.approx(500, rel=0.02)


def test_a_load_too_short_for_two_samples_is_not_said_to_have_ended_early():
    result = measured(Balancer(places=100_000, capacity_cps=1000.0), steady_s=0.1)
    why = "connections.steady_s is shorter than 400 ms, four samples"
    assert Warn.NO_COMPLETED_RATE.of(why) in result.warnings


def test_what_is_completed_of_every_load_is_at_least_the_completed_rate():
    result = measured(Balancer(places=100_000), ceiling_cps=2000.0, steady_s=4.0)
    completed = metrics(result)["completed rate"]
    assert (completed.bound, completed.value) == (Bound.AT_LEAST, pytest.approx(2000, rel=0.05))


def test_what_failed_is_told_where_nearly_all_was_completed():
    result = measured(Balancer(places=100_000, drops=50), max_cps=500.0, failure_ratios=(0.05,), steady_s=4.0)
    note = metrics(result)["completed rate"].note
    assert note.endswith("98.0 % of it was completed; 40 connections of the load failed")


def test_there_is_no_burst_above_a_completed_rate_that_is_at_least():
    rate = Rate(0.0, RateStatus.FOUND, 950.0, 1050.0, 0.5, 0.5, "", estimate_fps=1000.0)
    steady, none = CompletedRate(1000.0, 980.0, 2.0, "", (), failed=40), Sustained(None, None, "", None)
    assert "burst" not in {metric.name for metric in figures_of([rate], steady, none, None)}


def test_the_time_of_traffic_is_that_of_all_loads():
    without, with_steady = (
        measured(Balancer(places=100_000), max_cps=500.0, steady_s=steady_s).traffic_s for steady_s in (0.0, 4.0)
    )
    assert with_steady == pytest.approx(without + 4.0)


def test_a_confirmation_that_would_take_too_long_is_left_out_and_says_why():
    result = measured(Balancer(places=8000, held_s=120.0), max_cps=2000.0)
    sustained = metrics(result)["sustained rate"]
    assert sustained.value == pytest.approx(66.67, rel=0.01)
    assert sustained.note.startswith("predicted, not confirmed: it would take 660 s")


@pytest.mark.parametrize(
    ("changes", "balancer", "words"),
    [
        ({"work": "syn"}, Balancer(), "leaves connections open"),
        ({}, Balancer(held_s=None), "no limit says how long"),
    ],
)
def test_a_sustained_rate_that_nothing_predicts_is_absent_with_the_reason(changes, balancer, words):
    result = measured(balancer, **changes)
    assert "sustained rate" not in metrics(result)
    assert words in result.verdict.headline


def test_the_scarcest_limit_is_the_prediction_and_a_connection_s_life_counts():
    ports = Limit(Resource.LOCAL_PORTS, 100, 4.0, "")
    table = Limit(Resource.TABLE, 90, 2.0, "")
    memory = Limit(Resource.MEMORY, None, 1.0, "")
    prediction = predicted((ports, table, memory), 1.0)
    assert (prediction.limit, prediction.cps) == (ports, 20.0)
    assert plan(prediction).overload_cps == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("held_s", "burst_cps", "within_s", "words"),
    [(0.1, 1e6, 60.0, "too short"), (20.0, 1e6, 60.0, "would take 110 s"), (2.0, 30.0, 60.0, "no burst reaches")],
)
def test_a_prediction_is_not_tried_where_that_would_say_nothing(held_s, burst_cps, within_s, words):
    prediction = predicted((Limit(Resource.LOCAL_PORTS, 100, held_s, ""),), 0.0)
    assert words in why_not(prediction, burst_cps, within_s)


def test_a_ramp_opens_half_as_many_in_its_time():
    measure = _Measured(bench(SCENARIO, ASKS), Opener(Balancer()))
    load = measure._load(1000.0, 3.0, ramp_s=2.0)
    assert load.connections == 2000 and load.opening_s == pytest.approx(3.0)
    assert isinstance(load, Load) and load.one_isn


@pytest.mark.parametrize("text", ["", "nap", "request:0", "request:-1", "request:1:2", "syn,", 3])
def test_work_that_the_engine_does_not_know_is_refused(text):
    with pytest.raises(MismatchError):
        work().read(text)
    assert work().read("request:98,reset:2") == "request:98,reset:2"


def test_where_no_place_is_kept_the_completed_rate_goes_on_for_ever():
    result = measured(Balancer(places=100_000, held_s=0.0, capacity_cps=1000.0, queue=200.0), steady_s=4.0)
    figures = metrics(result)
    assert figures["sustained rate"].value == figures["completed rate"].value
    assert figures["sustained rate"].note.startswith("the completed rate: no place is kept")
    assert result.verdict.headline.endswith("sustained: what ends the completed rate")


def test_the_first_byte_of_several_segments_comes_before_the_last():
    figures = metrics(measured(Balancer(places=100_000, capacity_cps=1000.0), answer_bytes=65_536))
    assert (figures["first byte p50"].value, figures["last byte p50"].value) == (10_000, 70_000)
    short = metrics(measured(Balancer(places=100_000, capacity_cps=1000.0)))
    assert "last byte p50" not in short


def test_goodput_is_that_of_completed_answers():
    result = measured(
        Balancer(places=100_000, capacity_cps=1000.0, queue=200.0), steady_s=4.0, requests=3, answer_bytes=1000
    )
    figures = metrics(result)
    assert figures["goodput"].value == pytest.approx(24_000 * figures["completed rate"].value)
    mixed = measured(Balancer(places=100_000, capacity_cps=1000.0, queue=200.0), steady_s=4.0, work="request:9,reset:1")
    assert "goodput" not in metrics(mixed)
