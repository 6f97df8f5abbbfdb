"""The view of a run, from which all three renderings are made."""

from dataclasses import replace

from sample import sample_run
from sample_measures import measures_run
from sample_study import study_run

from pinchpoint.model.warning import Warn
from pinchpoint.report import words
from pinchpoint.report.view import run_view

INFO, RESULT, TRIALS = sample_run()


def test_scenarios_without_result_are_named_and_come_last() -> None:
    view = run_view(replace(RESULT, scenarios=RESULT.scenarios[:1]), INFO, TRIALS)
    assert view.unmeasured == ("snat-255", "snat-65536")
    assert [scenario.anchor for scenario in view.scenarios] == ["scenario-1", "scenario-2", "scenario-3"]
    assert view.scenarios[1].trials and view.scenarios[1].limit == "not measured"


def test_a_result_alone_is_enough_for_a_view() -> None:
    view = run_view(RESULT)
    assert [scenario.name for scenario in view.plain] == ["forward", "snat-255", "snat-65536"]
    assert view.scenarios[1].paths == () and words.quoted(view.scenarios[1].rates[0]) == "3.10 Mpps"


def test_scenarios_of_a_curve_are_folded_and_share_their_settings() -> None:
    info, result, trials = study_run()
    view = run_view(result, info, trials)
    first, second = view.scenarios[:2]
    assert first.swept and not first.like and first.settings
    assert second.like == first.name and second.settings == () == second.plan
    assert {scenario.name for scenario in view.scenarios} - {scenario.name for scenario in view.plain} >= {
        first.name,
        second.name,
    }


def test_a_scenario_of_a_curve_without_points_is_shown_as_any_other() -> None:
    info, result, _ = study_run()
    empty = replace(result, curves=tuple(replace(curve, points=()) for curve in result.curves))
    view = run_view(empty, info)
    assert view.curves == () and len(view.plain) == len(result.scenarios)


def test_what_to_mind_are_the_doubts_and_then_the_warnings() -> None:
    scenario = replace(RESULT.scenarios[1], warnings=(Warn.OTHER.of("a neighbour"),), cache_line=None)
    (view,) = run_view(replace(RESULT, scenarios=(scenario,))).scenarios
    assert view.cautions[-2:] == ("core distance not measured", "a neighbour")


def test_each_warning_counts_against_the_reasons_to_trust_a_number() -> None:
    snat = RESULT.scenarios[1]
    view = run_view(replace(RESULT, scenarios=(snat,)), INFO, TRIALS).scenarios[0]
    held, reasons = view.trust
    assert held == reasons == len(view.checks)
    snat = replace(snat, warnings=(Warn.OTHER.of("a neighbour"),))
    warned = run_view(replace(RESULT, scenarios=(snat,)), INFO, TRIALS).scenarios[0]
    assert warned.trust == (held, reasons + 1)


def test_the_width_that_a_scenario_asked_for_is_what_its_interval_is_held_against() -> None:
    near, wide = run_view(RESULT, INFO, TRIALS).scenarios[1:3]
    assert near.asked_width == 0.005 and near.too_wide == ""
    assert wide.too_wide == "NDR interval 0.51 % wide, 0.5 % was asked for" == wide.cautions[0]
    assert run_view(RESULT).scenarios[2].too_wide == ""


def test_measurements_belong_to_their_scenario() -> None:
    info, result, made = measures_run()
    view = run_view(result, info, (), made)
    assert sum(len(scenario.measurements) for scenario in view.scenarios) == len(made)
