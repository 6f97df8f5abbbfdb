"""What pinched a socket workload: each verdict from the figures that lead to it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from socket_windows import cpu, failures, main_thread, measurement, pair, rate, trend
from trials import thread_load

from pinchpoint.account.windows import window_of
from pinchpoint.causes.catalogue import SOCKETS
from pinchpoint.causes.sockets import moved, source_ports, verdict
from pinchpoint.model.result import Limit

IDLE = cpu(0, 0.5) | cpu(1, 0.5)


def judged(*pairs, rate_tps=None, connections=1, seen=None, threads=()):
    return verdict([window_of(measurement(*pairs, seen=seen, threads=threads))], rate_tps, connections)


def relaying(busy_ns, on):
    return {"host/relay/relay/busy_ns": busy_ns, "host/relay/relay/cpu": on}


def case(name, limit, headline, *pairs, seen=IDLE, ruled_out=None, **told):
    return pytest.param(limit, headline, pairs, {"seen": seen, **told}, ruled_out, id=name)


def streams(**told):
    return pair("stream", **told)


MAIN_ON_1 = {"host/thread/main/cpu": 1}
OTHERS = {"host/process/ovs-vswitchd/ticks": 100, "host/irq_time_separate": 0.0}
CASES = [
    case("client", Limit.SENDER_CORE, "the client's thread is saturated: 99.0 % busy on CPU 0",
        streams(client=0.99, server=0.6), ruled_out="the server's thread: 40.0 % of the window idle"),
    case("server", Limit.RECEIVER_CORE, "the server's thread is saturated: 97.0 % busy on CPU 1",
        streams(client=0.5, server=0.97)),
    case("both", Limit.RECEIVER_CORE, "the server's thread is saturated: 99.0 % busy on CPU 1; so is client",
        streams(client=0.96, server=0.99)),
    case("of several clients one", Limit.SENDER_CORE,
        "the client's thread (client 1) is saturated: 99.0 % busy on CPU 0",
        streams(client=0.99), streams(cores=(2, 3))),
    case("the switch's main thread by its processor time", Limit.FORWARDING_CORE,
        "main thread is saturated: 98.0 % busy on CPU 1",
        pair(client=0.3, server=0.3), seen=IDLE | MAIN_ON_1, threads=[main_thread(0.98)]),
    case("a relay by its name", Limit.RELAY_CORE, "the relay is saturated: 99.0 % busy on CPU 1",
        streams(), seen=IDLE | relaying(1_980_000_000, 1)),
    case("a relay that only asks for frames is none", Limit.UNEXPLAINED, "unexplained: no thread and no CPU",
        streams(server=0.5), seen=cpu(0, 0.3) | cpu(1, 1.0) | relaying(400_000_000, 1),
        ruled_out="the relay: 80.0 % of the window idle"),
    case("a PMD's CPU is not full because it polls", Limit.UNEXPLAINED, "unexplained: no thread and no CPU",
        streams(cores=(0, 0)), threads=[thread_load(busy_share=0.5)], seen=cpu(1, 1.0)),
    case("work that adds up to a CPU, also where one polls", Limit.HOST,
        "CPU 0 is full (97.0 %): relay, client and server share it",
        streams(client=0.35, server=0.22, cores=(0, 0)), seen=cpu(0, 1.0) | relaying(800_000_000, 0)),
    case("softirq beside the server", Limit.RECEIVER_CORE,
        "the CPU of the server's thread, 1, is full (98.0 %): server 38.0 %; 60.0 % of its time was in softirq",
        streams(client=0.4, server=0.38), seen=cpu(0, 0.4) | cpu(1, 0.98, softirq=0.6)),
    case("a full CPU without a thread of the workload is none", Limit.LATENCY, "latency bound",
        pair(**rate(10_000, 100_000)), seen=cpu(5, 1.0)),
    case("a CPU that others filled", Limit.HOST, "the host: processes outside the bench took 80.0 % of one CPU",
        streams(), seen=cpu(0, 0.3) | cpu(1, 1.0) | OTHERS | MAIN_ON_1, threads=[main_thread(0.5)]),
    case("a plan that was kept", Limit.PLANNED_RATE, "the plan of 1,000/s was kept (the busiest: client, 30.0 %)",
        pair(client=0.3, **rate(1000, 80_000, intended=2000, shortfall=0)), rate_tps=1000.0),
    case("a plan that was not kept is none", Limit.SENDER_CORE, "the client's thread",
        pair(client=0.97, **rate(900, 80_000)), rate_tps=1000.0),
    case("one connection that waits", Limit.LATENCY,
        "latency bound: no thread is saturated; 1 connection waits 99.0 us (mean) for each answer, "
        "which makes 10,000/s; work for each: client 20.0 us, server 10.0 us",
        pair(client=0.2, server=0.1, **rate(10_000, 99_000))),
    case("connections that do not account for the rate", Limit.UNEXPLAINED,
        "unexplained: no thread is saturated, and 10,000/s x 100 us keep only 1.0 of 8",
        pair(**rate(10_000, 100_000)), connections=8),
    case("a stream without a busy thread", Limit.UNEXPLAINED,
        "unexplained: no thread and no CPU is saturated (the busiest: client, 20.0 %)", streams()),
    case("a thread with headroom is none", Limit.UNEXPLAINED, "unexplained", streams(client=0.94)),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "headline", "pairs", "told", "ruled_out"), CASES)
def test_what_pinched_it_is_named_with_its_figures(limit, headline, pairs, told, ruled_out):
    reached = judged(*pairs, **told)
    assert reached.limit is limit
    assert reached.headline.startswith(headline)
    assert ruled_out is None or ruled_out in reached.ruled_out


def test_every_row_of_sockets_is_named_by_some_case():
    assert {cause.limit for cause in SOCKETS} <= {case.values[0] for case in CASES} | {Limit.SOURCE_PORTS}


def test_one_cpu_shared_by_all_three_is_the_hosts():
    seen = cpu(0, 0.99, softirq=0.2) | {"host/thread/main/cpu": 0}
    reached = judged(pair(client=0.3, server=0.3, cores=(0, 0)), seen=seen, threads=[main_thread(0.38)])
    assert reached.limit is Limit.HOST
    assert reached.headline == (
        "CPU 0 is full (99.0 %): main thread, client and server share it (main thread 38.0 %, client 30.0 %, "
        "server 30.0 %; 20.0 % of its time was in softirq)"
    )
    assert reached.ruled_out == (), "a thread that waits for a shared CPU has no headroom"


def test_segments_that_were_sent_again_are_evidence():
    connection = pair("stream")["runs"][0]["connections"][0]
    sent = pair("stream", connections=[connection | {"retransmits": 25_306}])
    assert "25,306 segments were sent again, 12,653/s" in judged(sent, seen=IDLE).evidence
    quiet = pair("stream", connections=[connection | {"retransmits": 0}])
    assert not any("sent again" in line for line in judged(quiet, seen=IDLE).evidence)


def test_a_busy_pmd_is_told_with_its_cycles():
    reached = judged(pair("stream"), threads=[thread_load(busy_share=0.99)], seen=IDLE)
    assert reached.limit is Limit.FORWARDING_CORE
    assert "PMD core 1 spent 500 cycles per packet" in reached.evidence


def test_a_plan_kept_by_failing_is_not_kept():
    failed = rate(1000, 80_000, failed=5, failed_share=0.0025)
    reached = judged(pair(**failed), rate_tps=1000.0, connections=1, seen=IDLE)
    assert reached.limit is not Limit.PLANNED_RATE
    assert any("5 transactions failed (0.25 %; RFC 9411 allows less than 0.001 %)" in line for line in reached.evidence)


def test_the_window_with_the_median_rate_speaks():
    three = [
        window_of(measurement(pair(**rate(per_s, 1e9 / per_s)), number=number))
        for number, per_s in enumerate((9000, 20_000, 10_000), start=1)
    ]
    assert verdict(three, None, 1).trial_ids == ("m-0003",)


def test_ports_that_ran_out_are_the_limit_of_the_windows_in_which_they_did():
    short = measurement(pair("crr", failures=failures(address_unavailable=2794)), number=1)
    whole = measurement(pair("crr"), number=2)
    reached = source_ports([window_of(short), window_of(whole)])
    assert (reached.limit, reached.trial_ids) == (Limit.SOURCE_PORTS, ("m-0001",))
    assert reached.headline == (
        "the client ran out of source ports: 2,794 connections found none of 28,232 for each address"
    )
    assert source_ports([window_of(whole)]) is None


def test_a_rate_that_fell_within_its_window_is_told_with_both_levels():
    fell = window_of(measurement(pair("crr", trend=trend(14_100.0, 300.0)), seen=IDLE))
    told = "m-0001: not stationary: the rate fell from 14,100/s to 300/s 1.0 s after the window began"
    assert moved(fell) == told
    assert told in verdict([fell], None, 1).evidence
    rose = window_of(measurement(pair("stream", trend=trend(1e8, 4e8))))
    assert "the rate rose from 800.0 Mbit/s to 3.20 Gbit/s" in moved(rose)
    assert moved(window_of(measurement(pair("crr", trend=None)))) == ""


def test_threads_that_are_moved_share_all_the_cpus_that_were_watched():
    def moved_on(*cpus, client, server):
        seen = {name: value for part in cpus for name, value in part.items()}
        window = measurement(pair("stream", client=client, server=server, cores=(0, 0)), seen=seen)
        return window_of(replace(window, account={**window.account, "moving": ["client", "server"]}))

    one = verdict([moved_on(cpu(0, 0.9), client=0.4, server=0.62)], None, 1)
    assert one.limit is Limit.RECEIVER_CORE  # of the end that works most
    assert not one.ruled_out
    assert one.headline == "CPU 0 is full (100 %): server and client share it (server 62.0 %, client 40.0 %)"
    two = verdict([moved_on(cpu(0, 0.99), cpu(1, 0.97), client=0.6, server=0.7)], None, 1)
    assert two.headline == "CPUs 0, 1 are full (98.0 %): server and client share them (server 70.0 %, client 60.0 %)"
    idle = verdict([moved_on(cpu(0, 0.9), cpu(1, 0.5), client=0.6, server=0.7)], None, 1)
    assert idle.limit is Limit.UNEXPLAINED


def test_what_to_do_is_asked_of_the_device():
    device = SimpleNamespace(advice=lambda cause, _: ["raise dut.cpus"] if cause == "full-switch" else [])
    window = window_of(measurement(pair(client=0.3), seen=IDLE | MAIN_ON_1, threads=[main_thread(0.98)]))
    lines = verdict([window], None, 1, device).evidence
    assert lines[-1] == (
        "what to do: another core, a faster datapath, or less work for each frame; on this device: raise dut.cpus"
    )
    assert not any("this device" in line for line in verdict([window], None, 1).evidence)
