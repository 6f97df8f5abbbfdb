"""Windows of a soak: whose loss it was, and how often the DUT loses frames."""

import math
from dataclasses import replace
from random import Random

import pytest

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.host.interface import TICKS_PER_S
from pinchpoint.measure.soak import metrics as soak
from pinchpoint.measure.soak.metrics import Stop, Window
from pinchpoint.model.trial import Sample
from pinchpoint.model.warning import Warn

loads = DEVICE.loads

RING = 1000
QUIET = Window(0.0, 10.0, 1e6, 10_000_000, 0, 0.0, 0.0, 0.0, 0.0, 0.5)


def metrics(windows):
    return {metric.name: metric for metric in soak.metrics(windows, RING)}


def test_a_window_is_what_lies_between_two_samples():
    ends = (Sample(10.0, 1000, 5, 0.2, 0.1), Sample(20.0, 3000, 25, 0.5, 0.3))
    stolen = {"host/cpu/1/steal_ticks": 0.03 * TICKS_PER_S}
    seen = {"host/thread/pmd-c01/id:9/run_delay_ns": 2e6, "host/thread/pmd-c01/id:9/cpu": 1.0, **stolen}
    window = soak.window(40.0, 200.0, ends, seen, loads(seen, 10.0))
    assert (window.at_s, window.span_s, window.offered, window.lost) == (40.0, 10.0, 2000, 20)
    assert (window.gaps_s, window.gap_max_s, window.steal_s) == (pytest.approx(0.3), 0.3, pytest.approx(0.03))
    assert window.delay_s == pytest.approx(2e-3)


def test_frames_that_are_out_are_lost_once_there_is_no_room_for_as_many():
    most = soak.under_way((1024, 1024), 1e6)
    assert most == 2 * 2 * 1024 + soak.KERNEL_FRAMES + 10_000
    forwarding = Sample(1.0, 1_000_000, 5, received=999_995 - most)
    stopped = replace(forwarding, received=forwarding.received - 1)
    assert soak.settled(forwarding, most) == forwarding
    assert soak.settled(stopped, most).lost == 5 + most + 1
    assert soak.settled(replace(stopped, received=None), most).lost == 5, "a record that does not tell"


def test_at_a_low_load_a_second_is_longer_than_any_frame_takes():
    assert soak.under_way((4096, 4096), 100.0) == 101


def test_frames_that_came_late_are_taken_off_the_loss_before_them_the_nearest_first():
    windows = [replace(QUIET, lost=n) for n in (5, 30, 20)]
    corrected = soak.corrected([*windows, replace(QUIET, late=25), QUIET])
    assert [window.lost for window in corrected] == [5, 25, 0, 0, 0]
    assert Warn.LATE_FRAMES.of(late=25) in soak.warnings(corrected, RING, 50.0)


def row(*losses):
    """Windows of 10 s, one after the other, of which these shares were lost."""
    return [
        replace(QUIET, at_s=10.0 * n, lost=round(share * QUIET.offered), received=round((1 - share) * QUIET.offered))
        for n, share in enumerate(losses)
    ]


@pytest.mark.parametrize(
    ("losses", "stops"),
    [
        ((0, 0, 0), []),
        ((0, 0.9, 0), []),
        ((0, 0.25, 1, 1), [Stop(17.5, None)]),
        ((1, 1, 1), [Stop(0.0, None)]),
        ((0, 0.25, 1, 0.5, 0, 0, 1, 0), [Stop(17.5, 35.0), Stop(60.0, 70.0)]),
    ],
    ids=["none", "shorter than a window", "for good", "from the beginning", "twice"],
)
def test_a_stop_begins_within_the_window_before_it_and_ends_within_the_one_behind(losses, stops):
    assert soak.stops(row(*losses)) == stops


def test_a_stop_is_told_with_its_time_and_whether_it_ended():
    for_good, once = row(0, 0.25, 1, 1), row(0, 0.25, 1, 0.5)
    (stopped,), (stood,) = soak.warnings(for_good, RING, 40.0), soak.warnings(once, RING, 40.0)
    assert str(stopped) == "forwarding stopped 17.5 s after the beginning, and did not come back"
    assert str(stood) == "forwarding stood still from 17.5 s to 35.0 s after the beginning"
    open_ended, closed = metrics(for_good)["longest stop"], metrics(once)["longest stop"]
    assert (open_ended.value, open_ended.high) == (22.5, None)
    assert open_ended.note.startswith("at least")
    assert (closed.low, closed.value, closed.high) == (17.5, 17.5, 17.5)
    assert "longest stop" not in metrics(row(0, 0.9, 0))


def test_a_few_frames_that_are_on_their_way_are_no_stop():
    tail = replace(QUIET, at_s=10.0, span_s=0.001, offered=soak.SILENT - 1, received=0)
    assert soak.stops([QUIET, tail]) == []


STOOD = "a core of the engine stood still for 2.00 ms, longer than its rings absorb"


@pytest.mark.parametrize("lost", [0, 500, 5_000_000], ids=["none", "some", "more than the pause explains"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"gaps_s": 0.1, "gap_max_s": 0.0009}, ""),
        ({"gaps_s": 0.1, "gap_max_s": 0.002}, STOOD),
        ({"gaps_s": 0.1, "gap_max_s": 0.002, "receives_apart": False}, ""),
        ({"delay_s": 0.5}, ""),
        ({"steal_s": 0.5}, ""),
    ],
    ids=["quiet", "rings absorb each pause", "a pause", "the one core sends nothing meanwhile", "waiting", "stolen"],
)
def test_only_a_pause_of_a_core_that_receives_discards_a_window_whatever_was_lost(changes, words, lost):
    assert soak.disturbed(replace(QUIET, lost=lost, **changes), RING) == words


def test_losses_of_discarded_windows_are_not_judged():
    lossy, noisy = replace(QUIET, lost=100), replace(QUIET, lost=700, gaps_s=0.01, gap_max_s=0.01)
    figures = metrics([QUIET, lossy, QUIET, QUIET, noisy, QUIET])
    assert figures["windows with loss"].value == pytest.approx(1 / 5)
    assert figures["lost frames"].value == 800
    assert figures["disturbed windows"].value == pytest.approx(1 / 6)
    assert figures["longest loss-free stretch"].value == 20.0


def test_losses_while_the_host_took_time_from_the_device_count_and_are_a_figure_of_their_own():
    waited, stolen = replace(QUIET, lost=30, delay_s=0.002), replace(QUIET, lost=4, steal_s=0.01)
    figures = metrics([QUIET, replace(QUIET, lost=100), waited, stolen, replace(QUIET, lost=7, delay_s=0.0009)])
    assert figures["windows with loss"].value == pytest.approx(4 / 5)
    assert figures["lost frames beside the host"].value == 34
    assert "in 2 windows" in figures["lost frames beside the host"].note


def test_a_short_rest_at_the_end_counts_in_the_totals_and_not_as_a_window():
    figures = metrics([QUIET, QUIET, replace(QUIET, span_s=0.1, lost=3)])
    assert figures["windows with loss"].value == 0
    assert figures["lost frames"].value == 3


def test_what_arrived_is_told_in_bits_where_a_frame_has_as_many():
    (all_arrived,) = soak.held([QUIET, QUIET], 8 * 78)
    assert (all_arrived.value, all_arrived.note) == (pytest.approx(624e6), "over 20.0 s, nothing lost")
    (rest,) = soak.held([QUIET, replace(QUIET, lost=5_000_000)], 8 * 78)
    assert (rest.value, rest.note) == (pytest.approx(468e6), "over 20.0 s, 5,000,000 lost")
    assert list(soak.held([QUIET], None)) == []
    assert list(soak.held([], 624)) == []


def test_no_loss_gives_a_bound_and_no_estimate():
    between_losses = metrics([QUIET] * 30)["mean time between losses"]
    assert between_losses.value == between_losses.low == pytest.approx(300 / math.log(20))
    assert between_losses.high is None
    assert between_losses.note.startswith("at least")


def test_loss_in_every_window_gives_a_bound_the_other_way():
    between_losses = metrics([replace(QUIET, lost=1)] * 30)["mean time between losses"]
    assert between_losses.low is None
    assert between_losses.value == between_losses.high < 10.0


def test_nothing_is_judged_where_every_window_was_discarded():
    noisy = replace(QUIET, gaps_s=0.01, gap_max_s=0.01)
    assert not {"windows with loss", "mean time between losses"} & metrics([noisy]).keys()
    (told,) = soak.warnings([noisy], RING, 10.0)
    assert told.kind is Warn.NO_WINDOW_LEFT and "a core of the engine" in told.text


@pytest.mark.parametrize("mean_s", [5.0, 100.0])
def test_the_interval_of_the_mean_time_covers_the_truth(mean_s):
    random, covered, runs = Random(11), 0, 400
    for _ in range(runs):
        windows = [replace(QUIET, lost=int(random.random() < -math.expm1(-10.0 / mean_s))) for _ in range(60)]
        between_losses = metrics(windows)["mean time between losses"]
        covered += (between_losses.low or 0.0) <= mean_s <= (between_losses.high or math.inf)
    assert covered / runs >= 0.93


def test_a_share_has_its_exact_interval():
    assert soak.share_interval(0, 10) == (0.0, pytest.approx(1 - 0.025**0.1))
    low, high = soak.share_interval(3, 10)
    assert (low, high) == (pytest.approx(0.0667, abs=1e-4), pytest.approx(0.6525, abs=1e-4))


def test_a_soak_that_ended_early_says_so():
    assert [*soak.warnings([QUIET], RING, 100.0)] == [Warn.CUT_SHORT.of(measured_s=10.0, asked_s=100.0)]
