"""A rate with its band, and the trials over time: what is drawn is what was found."""

from dataclasses import replace

from sample import rate, sample_run
from sample_shared import every_status, shared_run

from pinchpoint.model.result import RateStatus
from pinchpoint.model.trial import TrialValidity
from pinchpoint.report import words
from pinchpoint.report.plot import Figure
from pinchpoint.report.rate_figures import rates_figure, scenario_spreads, search_figure, search_words, spread_of

INFO, RESULT, TRIALS = shared_run()
SNAT = RESULT.scenarios[1]
OWN = [trial for trial in TRIALS if trial.scenario == SNAT.scenario]


def _named(figure: Figure | None) -> dict[str, Figure]:
    assert figure is not None
    return {trace["name"]: trace for trace in figure["data"]}


def test_bars_reach_from_end_to_end_and_ticks_stand_at_the_quoted_number() -> None:
    ndr = SNAT.rates[0]
    assert ndr.band and ndr.lower_fps and ndr.upper_fps and ndr.quoted_fps
    traces = _named(rates_figure([spread_of("snat", ndr)]))
    band, interval = traces["10 to 90 % of the trials lose"], traces["interval of the median"]
    assert (band["base"], band["x"]) == ([ndr.band.low_fps / 1e6], [(ndr.band.high_fps - ndr.band.low_fps) / 1e6])
    assert (interval["base"], interval["x"]) == ([ndr.lower_fps / 1e6], [(ndr.upper_fps - ndr.lower_fps) / 1e6])
    assert traces["median"]["x"] == [ndr.quoted_fps / 1e6]


def test_a_rate_with_an_open_end_is_no_median() -> None:
    traces = _named(
        rates_figure([spread_of(scenario.scenario, scenario.rates[0]) for scenario in every_status().scenarios])
    )
    assert traces["median"]["y"] == ["2-snat-255"]
    assert traces["at least"]["y"] == ["at-least"] and traces["below minimum"]["y"] == ["below"]
    assert not any("refused" in trace["y"] or "loses-always" in trace["y"] for trace in traces.values())


def test_modes_are_rows_with_their_share_of_the_time() -> None:
    labels = [spread.label for spread in scenario_spreads(SNAT)]
    assert labels == ["NDR", "PDR 0.5 %", "MRR", "cores 25 ns apart, 68 %", "cores 151 ns apart, 32 %"]


def test_nothing_is_drawn_where_no_rate_has_ends() -> None:
    assert rates_figure([spread_of("x", rate(0.0, None, None, RateStatus.REFUSED))]) is None
    assert rates_figure([]) is None


def test_the_figure_of_a_search_is_told_with_the_definition_of_its_rate() -> None:
    assert "the straight one is the load at which half of the trials lose more than allowed" in search_words(SNAT)


def test_every_trial_of_a_search_is_one_marker() -> None:
    traces = _named(search_figure(SNAT, OWN))
    marked = {name: len(trace["x"]) for name, trace in traces.items() if trace["mode"] == "markers"}
    wrong = sum(trial.validity is not TrialValidity.VALID for trial in OWN)
    assert sum(marked.values()) == len(OWN) and marked["discarded"] == wrong > 0
    assert traces["no frame lost"]["x"] == sorted(traces["no frame lost"]["x"])


def test_a_load_far_above_the_rate_stays_visible_at_the_edge() -> None:
    figure = search_figure(SNAT, OWN)
    (over,) = _named(figure)["load above the axis"]["y"]
    assert figure is not None and over == figure["layout"]["yaxis"]["range"][1]


def test_the_moving_line_is_what_the_search_tracked() -> None:
    line = _named(search_figure(SNAT, OWN))["threshold, as estimated"]
    assert line["y"] == [moment.median_fps / 1e6 for moment in SNAT.track]


def test_a_method_without_a_track_shows_what_came_back() -> None:
    line = _named(search_figure(replace(SNAT, track=()), OWN))["came back, median of 7 trials"]
    assert len(line["x"]) == sum(trial.validity is TrialValidity.VALID for trial in OWN)


def test_the_time_in_another_mode_of_the_cores_is_marked() -> None:
    figure, alone = search_figure(SNAT, OWN), search_figure(replace(SNAT, modes=()), OWN)
    assert figure is not None and alone is not None
    upright = [shape for shape in figure["layout"]["shapes"] if shape["xref"] == "x"]
    assert upright and not [shape for shape in alone["layout"]["shapes"] if shape["xref"] == "x"]
    for shape in upright:
        assert 0 <= shape["x0"] <= shape["x1"]


def test_trials_of_an_older_run_are_drawn_without_band_and_modes() -> None:
    _, result, trials = sample_run()
    own = [trial for trial in trials if trial.scenario == "snat-255"]
    assert search_figure(result.scenarios[1], own) is not None
    assert search_figure(None, own) is not None
    assert search_figure(None, own[:3]) is None


def test_discarded_trials_are_counted_by_cause_the_most_frequent_first() -> None:
    ((why, count, share, reason),) = words.discarded(OWN)
    assert why == "the engine's core stood still" and share.endswith(" %")
    assert count == sum(trial.validity is not TrialValidity.VALID for trial in OWN) and "31.0 ms" in reason
    assert words.discarded([trial for trial in OWN if trial.validity is TrialValidity.VALID]) == ()
    aborted = replace(OWN[0], validity=TrialValidity.ABORTED, cause=None, reason="the device died")
    assert words.discarded([*OWN, aborted])[-1][0] == "aborted"
