from dataclasses import replace

from sample import sample_run
from sample_shared import shared_run
from served import sampled

from pinchpoint.report.rate_figures import narrowing
from pinchpoint.report.trial_figures import samples_figure, trials_figure

_, RESULT, TRIALS = shared_run()
OWN = [trial for trial in TRIALS if trial.scenario == RESULT.scenarios[1].scenario]


def _named(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def test_rates_between_samples_add_up_to_the_trial():
    trial = sampled(OWN[0])
    steps = trial.sent_duration_s / (len(trial.samples) - 1)
    offered = _named(samples_figure(trial))["offered"]
    assert abs(sum(offered["y"]) * 1e6 * steps - trial.offered) < 2


def test_what_samples_could_not_count_is_absent_and_not_zero():
    trial = sampled(OWN[0])
    trial = replace(trial, samples=tuple(replace(sample, received=None, lost=None) for sample in trial.samples))
    assert {"received", "lost"}.isdisjoint(_named(samples_figure(trial)))


def test_the_time_for_which_the_engines_cores_stood_still_is_where_it_was():
    stood = _named(samples_figure(sampled(OWN[0])))["engine's cores stood still"]
    assert [place for place, share in enumerate(stood["y"]) if share] == [11]


def test_without_samples_there_is_no_figure():
    assert samples_figure(OWN[0]) is None


def test_trials_show_rates_busy_shares_and_the_distance_of_the_cores_with_its_modes():
    modes = RESULT.scenarios[1].modes
    figure = trials_figure(OWN, modes, marked=OWN[3].id)
    names = set(_named(figure))
    assert {"offered", "received", "lost", "distance of the cores"} <= names
    assert any(name.startswith("busy: ") for name in names)
    labels = [shape["label"]["text"] for shape in figure["layout"]["shapes"] if "label" in shape]
    assert labels == [mode.label for mode in modes]
    assert len(figure["layout"]["shapes"]) == len(modes) + 1


def test_an_axis_of_what_was_not_observed_is_not_drawn():
    bare = [
        replace(trial, threads=(), witness=replace(trial.witness, workers=(), cache_line_before_ns=None))
        for trial in OWN
    ]
    assert set(_named(trials_figure(bare))) == {"offered", "received", "lost"}


def test_cores_of_one_number_on_two_hosts_are_two():
    workers = [(replace(trial.witness.workers[0], core=0, host=""), trial) for trial in OWN]
    both = [
        replace(trial, witness=replace(trial.witness, workers=(worker, replace(worker, host="gen"))))
        for worker, trial in workers
    ]
    assert {"busy: engine, core 0", "busy: engine, core 0 on gen"} <= set(_named(trials_figure(both)))


def test_the_bounds_of_a_search_narrow_and_hold_what_was_seen():
    own = [trial for trial in sample_run()[2] if trial.scenario == "snat-255"]
    bounds = [interval for _, interval in narrowing(own, 0.0)]
    assert bounds[-1].width < bounds[0].width
    assert bounds[-1].low <= 3.12e6 <= bounds[-1].high * 1.01


def test_before_both_outcomes_were_seen_nothing_is_known():
    assert narrowing(OWN[:1], 0.0) == ()
