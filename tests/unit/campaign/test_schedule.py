"""What a free machine measures next, and what becomes of units that fail, are lost or do not fit a budget."""

from dataclasses import replace

import pytest
from campaign_faults import Faults, made_up, simulate

from pinchpoint.campaign.schedule import MOST_FAILURES, MOST_LOST, Limits, Scheduler
from pinchpoint.model.campaign import Bench, Control, Requirement, Unit
from pinchpoint.model.result import Outcome

ANY = Requirement()


def unit(name, expected_s=10.0, priority=0, requirement=ANY, coarse=0):
    return Unit(name, name, 1, requirement, expected_s, priority, coarse)


def scheduler(units, *benches, control=None, **limits):
    schedule = Scheduler(units, Limits(**limits), control)
    for bench in benches:
        schedule.joined(Bench(bench) if isinstance(bench, str) else bench)
    return schedule


def order(schedule, machine="a"):
    names = []
    while (taken := schedule.take(machine, 0.0)) is not None:
        names.append(taken.name)
        schedule.finished(machine, taken.expected_s)
    return names


def test_the_highest_priority_comes_first_then_the_longest():
    units = [unit("short", 5), unit("urgent", 1, priority=2), unit("long", 50)]
    assert order(scheduler(units, "a")) == ["urgent", "long", "short"]


def test_with_a_budget_the_coarse_picture_comes_first_and_what_does_not_fit_is_skipped_with_the_reason():
    schedule = scheduler([unit("fine", 60, coarse=1), unit("coarse", 30)], "a", time_s=70)
    assert schedule.take("a", 0.0).name == "coarse"
    schedule.finished("a", 30.0)
    assert schedule.take("a", 30.0) is None
    assert schedule.unmeasured["fine"] == (Outcome.SKIPPED, "no time: 40 s of the budget left, it needs 60 s")


def test_a_budget_of_money_counts_what_runs_elsewhere():
    benches = [Bench(name, cost_per_hour=36.0) for name in "ab"]  # 0.01 a second
    schedule = scheduler([unit("x", 60), unit("y", 60)], *benches, cost=1.0)
    assert schedule.take("a", 0.0).name == "x"
    assert schedule.take("b", 0.0) is None
    assert schedule.unmeasured["y"][0] is Outcome.SKIPPED


def test_what_one_machine_has_no_money_for_waits_for_a_cheaper_one_that_has():
    dear, cheap = Bench("dear", cost_per_hour=3600.0), Bench("cheap", cost_per_hour=36.0)  # 1 and 0.01 a second
    schedule = scheduler([unit("x", 60), unit("y", 50)], dear, cheap, cost=40.0)
    assert schedule.take("dear", 0.0) is None
    assert schedule.unmeasured == {}
    assert order(schedule, "cheap") == ["x", "y"]


def test_what_no_machine_that_may_measure_it_has_money_for_is_skipped():
    dear, cheap = Bench("dear", cost_per_hour=3600.0), Bench("cheap", cost_per_hour=36.0)
    there = Requirement(not_on=("cheap",))
    schedule = scheduler([unit("x", 60, requirement=there), unit("y", 50)], dear, cheap, cost=40.0)
    assert schedule.take("dear", 0.0) is None
    assert list(schedule.unmeasured) == ["x"]
    assert schedule.take("cheap", 0.0).name == "y"


def test_when_the_cheaper_machine_leaves_what_it_could_have_paid_is_skipped():
    dear, cheap = Bench("dear", cost_per_hour=3600.0), Bench("cheap", cost_per_hour=36.0)
    schedule = scheduler([unit("x", 60)], dear, cheap, cost=40.0)
    assert schedule.take("dear", 0.0) is None
    schedule.left("cheap")
    assert schedule.take("dear", 0.0) is None
    assert "no money: 40 of the budget left, it costs 60 on dear" in schedule.unmeasured["x"][1]
    assert schedule.is_over()


def test_a_machine_that_costs_nothing_measures_though_the_budget_is_overdrawn():
    schedule = Scheduler([unit("x", 60)], Limits(cost=1.0), cost=2.0)
    schedule.joined(Bench("a"))
    assert schedule.take("a", 0.0).name == "x"


@pytest.mark.parametrize("how", ["finished", "failed", "impossible", "interrupted", "lost"])
def test_whatever_becomes_of_an_attempt_its_machine_time_costs(how):
    schedule = scheduler([unit("x"), unit("y")], Bench("a", cost_per_hour=36.0))
    schedule.take("a", 0.0)
    ends = {
        "finished": lambda: schedule.finished("a", 100.0),
        "failed": lambda: schedule.failed("a", 100.0, "broken"),
        "impossible": lambda: schedule.impossible("a", 100.0, "no such program"),
        "interrupted": lambda: schedule.interrupted("a", 100.0),
        "lost": lambda: schedule.left("a", 100.0),
    }
    ends[how]()
    assert schedule.cost == pytest.approx(1.0)


def test_a_forecast_counts_what_lost_attempts_cost():
    units, benches = made_up(200, 4)
    paid = [replace(bench, cost_per_hour=3600.0) for bench in benches]
    campaign = simulate(units, paid, Limits(), faults=Faults(between_s=1800))
    assert campaign.lost > 0
    assert campaign.cost > sum(unit.expected_s for unit in units) + campaign.lost


def test_a_machine_that_few_units_need_is_kept_for_them():
    needs = Requirement(labels=("nic",))
    units = [unit("anywhere", 50), unit("there", 40, requirement=needs), unit("there too", 40, requirement=needs)]
    schedule = scheduler(units, Bench("plain"), Bench("nic", labels=("nic",)))
    assert schedule.take("nic", 0.0).name == "there"
    assert schedule.take("plain", 0.0).name == "anywhere"


def test_cpus_and_exclusions_decide_where_a_unit_may_go():
    many, not_here = Requirement(cpus=8), Requirement(not_on=("small",))
    schedule = scheduler([unit("many", requirement=many), unit("else", requirement=not_here)], Bench("small", cpus=4))
    assert schedule.take("small", 0.0) is None
    schedule.give_up()
    assert {outcome for outcome, _ in schedule.unmeasured.values()} == {Outcome.IMPOSSIBLE}
    assert "has 8 CPUs" in schedule.unmeasured["many"][1]


def test_what_a_lost_machine_measured_waits_again_but_not_for_ever():
    schedule = scheduler([unit("x")], "a")
    for _ in range(MOST_LOST):
        assert schedule.take("a", 0.0).name == "x"
        assert schedule.left("a").name == "x"
        schedule.joined(Bench("a"))
    assert schedule.take("a", 0.0) is None
    assert schedule.unmeasured["x"][0] is Outcome.FAILED


def test_a_failed_unit_is_tried_again_elsewhere_and_then_fails():
    schedule = scheduler([unit("x")], "a", "b", retries=1)
    schedule.take("a", 0.0)
    assert not schedule.failed("a", 1.0, "broken")
    assert schedule.take("a", 0.0) is None
    assert schedule.take("b", 0.0).name == "x"
    schedule.failed("b", 1.0, "broken again")
    assert schedule.unmeasured == {"x": (Outcome.FAILED, "broken again")}
    assert schedule.is_over()


def test_a_machine_on_which_one_unit_after_the_other_fails_is_the_cause():
    schedule = scheduler([unit(f"u{n}") for n in range(MOST_FAILURES)], "a", "b")
    blamed = []
    for _ in range(MOST_FAILURES):
        schedule.take("a", 0.0)
        blamed.append(schedule.failed("a", 1.0, "broken"))
    assert blamed == [False] * (MOST_FAILURES - 1) + [True]


def test_what_one_machine_lacks_is_tried_on_the_next():
    schedule = scheduler([unit("x")], "a", "b")
    schedule.take("a", 0.0)
    schedule.impossible("a", 1.0, "no such program")
    assert schedule.take("a", 0.0) is None
    assert schedule.take("b", 0.0).name == "x"
    schedule.impossible("b", 1.0, "none here either")
    schedule.give_up()
    assert schedule.unmeasured["x"] == (Outcome.IMPOSSIBLE, "no such program")


def test_the_control_comes_first_on_each_machine_and_again_after_its_time_while_something_waits():
    control = Control(unit("control", 1), {}, 100.0, 0.1)
    schedule = scheduler([unit(f"u{n}") for n in range(4)], "a", control=control)
    taken = []
    for now_s in (0, 1, 50, 101, 102, 103):
        taken.append(schedule.take("a", now_s).name)
        schedule.finished("a", 1.0)
    assert taken == ["control", "u0", "u1", "control", "u2", "u3"]
    assert schedule.take("a", 300.0) is None


def test_the_control_is_measured_only_where_the_hosts_are_that_it_names():
    site, spanning = Bench("site", hosts={"dut": "d", "gen": "g"}), Requirement(hosts=("dut", "gen"))
    control = Control(unit("control", 1, requirement=spanning), {}, 100.0, 0.1)
    schedule = scheduler([unit("x"), unit("y", requirement=spanning)], "a", site, control=control)
    assert (schedule.take("a", 0.0).name, schedule.take("site", 0.0).name) == ("x", "control")


def test_what_no_site_has_the_hosts_for_is_impossible_with_what_to_add():
    schedule = scheduler([unit("x", requirement=Requirement(hosts=("dut", "gen")))], "a")
    assert schedule.take("a", 0.0) is None
    schedule.give_up()
    outcome, reason = schedule.unmeasured["x"]
    assert outcome is Outcome.IMPOSSIBLE
    assert '[[machine]] hosts = {dut = "ADDRESS", gen = "ADDRESS"}' in reason


def test_time_left_follows_what_units_really_took():
    schedule = scheduler([unit("x"), unit("y"), unit("z")], "a")
    schedule.take("a", 0.0)
    schedule.finished("a", 20.0)
    assert schedule.left_s() == pytest.approx(40.0)


@pytest.mark.parametrize("seed", range(5))
def test_on_virtual_time_every_unit_is_measured_once_near_the_bound_though_machines_fail(seed):
    units, benches = made_up(4000, 40, seed)
    campaign = simulate(units, benches, Limits(), faults=Faults(between_s=6 * 3600, spread=0.2, seed=seed))
    assert campaign.lost > 0
    assert set(campaign.finished) == {unit.name for unit in units}
    assert set(campaign.finished.values()) == {1}
    assert campaign.bound_s <= campaign.makespan_s <= 1.1 * campaign.bound_s
    assert campaign.own_per_unit_s < 0.005


def test_the_bound_is_no_longer_than_what_cannot_be_beaten():
    campaign = simulate([unit("x", 30), unit("y", 10), unit("z", 10)], [Bench("a"), Bench("b")], Limits())
    assert (campaign.bound_s, campaign.makespan_s) == (30, 30)
    assert simulate([unit("x", 20), unit("y", 20), unit("z", 20)], [Bench("a"), Bench("b")], Limits()).bound_s == 30
