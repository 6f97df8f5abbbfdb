"""Which windows of a socket workload may be judged, and who worked in them."""

import pytest
from socket_windows import QUIET, away, cpu, failures, measurement, pair, relay

from pinchpoint.account.validity import Judgement, judge_window
from pinchpoint.account.windows import together, window_of
from pinchpoint.model.trial import Cause, TrialValidity


def judged(window):
    told = judge_window(window)
    return told.validity, told.reason


def judge(*pairs, seen=None):
    return judged(window_of(measurement(*pairs, seen=QUIET if seen is None else seen)))


def test_a_quiet_window_is_valid():
    assert judge(pair()) == (TrialValidity.VALID, "")


def test_a_stopped_window_is_aborted():
    assert judge(pair(status="stopped")) == (TrialValidity.ABORTED, "stopped after 2.00 s")


def test_the_aborted_pair_tells_why_not_those_stopped_for_its_sake():
    lost = pair(status="aborted", reason="a connection was lost: reset")
    assert judge(pair(status="stopped"), lost)[1].startswith("a connection was lost: reset after")


def test_source_ports_that_ran_out_are_the_generators_limit():
    validity, reason = judge(pair(failures=failures(address_unavailable=7, first="no port")))
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


def test_a_relay_on_another_cpu_hides_nobodys_work():
    disturbed = QUIET | cpu(0, 0.9)
    assert judge(pair(), seen=disturbed | relay(2))[0] is TrialValidity.NOISY_HOST
    watched = judge(pair(), seen=disturbed | relay(2) | cpu(2, 1.0))
    assert watched[0] is TrialValidity.NOISY_HOST
    assert watched[1].startswith("processes outside the bench took 42.5 %")
    assert judge(pair(), seen=QUIET | relay(2) | cpu(2, 1.0))[0] is TrialValidity.VALID


def test_softirq_time_is_nobodys_where_the_kernel_keeps_it_apart():
    seen = QUIET | cpu(0, 0.9, softirq=0.4)
    assert judge(pair(), seen=seen)[0] is TrialValidity.NOISY_HOST
    assert judge(pair(), seen=seen | {"host/irq_time_separate": 1.0})[0] is TrialValidity.VALID


def test_without_the_processes_counters_nobody_is_accused():
    assert judge(pair(), seen=cpu(0, 1.0))[0] is TrialValidity.VALID


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


def test_time_stolen_on_the_machine_of_an_end_is_the_hosts():
    ends = pair()
    ends["runs"][0]["server"]["steal_s"] = 0.1
    assert judged(window_of(away(ends)))[0] is TrialValidity.VALID, "CPUs of the switch's machine are watched"
    validity, reason = judged(window_of(away(ends, server="sink")))
    assert (validity, reason) == (TrialValidity.NOISY_HOST, "5.00 % of the window were stolen from CPU 1 of sink")


def test_a_device_that_died_has_ended_the_window_whatever_else_is_known_of_it():
    died = judge_window(window_of(measurement(pair(), seen=QUIET)), died="ovs has died")
    assert died == Judgement(TrialValidity.ABORTED, Cause.DEVICE_DIED, "ovs has died")
    stopped = judge_window(window_of(measurement(pair(status="stopped"), seen=QUIET)), died="ovs has died")
    assert stopped.reason == "stopped after 2.00 s; ovs has died"
