"""What is shown of threads, of the host and of settings."""

from dataclasses import replace

from sample import sample_run

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.report import trial_views

_, RESULT, TRIALS = sample_run()
UNKNOWN = {"dut": {"kind": "of another lab"}}
SNAT = tuple(trial for trial in TRIALS if trial.scenario == "snat-255")


def test_cache_hits_are_shares_of_all_lookups_and_uncounted_ones_are_named() -> None:
    view = trial_views.thread_view(RESULT.scenarios[1].threads[0], DEVICE.figures)
    shares = {hit.figure.title: hit.text for hit in view.hits}
    assert (shares["EMC"], shares["megaflow"], shares["upcall"]) == ("93.0 %", "7.00 %", "under 0.01 %")
    assert sum(hit.share for hit in view.hits) == 1
    assert view.uncounted == "SMC" and "SMC" not in shares
    assert dict(view.rows)["Passes per packet"] == "2.00"


def test_a_thread_that_counts_nothing_says_so() -> None:
    load = RESULT.scenarios[1].threads[0]
    blind = replace(load, busy_share=None, cycles_per_packet=None, recirculated=None)
    rows = dict(trial_views.thread_view(blind, {}).rows)
    assert rows["Busy"] == rows["Per packet"] == rows["Passes per packet"] == "not countable"


def test_figures_of_a_device_that_is_not_installed_are_called_by_their_keys() -> None:
    (view,) = trial_views.thread_views([replace(RESULT.scenarios[1].threads[0], detail={"far_hits": 12345})], UNKNOWN)
    assert dict(view.rows)["far hits"] == "12,345"
    assert (view.hits, view.uncounted) == ((), "")


def test_a_run_that_names_no_device_is_of_the_default_kind() -> None:
    (view,) = trial_views.thread_views(RESULT.scenarios[1].threads[:1], {})
    assert [hit.figure.title for hit in view.hits] == ["simple match", "EMC", "megaflow", "upcall", "lost upcall"]


def test_the_witness_names_the_worst_trial_and_what_it_could_not_see() -> None:
    rows = dict(trial_views.witness_rows(SNAT))
    assert rows["Longest engine loop gap"] == "2.90 ms (snat-255-0006)"
    assert rows["DUT thread waiting to run, worst trial"] == "not countable"
    assert rows["DUT threads descheduled"] == "0 times"


def test_the_clock_of_the_engines_cores_is_a_range_where_it_changed():
    assert dict(trial_views.witness_rows(SNAT))["Clock of the engine's cores"] == "2.60 GHz"
    slowed = replace(SNAT[0].witness.workers[0], frequency_hz=1_200_000_000)
    changed = replace(SNAT[0], witness=replace(SNAT[0].witness, workers=(slowed,)))
    assert dict(trial_views.witness_rows([changed, *SNAT[1:]]))["Clock of the engine's cores"] == "1.20 to 2.60 GHz"


def test_a_witness_that_saw_nothing_reports_no_zero() -> None:
    nothing = replace(SNAT[0].witness, workers=(), dut_threads=(), steal_s={})
    blind = [replace(trial, witness=nothing) for trial in SNAT]
    assert {value for _, value in trial_views.witness_rows(blind)} == {"not countable"}


def test_settings_use_the_files_words_and_mark_defaults() -> None:
    scenario = {
        "dut": {"memory_mb": 512, "other_config": {}},
        "streams": [{"tx_port": "left", "share": 1.0}],
        "latency": {"at": [0.5, 0.9]},
        "defaulted": ["dut.memory_mb", "stream[1].share", "latency"],
    }
    settings = {key: (value, is_default) for key, value, is_default in trial_views.settings(scenario)}
    assert settings == {
        "dut.memory_mb": ("512", True),
        "dut.other_config": ("none", False),
        "stream[1].from": ("left", False),
        "stream[1].share": ("1", True),
        "latency.at": ("0.5, 0.9", True),
    }
