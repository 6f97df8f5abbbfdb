"""The figures of windows of a socket workload, and whose thread is named in its verdict."""

from dataclasses import replace

import pytest
from socket_windows import QUIET, away, main_thread, measurement, pair, rate, relay

from pinchpoint.account.windows import window_of
from pinchpoint.causes.sockets import verdict
from pinchpoint.dut.ovs import DEVICE
from pinchpoint.measure.sockets import windows
from pinchpoint.model.measurement import Metric

handled = DEVICE.handled
own_metrics = DEVICE.metrics


def metrics_of(window):
    return {
        metric.name: metric
        for metric in windows.of_window(window_of(window), own_metrics(window.observed), handled(window.observed))
    }


def test_what_the_relay_lost_is_a_metric_and_told():
    quiet = measurement(pair(), seen=QUIET | relay(2))
    assert metrics_of(quiet)["relay drops"].value == 0
    assert window_of(quiet).relay_losses == ""
    lossy = measurement(pair(), seen=QUIET | relay(2, dropped=3, rx_missed=1200))
    assert metrics_of(lossy)["relay drops"].value == 1203
    assert window_of(lossy).relay_losses == (
        "the relay lost 1,203 frames between host and switch: "
        "3 from a to dut (taken too late by the port), 1,200 from a to dut (its receive ring was full)"
    )
    assert "relay drops" not in metrics_of(measurement(pair(), seen=QUIET))


def test_metrics_of_transactions():
    seen = QUIET | {"ovs/exercised/flows": 2.0, "ovs/exercised/masks": 1.0}
    by_name = metrics_of(
        measurement(pair(client=0.4, transactions_per_s=5000.0), seen=seen, threads=[main_thread(0.7)])
    )
    assert next(iter(by_name)) == "transactions"
    assert by_name["transactions"].value == 5000
    assert by_name["client busy"].value == pytest.approx(0.4)
    assert (by_name["thread busy"].value, by_name["thread busy"].note) == (0.7, "main thread")
    assert (by_name["datapath flows"].value, by_name["datapath masks"].value) == (2, 1)
    assert by_name["packets seen by the datapath"].value == 1000
    assert by_name["CPU 0: softirq"].value == 0
    assert "goodput" not in by_name
    assert "cycles per packet" not in by_name, "the main thread counts none"


def test_latency_has_mean_largest_deviation_and_quantiles_as_the_published_tables():
    by_name = metrics_of(measurement(pair(), seen=QUIET))
    assert [name for name in by_name if name.startswith("latency ")] == list(windows.LATENCIES)
    engine = pair()["runs"][0]["latency"]
    assert (by_name["latency mean"].value, by_name["latency max"].value) == (engine["mean_ns"], engine["max_ns"])
    assert by_name["latency sd"].value == pytest.approx(engine["stddev_ns"])


def test_metrics_of_a_stream_sum_over_the_pairs():
    two = measurement(pair("stream", goodput_bps=1e9), pair("stream", goodput_bps=2e9, client=0.6), seen=QUIET)
    by_name = metrics_of(two)
    assert by_name["goodput"].value == 3e9
    assert by_name["client busy"].value == pytest.approx(0.4)
    assert by_name["client busy"].note == "mean of 2 threads, the busiest 60.0 %"
    assert not {"transactions", "failed share", "latency p50"} & set(by_name)


def test_kernel_lookups_stand_in_where_no_thread_counts_packets():
    by_name = metrics_of(measurement(pair(), seen={"ovs/lookups/hit": 90, "ovs/lookups/missed": 10}))
    assert by_name["packets seen by the datapath"].value == 100


def test_few_repeats_give_their_median_and_range():
    three = [[Metric("transactions", "1/s", value)] for value in (90.0, 104.0, 110.0)]
    (metric,) = windows.over_repeats(three)
    assert (metric.value, metric.low, metric.high, metric.level) == (104, 90, 110, 0.75)
    assert metric.note == "lowest and highest of 3 windows"


def test_the_largest_latency_is_that_of_all_windows():
    three = [[Metric("latency max", "ns", value)] for value in (1e6, 9e6, 2e6)]
    (metric,) = windows.over_repeats(three)
    assert (metric.value, metric.low, metric.high) == (9e6, None, None)
    assert metric.note == "the largest of 3 windows"


def test_one_window_has_no_interval_and_what_one_lacks_is_absent():
    (goodput,) = windows.over_repeats([[Metric("goodput", "bit/s", 5.0)]], disturbed=True)
    assert (goodput.low, goodput.high, goodput.note) == (None, None, "one window")
    assert (goodput.disturbed, goodput.cautions) == (True, (windows.NONE_VALID,))
    both = [[Metric("goodput", "bit/s", 5.0), Metric("retransmits", "count", 1.0)], [Metric("goodput", "bit/s", 5.0)]]
    assert [metric.name for metric in windows.over_repeats(both)] == ["goodput"]


def test_what_others_publish_is_told_in_the_units_of_the_figure_where_it_differs():
    five = [[Metric("goodput", "bit/s", value * 1e9)] for value in (1.0, 1.0, 2.0, 3.0, 13.0)]
    (metric,) = windows.over_repeats(five)
    assert metric.note == "lowest and highest of 5 windows"
    (metric,) = windows.over_repeats(five[1:] + five[4:])
    assert metric.note == "lowest and highest of 5 windows; without lowest and highest 6.00 Gbit/s"


def test_seven_windows_are_put_together_as_curves_put_repeats():
    seven = [[Metric("goodput", "bit/s", value)] for value in (1.0, 100.0, 101.0, 102.0, 103.0, 104.0, 900.0)]
    (metric,) = windows.over_repeats(seven)
    assert metric.value == pytest.approx(102)
    assert metric.note == "95 %, of the median by ranks over 7 windows"


def test_no_interval_is_negative():
    (metric,) = windows.over_repeats([[Metric("retransmits", "count", value)] for value in (0.0, 0.0, 9.0)])
    assert metric.low == 0


@pytest.mark.parametrize(
    ("items", "flows", "said"),
    [
        ({"OpenFlow rules": 500_000}, 2, ["500,000 OpenFlow rules, but 2 datapath flows and 1 mask carried"]),
        ({"OpenFlow rules": 500_000, "extra ports": 0}, 5000, []),
        ({"OpenFlow rules": 3}, 2, []),
        ({"OpenFlow rules": 500_000}, None, []),
    ],
)
def test_what_took_no_datapath_flow_is_told(items, flows, said):
    lines = [str(told) for told in windows.invisible(items, flows, None if flows is None else 1)]
    assert [line[: len(words)] for line, words in zip(lines, said, strict=True)] == said
    assert all("did not see" not in line for line in lines), "a single bench cannot tell whether the rate changed"


def test_failures_are_told_by_rfc_9411s_rule():
    few = window_of(measurement(pair(**rate(1e6, 1000, failed=1))))
    many = window_of(measurement(pair(**rate(1000, 1000, failed=1))))
    assert few.failures == ""
    assert many.failures.startswith("1 transactions failed (0.05 %")


def test_a_thread_on_another_machine_is_named_with_it_and_is_on_no_cpu_of_the_switchs():
    window = window_of(away(pair(client=0.99, cores=(0, 1)), client="gen"))
    assert [(thread.name, thread.cpu, thread.host) for thread in window.threads] == [
        ("client", 0, "gen"),
        ("server", 1, ""),
    ]
    assert verdict([window], None, 1).headline == "the client's thread is saturated: 99.0 % busy on CPU 0 of gen"


def test_a_thread_that_the_kernel_moves_is_on_no_cpu():
    window = measurement(pair(client=0.99, cores=(0, 1)), seen=QUIET)
    read = window_of(replace(window, account={**window.account, "moving": ["client"]}))
    assert [(thread.name, thread.cpu) for thread in read.threads] == [("client", None), ("server", 1)]
    assert verdict([read], None, 1).headline == "the client's thread is saturated: 99.0 % busy"


def test_cpus_of_two_machines_with_one_number_are_not_one_that_is_full():
    window = window_of(away(pair(client=0.6, server=0.6, cores=(1, 1)), client="gen"))
    assert "share" not in verdict([window], None, 1).headline
