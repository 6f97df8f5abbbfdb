"""Metrics: what a trial's counters say, under names that line up from machine to machine."""

from dataclasses import replace

import pytest
import support
import trials

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.measure.load.run import of_load
from pinchpoint.measure.rates.run import of_rates
from pinchpoint.model.measurement import Bound
from pinchpoint.model.result import Band, LossFloor, Rate, RateStatus
from pinchpoint.model.scenario import Segment
from pinchpoint.model.trial import BusyBy, ThreadLoad
from pinchpoint.scenario import parse

CORE_1 = ThreadLoad(
    "PMD core 1", 1, 1000, 1000, 0.8, BusyBy.CYCLES, 600.0, 2.6e9,
    detail={"simple_match_hits": 0, "emc_hits": 1500, "smc_hits": 100, "megaflow_hits": 380, "upcalls": 15,
            "lost_upcalls": 5},
)  # fmt: skip
CORE_2 = ThreadLoad("PMD core 2", 2, 3000, 0, 0.4, BusyBy.CYCLES, 200.0, 2.6e9, detail={"emc_hits": 3000})
IDLE = ThreadLoad("PMD core 3", 3, 0, 0, 0.0, BusyBy.CYCLES, None, 2.6e9)


def by_name(metrics):
    assert len({metric.name for metric in metrics}) == len(metrics), "no name twice"
    return {metric.name: metric for metric in metrics}


def seen_with(observed, threads=(CORE_1,), **more):
    return by_name(of_trial(replace(trials.trial(threads=threads, **more), observed=observed), DEVICE))


def test_a_rate_with_a_band_has_its_ends_as_figures_of_their_own():
    rate = Rate(0.0, RateStatus.FOUND, 2.0e6, 2.4e6, 0.2, 0.0, "", estimate_fps=2.2e6, confidence=0.95)
    metrics = by_name(of_rates((replace(rate, band=Band(1.5e6, 3.6e6)),), (), None, DEVICE))
    assert {name: metric.value for name, metric in metrics.items()} == {
        "NDR": 2.2e6, "NDR band low": 1.5e6, "NDR band high": 3.6e6,
    }  # fmt: skip
    assert (metrics["NDR"].low, metrics["NDR"].high, metrics["NDR"].note) == (
        2.0e6,
        2.4e6,
        "95 % interval of its search",
    )


def test_a_device_that_loses_at_any_load_has_the_share_as_its_figure_and_no_rate():
    floor = LossFloor(0.0012, 0.0010, 0.0014, 10e3, 12)
    always = Rate(0.0, RateStatus.LOSES_ALWAYS, None, None, 0.2, 0.0, "", floor=floor)
    metrics = by_name(of_rates((always, replace(always, loss_ratio=0.0005)), (), None, DEVICE))
    assert list(metrics) == ["loss at any load"]
    loss = metrics["loss at any load"]
    assert (loss.unit, loss.value, loss.low, loss.high) == ("share", 0.0012, 0.0010, 0.0014)
    assert always.quoted_fps is None


def test_one_forwarding_thread_is_not_named_so_that_curves_line_up():
    metrics = seen_with({}, (CORE_1, IDLE))
    assert metrics["cycles per packet"].value == 600
    assert metrics["thread busy"].value == 0.8
    assert metrics["thread busy"].note == "PMD core 1"
    assert not any(":" in name for name in metrics)


def test_several_threads_have_their_own_figures_beside_those_of_all():
    metrics = seen_with({}, (CORE_1, CORE_2))
    assert metrics["cycles per packet"].value == (600 * 1000 + 200 * 3000) / 4000
    assert metrics["thread busy"].value == 0.8
    assert metrics["thread busy"].note == "PMD core 1, the busiest of 2"
    assert metrics["PMD core 2: cycles per packet"].value == 200
    assert metrics["PMD core 1: thread busy"].value == 0.8


def test_shares_are_of_all_lookups_and_add_up_to_one():
    metrics = seen_with({})
    shares = {name: metric.value for name, metric in metrics.items() if name.startswith("lookup share of ")}
    assert shares == {
        "lookup share of simple match": 0,
        "lookup share of EMC": 0.75,
        "lookup share of SMC": 0.05,
        "lookup share of megaflow classifier": 0.19,
        "lookup share of upcalls": pytest.approx(0.01),
    }
    assert metrics["passes per packet"].value == 2


def test_what_was_not_counted_is_absent():
    blind = ThreadLoad("main thread", None, 500, detail={"emc_hits": 10, "megaflow_hits": 490})
    assert set(seen_with({}, (blind,))) == {"lookup share of EMC", "lookup share of megaflow classifier"}
    assert seen_with({}, ()) == {}
    assert seen_with({}, (IDLE,)) == {}


def test_the_tables_at_the_end_are_counts():
    metrics = seen_with(
        {
            "ovs/conntrack/connections": 512,
            "ovs/flows/megaflows": 3,
            "ovs/flows/masks": 2,
            "ovs/offload/yes": 4,
            "ovs/offload/partial": 1,
        }
    )
    assert metrics["conntrack entries"].value == 512
    assert metrics["datapath flows in the table"].value == 3
    assert metrics["datapath masks in the table"].value == 2
    assert (metrics["offloaded flows"].value, metrics["offloaded flows"].note) == (5, "1 of them in part")


def test_datapath_flows_are_those_that_carried_packets_not_all_in_the_table():
    table = {"ovs/flows/megaflows": 900, "ovs/flows/masks": 7}
    metrics = seen_with(table | {"ovs/exercised/flows": 3, "ovs/exercised/masks": 2})
    flows, masks = metrics["datapath flows"], metrics["datapath masks"]
    assert (flows.value, masks.value) == (3, 2)
    assert flows.note == masks.note == "that carried packets"
    assert metrics["datapath flows in the table"].value == 900


def test_where_flows_are_too_many_to_list_the_tables_total_says_so():
    metrics = seen_with({"ovs/flows/megaflows": 65_537})
    assert metrics["datapath flows"].value == 65_537
    assert metrics["datapath flows"].note.startswith("in the table")
    assert not [name for name in metrics if "masks" in name]


def test_subtable_lookups_carry_the_rounding_of_the_printed_average():
    metrics = seen_with(
        {
            "ovs/pmd/core1/subtable_lookups": 3000,
            "ovs/pmd/core1/megaflow_hits": 1000,
            "ovs/pmd/core1/megaflow_hits_since_start": 20_000,
        }
    )
    metric = metrics["subtable lookups per megaflow hit"]
    assert (metric.value, metric.low, metric.high) == (3.0, pytest.approx(2.8), pytest.approx(3.2))
    assert "subtable lookups per megaflow hit" not in seen_with({"ovs/pmd/core1/subtable_lookups": 0})


def test_receive_queues_show_their_usage_and_how_a_ports_frames_spread():
    metrics = seen_with(
        {
            "ovs/rxq/core1/left/0/usage_percent": 40.0,
            "ovs/rxq/core2/left/1/enabled": 1.0,
            "ovs/port/left/rx_q0_good_packets": 300.0,
            "ovs/port/left/rx_q1_good_packets": 100.0,
            "ovs/port/right/rx_q0_good_packets": 7.0,
        }
    )
    usage = metrics["queue usage left:0"]
    assert (usage.value, usage.note) == (0.4, "of PMD core 1 in the last 5 s")
    assert "queue usage left:1" not in metrics, "not yet known is not zero"
    assert metrics["queue share left:0"].value == 0.75
    assert metrics["queue share left:1"].value == 0.25
    assert "queue share right:0" not in metrics, "one queue takes everything"


@pytest.mark.parametrize(("elapsed_s", "usage", "seconds"), [(12.0, 0.4, 5), (60.2, 0.7, 60)])
def test_the_usage_of_a_queue_is_that_of_the_whole_trial_if_it_lasts_a_minute(elapsed_s, usage, seconds):
    percents = {"ovs/rxq/core1/left/0/usage_percent": 40.0, "ovs/rxq/core1/left/0/minute_percent": 70.0}
    metric = seen_with({**percents, "elapsed_s/rxq": elapsed_s})["queue usage left:0"]
    assert (metric.value, metric.note) == (usage, f"of PMD core 1 in the last {seconds} s")


def test_a_rate_keeps_its_bounds_and_how_it_is_to_be_read():
    rates = [
        Rate(0.0, RateStatus.FOUND, 3.0e6, 3.1e6, 1.0, 21.0, ""),
        Rate(0.005, RateStatus.AT_LEAST, 4.0e6, None, 1.0, 21.0, "search.max_load_fps reached"),
        Rate(0.01, RateStatus.BELOW_MINIMUM, None, 10.0, 1.0, 21.0, "lost"),
    ]
    metrics = by_name(of_rates(rates, (), None, DEVICE))
    assert (metrics["NDR"].value, metrics["NDR"].low, metrics["NDR"].high) == (3.0e6, 3.0e6, 3.1e6)
    assert metrics["PDR 0.5 %"].note == "at least: search.max_load_fps reached"
    assert set(metrics) == {"NDR", "PDR 0.5 %"}


def test_a_trial_that_ended_within_its_cycle_says_how_many_five_tuples_it_sent():
    limit = trials.trial(counts=trials.stream_counts(offered=1000))
    asked = replace(support.stream(), flows=65_536)
    metric = by_name(of_rates((), (), limit, DEVICE, (asked,)))["five-tuples sent"]
    assert (metric.value, metric.cautions) == (1000, ("the trial ended before all 65,536 had been sent",))
    metric = by_name(of_rates((), (), limit, DEVICE, (replace(asked, flows=512),)))["five-tuples sent"]
    assert (metric.value, metric.cautions) == (512, ())


def test_five_tuples_that_are_drawn_have_an_upper_bound():
    limit = trials.trial(counts=trials.stream_counts(offered=1000))
    more = 'udp_src = { random = "1024-1033", count = 65536 }'
    (drawn,) = parse(support.scenario_text(more=more), "x.toml").streams
    metric = by_name(of_rates((), (), limit, DEVICE, (drawn,)))["five-tuples sent"]
    assert (metric.value, metric.bound, metric.cautions) == (10, Bound.BELOW, ())


def test_frames_on_connections_have_their_rate_in_bits_and_their_order():
    rate = Rate(0.0, RateStatus.FOUND, 1.0e6, 1.2e6, 0.2, 0.0, "", estimate_fps=1.1e6, confidence=0.95)
    counts = replace(trials.stream_counts(), reordered=7, reordered_in_flow=5)
    sent = replace(support.stream(), frame_bytes=125, segment=Segment(1, 1))
    metrics = by_name(of_rates((rate,), (), trials.trial(counts=counts), DEVICE, (sent,)))
    bits = metrics["NDR throughput"]
    assert (bits.unit, bits.value, bits.low, bits.high) == ("bit/s", 1.1e9, 1.0e9, 1.2e9)
    assert metrics["reordered in connections"].value == 5 / 1000
    others = by_name(of_rates((rate,), (), trials.trial(counts=counts), DEVICE, (support.stream(),)))
    assert not {"NDR throughput", "reordered in connections"} & others.keys()


def test_load_is_the_median_of_the_trials_with_their_extremes():
    ran = [
        replace(trials.trial(threads=[trials.thread_load(busy, cycles)]))
        for busy, cycles in ((0.5, 400.0), (0.2, 300.0), (0.3, 350.0))
    ]
    metrics = by_name(list(of_load(200_000, ran, DEVICE.figures)))
    busy = metrics["thread busy at 200 kpps"]
    assert (busy.value, busy.low, busy.high) == (0.3, 0.2, 0.5)
    assert metrics["cycles per packet at 200 kpps"].value == 350
    assert metrics["loss at 200 kpps"].value == 0
    assert list(of_load(200_000, [], DEVICE.figures)) == []
