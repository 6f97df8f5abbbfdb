"""Which windows of a socket workload may be judged, and the figures they give."""

from dataclasses import replace

import pytest
from socket_windows import cpu, main_thread, measurement, pair, rate

from pinchpoint.account.validity import judge_window
from pinchpoint.account.windows import together, window_of
from pinchpoint.dut.ovs import DEVICE
from pinchpoint.measure.sockets import windows
from pinchpoint.measure.sockets.verdict import verdict
from pinchpoint.model.measurement import Metric
from pinchpoint.model.trial import TrialValidity

handled = DEVICE.handled
own_metrics = DEVICE.metrics

QUIET = cpu(0, 0.5) | cpu(1, 0.5) | {"host/process/pinchpoint-engine/ticks": 195, "host/irq_time_separate": 0.0}


def judged(window):
    told = judge_window(window)
    return told.validity, told.reason


def judge(*pairs, seen=None):
    return judged(window_of(measurement(*pairs, seen=QUIET if seen is None else seen)))


def metrics_of(window):
    return {
        metric.name: metric
        for metric in windows.of_window(window_of(window), own_metrics(window.observed), handled(window.observed))
    }


def test_a_quiet_window_is_valid():
    assert judge(pair()) == (TrialValidity.VALID, "")


def test_a_stopped_window_is_aborted():
    assert judge(pair(status="stopped")) == (TrialValidity.ABORTED, "stopped after 2.00 s")


def test_the_aborted_pair_tells_why_not_those_stopped_for_its_sake():
    lost = pair(status="aborted", reason="a connection was lost: reset")
    assert judge(pair(status="stopped"), lost)[1].startswith("a connection was lost: reset after")


def test_source_ports_that_ran_out_are_the_generators_limit():
    none = {"refused": 0, "address_unavailable": 7, "timeout": 0, "reset": 0, "short": 0, "unreachable": 0}
    validity, reason = judge(pair(failures=none | {"other": 0, "first": "no port"}))
    assert validity is TrialValidity.GENERATOR_LIMITED
    assert "7 transactions found no source port" in reason


@pytest.mark.parametrize(("late_s", "validity"), [(0.03, TrialValidity.VALID), (0.05, TrialValidity.NOISY_HOST)])
def test_pairs_must_run_together_for_98_percent_of_the_window(late_s, validity):
    told = judge(pair(began_s=100.0), pair(began_s=100.0 + late_s))
    assert told[0] is validity
    assert told[1] == ("" if late_s < 0.04 else "the 2 pairs ran together for only 97.5 % of the window")


def test_windows_that_never_met_share_nothing():
    results = window_of(measurement(pair(began_s=1.0), pair(began_s=9.0))).results
    assert together(results) == 0.0


def test_stolen_time_is_the_hosts():
    validity, reason = judge(pair(), seen=QUIET | cpu(1, 0.5, stolen=0.05))
    assert (validity, reason) == (TrialValidity.NOISY_HOST, "5.00 % of the window were stolen from CPU 1")


def test_time_that_others_took_is_the_hosts():
    validity, reason = judge(pair(), seen=QUIET | cpu(0, 0.9))
    assert validity is TrialValidity.NOISY_HOST
    assert reason.startswith("processes outside the bench took 42.5 % of one CPU's window on CPUs 0, 1")


def relay(cpu_of_relay, **lost):
    """A relay that polls all the window, and what it lost from host a."""
    names = {"dropped": 0, "too_long": 0, "rx_missed": 0} | lost
    return {
        "host/process/relay/ticks": 200,
        "host/relay/relay/cpu": cpu_of_relay,
        "host/relay/relay/busy_ns": 1e9,
        **{f"host/relay/a/dut/{name}": float(count) for name, count in names.items()},
    }


def test_a_relay_on_another_cpu_hides_nobodys_work():
    disturbed = QUIET | cpu(0, 0.9)
    assert judge(pair(), seen=disturbed | relay(2))[0] is TrialValidity.NOISY_HOST
    watched = judge(pair(), seen=disturbed | relay(2) | cpu(2, 1.0))
    assert watched[0] is TrialValidity.NOISY_HOST
    assert watched[1].startswith("processes outside the bench took 42.5 %")
    assert judge(pair(), seen=QUIET | relay(2) | cpu(2, 1.0))[0] is TrialValidity.VALID


def test_what_the_relay_lost_is_a_metric_and_told():
    quiet = measurement(pair(), seen=QUIET | relay(2))
    assert metrics_of(quiet)["relay drops"].value == 0
    assert windows.relay_losses(window_of(quiet)) == ""
    lossy = measurement(pair(), seen=QUIET | relay(2, dropped=3, rx_missed=1200))
    assert metrics_of(lossy)["relay drops"].value == 1203
    assert windows.relay_losses(window_of(lossy)) == (
        "the relay lost 1,203 frames between host and switch: "
        "3 from a to dut (taken too late by the port), 1,200 from a to dut (its receive ring was full)"
    )
    assert "relay drops" not in metrics_of(measurement(pair(), seen=QUIET))


def test_softirq_time_is_nobodys_where_the_kernel_keeps_it_apart():
    seen = QUIET | cpu(0, 0.9, softirq=0.4)
    assert judge(pair(), seen=seen)[0] is TrialValidity.NOISY_HOST
    assert judge(pair(), seen=seen | {"host/irq_time_separate": 1.0})[0] is TrialValidity.VALID


def test_without_the_processes_counters_nobody_is_accused():
    assert judge(pair(), seen=cpu(0, 1.0))[0] is TrialValidity.VALID


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
    assert windows.failures(few) == ""
    assert windows.failures(many).startswith("1 transactions failed (0.05 %")


@pytest.mark.parametrize(("ticks", "busy"), [({"host/relay/r0/ticks": 84.0}, 0.42), ({}, 0.8)])
def test_a_relay_is_no_busier_than_its_own_processor_time(ticks, busy):
    seen = {"host/relay/r0/busy_ns": 1.6e9, "host/relay/r0/cpu": 1.0, **ticks}
    (busy_thread,) = [thread for thread in window_of(measurement(pair(), seen=seen)).threads if thread.name == "r0"]
    assert busy_thread.busy == pytest.approx(busy)


def test_a_window_in_which_a_relay_had_no_link_is_set_aside():
    ports = {"host/relay/h1/p1/down_ns": 0.0, "host/relay/p1/h1/down_ns": 3e6}
    assert judge(pair(), seen=QUIET | ports) == (
        TrialValidity.NOISY_HOST,
        "the relay had no link at the port of p1 for 3.00 ms",
    )
    assert judge(pair(), seen=QUIET | dict.fromkeys(ports, 0.0)) == (TrialValidity.VALID, "")


def away(*pairs, **machines):
    """A measurement of ends on other machines than the switch's."""
    window = measurement(*pairs, seen=QUIET)
    return replace(window, account={**window.account, "elsewhere": machines})


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


def test_time_stolen_on_the_machine_of_an_end_is_the_hosts():
    ends = pair()
    ends["runs"][0]["server"]["steal_s"] = 0.1
    assert judged(window_of(away(ends)))[0] is TrialValidity.VALID, "CPUs of the switch's machine are watched"
    validity, reason = judged(window_of(away(ends, server="sink")))
    assert (validity, reason) == (TrialValidity.NOISY_HOST, "5.00 % of the window were stolen from CPU 1 of sink")
