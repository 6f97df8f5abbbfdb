"""What tables and diagrams show."""

from dataclasses import replace

from sample import sample_run

from pinchpoint.model.trial import Drop, Hop, Ledger, TrialValidity
from pinchpoint.report import views

_, RESULT, TRIALS = sample_run()
SNAT = tuple(trial for trial in TRIALS if trial.scenario == "snat-255")


def test_ledgers_are_of_the_highest_clean_and_the_lowest_losing_judged_trial() -> None:
    clean, losing = views.ledgers(SNAT)
    assert (clean.trial.id, losing.trial.id) == ("snat-255-0007", "snat-255-0008")
    assert (clean.closed, clean.unexplained) == (True, "0")


def test_trials_that_are_not_valid_have_no_ledger_shown() -> None:
    spoilt = [replace(trial, validity=TrialValidity.NOISY_HOST) for trial in SNAT]
    assert views.ledgers(spoilt) == ()


def _hops(*hops: Hop, received: int = 90) -> tuple[views.HopView, ...]:
    trial = replace(SNAT[3], offered=100, received=received, ledger=Ledger(100, received, hops))
    return views.ledgers([trial])[0].hops


def test_a_hop_shows_what_is_not_countable_instead_of_zero() -> None:
    (hop,) = _hops(Hop("datapath", None, 90))
    assert (hop.arrived, hop.left, hop.gaps) == ("not countable", "90", ())


def test_frames_missing_between_two_hops_are_shown_at_the_second() -> None:
    one, two = _hops(Hop("one", 100, 100), Hop("two", 95, 95))
    assert one.gaps == ()
    assert two.gaps == (("5", "fewer arrived than the hop before sent"),)
    assert _hops(Hop("one", 100, 95), Hop("two", 97, 97))[1].gaps[0][0] == "2"


def test_frames_vanishing_inside_a_hop_beyond_its_drops_are_shown() -> None:
    drop = Drop("ring full", 4, "ovs_tx_failure_drops", "engine")
    (hop,) = _hops(Hop("one", 100, 90, (drop,)))
    assert hop.gaps == (("6", "vanished inside, no counter says why"),)
    side = "the engine could not keep up"
    assert hop.drops == (views.DropView("4", "ring full", "ovs_tx_failure_drops", side),)


def test_unexplained_frames_leave_the_ledger_open() -> None:
    trial = replace(SNAT[3], ledger=Ledger(100, 90, ()))
    view = views.ledgers([trial])[0]
    assert (view.closed, view.unexplained) == (False, "10")


def test_cache_hits_are_shares_of_all_lookups_and_uncounted_ones_are_named() -> None:
    view = views.pmd_view(RESULT.scenarios[1].pmds[0])
    shares = {hit.name: hit.text for hit in view.hits}
    assert (shares["EMC"], shares["megaflow"], shares["upcall"]) == ("93.0 %", "7.00 %", "under 0.01 %")
    assert sum(hit.share for hit in view.hits) == 1
    assert view.uncounted == "SMC" and "SMC" not in shares
    assert dict(view.rows)["Passes per packet"] == "2.00"


def test_a_thread_that_counts_nothing_says_so() -> None:
    pmd = RESULT.scenarios[1].pmds[0]
    blind = replace(pmd, busy_share=None, cycles_per_packet=None, recirculated=None)
    rows = dict(views.pmd_view(blind).rows)
    assert rows["Busy"] == rows["Per packet"] == rows["Passes per packet"] == "not countable"


def test_the_witness_names_the_worst_trial_and_what_it_could_not_see() -> None:
    rows = dict(views.witness_rows(SNAT))
    assert rows["Longest engine loop gap"] == "2.90 ms (snat-255-0006)"
    assert rows["DUT thread waiting to run, worst trial"] == "not countable"
    assert rows["DUT threads descheduled"] == "0 times"


def test_the_clock_of_the_engines_cores_is_a_range_where_it_changed():
    assert dict(views.witness_rows(SNAT))["Clock of the engine's cores"] == "2.60 GHz"
    slowed = replace(SNAT[0].witness.workers[0], frequency_hz=1_200_000_000)
    changed = replace(SNAT[0], witness=replace(SNAT[0].witness, workers=(slowed,)))
    assert dict(views.witness_rows([changed, *SNAT[1:]]))["Clock of the engine's cores"] == "1.20 to 2.60 GHz"


def test_a_witness_that_saw_nothing_reports_no_zero() -> None:
    nothing = replace(SNAT[0].witness, workers=(), dut_threads=(), steal_s={})
    blind = [replace(trial, witness=nothing) for trial in SNAT]
    assert {value for _, value in views.witness_rows(blind)} == {"not countable"}


def test_settings_use_the_files_words_and_mark_defaults() -> None:
    scenario = {
        "dut": {"memory_mb": 512, "other_config": {}},
        "streams": [{"tx_port": "left", "share": 1.0}],
        "latency": {"at": [0.5, 0.9]},
        "defaulted": ["dut.memory_mb", "stream[1].share", "latency"],
    }
    found = {one.key: (one.value, one.default) for one in views.settings(scenario)}
    assert found == {
        "dut.memory_mb": ("512", True),
        "dut.other_config": ("none", False),
        "stream[1].from": ("left", False),
        "stream[1].share": ("1", True),
        "latency.at": ("0.5, 0.9", True),
    }
