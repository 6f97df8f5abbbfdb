"""Results in words: how a number is to be read is said with it."""

from dataclasses import replace

import pytest
from points import number
from sample import rate, sample_run

from pinchpoint.model import units
from pinchpoint.model.measurement import Bound
from pinchpoint.model.result import Band, Ceiling, Limit, LossFloor, ModeRates, Outcome, RateStatus
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.model.trial import TrialValidity
from pinchpoint.report import words

INFO, RESULT, TRIALS = sample_run()
FORWARD, SNAT_255, SNAT_65536 = RESULT.scenarios


@pytest.mark.parametrize(
    ("status", "lower", "upper", "quoted"),
    [
        (RateStatus.FOUND, 3.1e6, 3.115e6, "3.10 Mpps"),
        (RateStatus.AT_LEAST, 7.1e6, None, "at least 7.10 Mpps"),
        (RateStatus.BELOW_MINIMUM, None, 1e4, "below 10.0 kpps"),
        (RateStatus.REFUSED, None, None, "no number"),
        (RateStatus.REFUSED, 3.1e6, 3.2e6, "no number"),
    ],
)
def test_a_rate_is_quoted_with_its_status(
    status: RateStatus, lower: float | None, upper: float | None, quoted: str
) -> None:
    assert words.quoted(rate(0.0, lower, upper, status)) == quoted


def test_an_interval_has_enough_digits_to_tell_its_ends_apart() -> None:
    sharp = words.interval(rate(0.0, 3.1e6, 3.1005e6, RateStatus.FOUND))
    assert sharp == "bounds 3.1000 to 3.1005 Mpps (0.02 % wide)"
    assert units.quantity_range(990e3, 1.01e6, "fps") == "0.990 to 1.010 Mpps"
    assert units.quantity_range(3.0, 3.0, "fps").endswith(" pps")


def test_an_estimate_is_quoted_with_its_interval_and_confidence() -> None:
    changed = replace(
        rate(0.0, 3.1e6, 3.1155e6, RateStatus.FOUND),
        estimate_fps=3.11e6,
        confidence=0.95,
        method=SearchMethod.THRESHOLD,
    )
    assert words.quoted(changed) == "3.11 Mpps"
    assert words.interval(changed) == "95 % interval 3.100 to 3.115 Mpps (0.50 % wide)"
    ended = replace(changed, reason="60 s of traffic ended it")
    assert words.interval(ended).endswith("wide); 60 s of traffic ended it")


def test_rates_of_two_definitions_are_told_apart() -> None:
    first = rate(0.0, 3.1e6, 3.2e6, RateStatus.FOUND)
    same, other = replace(first, lower_fps=3e6), replace(first, method=SearchMethod.THRESHOLD)
    assert len(words.definitions([first, same])) == 1
    assert len(words.definitions([first, other])) == 2
    assert words.definitions([first])[0].startswith("NDR: at most half of the 1 s trials")


def test_modes_of_the_cores_explain_the_band_with_their_rates_and_shares() -> None:
    near = ModeRates("cores 14 ns apart", 14.0, 12, 2.4, (), share=0.6, median_fps=3.4e6)
    far = ModeRates("cores 155 ns apart", 155.0, 8, 1.6, (), share=0.4, median_fps=2.1e6)
    assert words.mode_lines(replace(SNAT_255, modes=(near, far))) == (
        "cores 14 ns apart: NDR 3.40 Mpps (60 % of the time)",
        "cores 155 ns apart: NDR 2.10 Mpps (40 % of the time)",
    )
    assert words.mode_lines(replace(SNAT_255, modes=(near,))) == ()


def test_modes_explain_the_band_only_where_each_is_met_often_and_has_a_rate_of_its_own() -> None:
    near = ModeRates("near", 14.0, 60, 12.0, (), share=0.6, median_fps=3.4e6)
    far = ModeRates("far", 155.0, 40, 8.0, (), share=0.4, median_fps=2.1e6)
    heading, told = words.modes_told((near, far))
    assert heading.startswith("What explains the band") and told.endswith("The rate follows the mode.")
    rare = words.modes_told((replace(near, share=0.99), replace(far, share=0.01)))
    assert rare[0] == "Modes of the cores" and "Nearly all trials were in one mode" in rare[1]
    alike = words.modes_told((near, replace(far, median_fps=3.38e6)))
    assert "nearly the same in each" in alike[1] and "follows" not in alike[1]


def test_modes_stored_before_bands_have_the_rates_that_they_had() -> None:
    near = ModeRates("cores 14 ns apart", 14.0, 19, 19.0, (rate(0.0, 3.1e6, 3.12e6, RateStatus.FOUND),))
    unmet = rate(0.0, None, None, RateStatus.REFUSED, "not met long enough")
    far = ModeRates("cores 155 ns apart", 155.0, 1, 1.0, (unmet,))
    assert words.mode_lines(replace(SNAT_255, modes=(near, far))) == (
        "cores 14 ns apart: NDR 3.10 Mpps (95 % of the time)",
        "cores 155 ns apart: NDR no number (5 % of the time)",
    )


def test_frames_lost_at_any_load_are_quoted_as_a_ratio_with_its_interval() -> None:
    floor = LossFloor(0.00123, 0.00101, 0.00145, 10e3, 12)
    always = replace(rate(0.0, None, None, RateStatus.LOSES_ALWAYS), floor=floor)
    assert words.quoted(always) == "loses 0.12 %"
    assert words.interval(always) == ("of its frames at any load (0.101 to 0.145 % in 12 trials from 10.0 kpps on)")


def test_a_band_is_told_as_the_shoulder_of_the_loss_curve() -> None:
    spread = replace(rate(0.0, 3e6, 3.2e6, RateStatus.FOUND), band=Band(2.1e6, 3.6e6))
    assert words.band(spread) == "10 to 90 % of the trials lose from 2.10 to 3.60 Mpps"
    assert words.band(replace(spread, band=None)) == ""


def test_cores_at_two_distances_are_no_doubt_where_the_rate_has_a_band() -> None:
    spread = tuple(replace(rate, band=Band(1e6, 2e6)) for rate in SNAT_65536.rates)
    assert any("cores" in doubt for doubt in _doubts(cache_line=SNAT_65536.cache_line))
    assert not any("cores" in doubt for doubt in _doubts(cache_line=SNAT_65536.cache_line, rates=spread))


def test_a_ceiling_measured_without_the_device_is_told_with_its_time() -> None:
    ceiling = Ceiling(9.9e6, "2026-11-22T02:13:04+00:00", "dpdk", 14.0)
    texts = [check.text for check in words.checks(replace(SNAT_255, ceiling=ceiling), ())]
    assert any("without the device 9.90 Mpps, measured 2026-11-22T02:13" in text for text in texts)


def test_a_refused_rate_says_why() -> None:
    refused = rate(0.0, None, None, RateStatus.REFUSED, "no quiet trial")
    assert words.interval(refused) == "refused (no quiet trial)"


def test_what_cannot_be_counted_is_never_zero() -> None:
    assert words.count(None) == "not countable"
    assert words.count(0) == "0"


def test_a_trustworthy_result_passes_every_check() -> None:
    own = [trial for trial in TRIALS if trial.scenario == "snat-255"]
    assert all(check.good for check in words.checks(SNAT_255, own))
    assert "7.10 Mpps, 2.29 times the NDR" in " ".join(check.text for check in words.checks(SNAT_255, own))


def _doubts(**changes: object) -> list[str]:
    changed = replace(SNAT_255, **changes)  # type: ignore[arg-type]
    return [check.text for check in words.checks(changed, ()) if not check.good]


def test_each_weakness_is_a_reason_to_look_twice() -> None:
    assert _doubts(generator_ceiling_fps=3.2e6) == ["generator reaches 3.20 Mpps, 1.03 times the NDR"]
    assert _doubts(generator_ceiling_fps=None) == ["generator ceiling not measured"]
    assert _doubts(invalid_trials={"noisy_host": 9}) == ["8 of 17 trials valid"]
    assert _doubts(cache_line=None) == ["core distance not measured"]
    assert _doubts(rates=()) == ["no rate was searched"]
    assert _doubts(cache_line=SNAT_65536.cache_line) == [
        "cores 31.9 ns apart (31.0 ns to 158 ns), far in 5.00 % of probes"
    ]


def test_an_interval_that_is_wider_than_was_asked_for_is_no_reason_to_trust_a_rate() -> None:
    wide = replace(SNAT_255, rates=(rate(0.0, 2.05e6, 3e6, RateStatus.FOUND),))
    assert words.checks(wide, (), 0.01)[0] == words.Check(False, "NDR interval 31.7 % wide, 1 % was asked for")
    assert words.checks(wide, (), 0.32)[0] == words.Check(True, "NDR interval 31.7 % wide")
    assert words.checks(wide, ())[0].good  # what was asked for is not known


def test_an_interval_that_is_wider_than_the_band_says_so() -> None:
    found = rate(0.0, 7.55e6, 11.07e6, RateStatus.FOUND)
    assert words.too_wide(replace(found, band=Band(9.23e6, 10.36e6)), None) == "wider than the 10 to 90 % band"
    assert words.too_wide(replace(found, band=Band(9.23e6, 10.36e6)), 0.01) == (
        "1 % was asked for, wider than the 10 to 90 % band"
    )
    assert words.too_wide(replace(found, band=Band(7.55e6, 11.07e6)), None) == ""
    assert words.too_wide(rate(0.0, 7.1e6, None, RateStatus.AT_LEAST), 0.01) == ""


def test_a_number_without_upper_bound_is_a_reason_to_look_twice() -> None:
    doubts = [check.text for check in words.checks(FORWARD, ()) if not check.good]
    assert doubts[0] == "NDR: no upper bound (the engine offered no more than 7.10 Mpps)"


def test_unexplained_frames_in_valid_trials_are_a_reason_to_look_twice() -> None:
    trial = TRIALS[0]
    leaky = replace(trial, ledger=replace(trial.ledger, received=trial.received - 12))
    texts = [check.text for check in words.checks(FORWARD, [leaky]) if not check.good]
    assert "ledger: 0.00017 % of the offered frames unexplained" in texts


def test_the_method_states_what_the_rates_definition_needs() -> None:
    expected = "1 s trials, 21 s of them at each bound; 44 trials, 43.3 s of traffic in 90.3 s"
    assert words.method(RESULT) == expected


def test_rates_of_all_scenarios_are_listed_once_ndr_first() -> None:
    odd = replace(FORWARD, rates=(rate(0.01, 1e6, 1.1e6, RateStatus.FOUND),))
    assert words.rate_names((odd, SNAT_255)) == ("NDR", "PDR 0.5 %", "PDR 1 %")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (0.31, "310 ms"), (43.3, "43.3 s"), (725, "12 min 5 s"), (3720, "1 h 2 min")],
)
def test_durations_read_well(value: float, text: str) -> None:
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0, "0"), (1.0, "100 %"), (0.5633, "56 %"), (0.005, "0.5 %"), (1.23e-7, "0.000012 %")],
)
def test_loss_is_written_without_exponents(ratio: float, text: str) -> None:
    assert units.loss(ratio) == text


def test_every_limit_and_validity_has_its_words() -> None:
    assert all(limit.words for limit in Limit)
    assert all(validity.words for validity in TrialValidity)
    assert all(outcome.words for outcome in Outcome)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.1e6, "fps", "3.10 Mpps"),
        (4.21e9, "bit/s", "4.21 Gbit/s"),
        (17_800.0, "1/s", "17.8 k/s"),
        (552.0, "s", "552 s"),
        (1.1e-3, "s", "1.10 ms"),
        (54_000.0, "ns", "54.0 us"),
        (839.4, "cycles", "839 cycles"),
        (0.9996, "share", "100 %"),
        (262_144.0, "count", "262,144"),
        (2.5, "count", "2.50"),
        (1.5e6, "bytes", "1.50 MB"),
        (0.0, "fps", "0"),
        (7.0, "frames per joule", "7 frames per joule"),
        (None, "s", "-"),
    ],
)
def test_every_unit_has_three_digits_and_its_word(value: float | None, unit: str, text: str) -> None:
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("low", "high", "unit", "text"),
    [
        (3.1e6, 3.115e6, "fps", "3.100 to 3.115 Mpps"),
        (2.38e9, 2.44e9, "bit/s", "2.38 to 2.44 Gbit/s"),
        (53_100.0, 55_200.0, "ns", "53.1 to 55.2 us"),
        (2128.0, 2172.0, "cycles", "2,128 to 2,172 cycles"),
        (0.93, 0.95, "share", "93.0 to 95.0 %"),
        (2.0, 5.0, "count", "2.00 to 5.00"),
        (0.0, 0.0, "s", "0.00 to 0.00 ns"),
    ],
)
def test_two_ends_share_one_unit(low: float, high: float, unit: str, text: str) -> None:
    assert units.quantity_range(low, high, unit) == text


def test_values_of_one_unit_keep_three_digits_and_very_small_ones_their_own_unit() -> None:
    step = units.common([4.53e6, 685e3], "fps")
    assert step == (1e6, "Mpps")
    assert units.fps(685e3, step) == "0.685 Mpps" and units.fps(43_210.0, step) == "0.0432 Mpps"
    assert units.quantity_range(661e3, 713e3, "fps", step) == "0.661 to 0.713 Mpps"
    assert units.beside(685e3, 661e3, 713e3, unit="fps", step=step) == "0.661 .. 0.713"
    assert units.common([7.1e6, 10e3], "fps") is units.common([], "fps") is None


def test_an_estimate_is_quoted_with_its_bound() -> None:
    assert number(7.1e6, bound=Bound.AT_LEAST).quoted == "at least 7.10 Mpps"
    assert number(1e4, bound=Bound.BELOW).quoted == "below 10.0 kpps"
    assert words.spread(number(7.1e6, bound=Bound.AT_LEAST)) == words.spread(number(7.1e6, 0.0)) == ""
    assert words.spread(number(3e6)) == "2.94 to 3.06 Mpps"


def test_what_was_not_measured_says_how_it_ended() -> None:
    lost = replace(FORWARD, outcome=Outcome.SKIPPED, reason="between 512 and 4,096, which agree", verdict=None)
    assert words.pinched_by(lost) == "skipped"
    assert words.verdict_sentence(lost) == "Skipped: between 512 and 4,096, which agree"
    assert words.checks(lost, ()) == ()


def test_of_a_resumed_run_the_time_is_that_since_it_was_resumed() -> None:
    resumed = replace(RESULT, scenarios=tuple(replace(scenario, wall_s=5.0) for scenario in RESULT.scenarios))
    assert words.method(resumed).endswith("43.3 s of traffic in all, in 15.0 s since it was resumed")
