"""Windows of a socket workload: how they are dealt, repeated, resumed and summed up, without a bench."""

from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import PurePosixPath
from types import SimpleNamespace

import msgspec
import pytest
from socket_windows import cpu, failures, measurement, pair, trend

from pinchpoint.account.windows import window_of
from pinchpoint.dut.ovs import DEVICE
from pinchpoint.dut.ovs.spec import Datapath, RuleSeries
from pinchpoint.dut.places import Places
from pinchpoint.dut.registry import default, device
from pinchpoint.engine.sockets import SocketsResult
from pinchpoint.host.local import Local
from pinchpoint.measure.loop import loop_of
from pinchpoint.measure.sockets import run as sockets
from pinchpoint.measure.sockets import windows
from pinchpoint.measure.sockets.run import Bandwidth, Ends, RequestResponse, measure_sockets, requests, summary
from pinchpoint.measure.sockets.windows import NONE_VALID
from pinchpoint.measure.standing import Interrupted, Task
from pinchpoint.model.errors import BenchError, DutError, InputError, RequirementError, UnreachableError
from pinchpoint.model.measurement import LevelChange, Measurement
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.site import Remote, Site
from pinchpoint.model.trial import TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.observe.snapshot import Bracket, Collector, Snapshot
from pinchpoint.scenario import parse
from pinchpoint.store.codec import Codec

handled = DEVICE.handled
own_metrics = DEVICE.metrics

TEXT = """
title = "two hosts"
measure = "rr"
dut = { datapath = "af_packet", pmd_cpus = [3], rules = "actions=NORMAL" }
engine = { cpus = [0] }
host = [
  { name = "a", address = "10.0.0.1/24", cpus = [0, 1, 2] },
  { name = "b", address = "10.0.0.2/24", cpus = [4, 5] },
]
sockets = { client = "a", server = "b", connections = 5, rate_tps = 1000, repeats = 2 }
"""
SCENARIO = parse(TEXT, "hosts.toml")
HERE = Local()
VALID, NOISY, ABORTED = TrialValidity.VALID, TrialValidity.NOISY_HOST, TrialValidity.ABORTED
LIMITED = TrialValidity.GENERATOR_LIMITED


def ends(measure=RequestResponse, **changes):
    workload = measure(**{**asdict(SCENARIO.measure), **changes})
    return Ends.of(replace(SCENARIO, measure=workload))


def window(number=1, validity=VALID, reason="", per_s=10_000.0, seen=None):
    made = measurement(pair(transactions_per_s=per_s), number=number, seen=seen, validity=validity, reason=reason)
    metrics = (
        ()
        if validity is ABORTED
        else windows.of_window(window_of(made), own_metrics(made.observed), handled(made.observed))
    )
    return replace(made, metrics=metrics)


def test_connections_and_the_plan_are_dealt_over_pairs_of_cpus():
    asked = requests(ends(), ("ns-a", "ns-b"), "m-0001")
    assert [(request.client.core, request.server.core, request.connections) for request in asked] == [
        (0, 4, 3),
        (1, 5, 2),
    ]
    assert [request.rate_tps for request in asked] == [600, 400]
    assert [request.trial for request in asked] == ["m-0001-1", "m-0001-2"]
    assert {(request.client.netns, request.server.netns, request.listen) for request in asked} == {
        ("ns-a", "ns-b", "10.0.0.2")
    }


def test_one_connection_is_one_pair():
    (asked,) = requests(ends(connections=1), ("ns-a", "ns-b"), "m-0001")
    assert (asked.trial, asked.connections, asked.rate_tps) == ("m-0001", 1, 1000)


def test_requests_may_be_datagrams():
    udp = parse(TEXT.replace("connections = 5", 'connections = 5, transport = "udp"'), "hosts.toml")
    assert {request.transport for request in requests(Ends.of(udp), ("ns-a", "ns-b"), "m")} == {"udp"}
    assert {request.transport for request in requests(ends(), ("ns-a", "ns-b"), "m")} == {"tcp"}


@pytest.mark.parametrize(
    ("measure", "more", "problem"),
    [
        ("bandwidth", "", 'sockets.transport: expected "tcp" with bandwidth, found "udp"'),
        ("rr", "request_bytes = 65_508, ", "sockets.request_bytes: expected at most 65,507, a datagram"),
    ],
)
def test_what_no_datagram_carries_is_refused(measure, more, problem):
    text = TEXT.replace('"rr"', f'"{measure}"').replace("rate_tps = 1000, ", f'{more}transport = "udp", ')
    with pytest.raises(InputError) as error:
        parse(text, "hosts.toml")
    assert problem in str(error.value)


def test_a_stream_has_neither_plan_nor_answer():
    asked = requests(ends(Bandwidth, connections=1), ("ns-a", "ns-b"), "m")[0]
    assert (asked.kind, asked.rate_tps, asked.response_bytes) == ("stream", None, 0)


def test_only_cpus_that_take_part_are_watched():
    assert ends().cpus == (0, 1, 3, 4, 5)
    assert ends(connections=1).cpus == (0, 3, 4)
    relayed = replace(
        SCENARIO,
        dut=replace(SCENARIO.dut, datapath=Datapath.DPDK),
        engine=replace(SCENARIO.engine, cpus=(7, 8)),
        measure=replace(SCENARIO.measure, connections=1),
    )
    assert Ends.of(relayed).cpus == (0, 3, 4, 7), "the relay has the engine's first"


def test_what_the_relay_lost_is_a_warning_and_evidence():
    lost = {"host/relay/a/dut/dropped": 2.0, "host/relay/a/dut/too_long": 0.0}
    result = summary(SCENARIO, ends(), [window(1), window(2, seen=lost)], 9.0)
    told = "the relay lost 2 frames between host and switch: 2 from a to dut (taken too late by the port)"
    assert result.warnings == (Warn.RELAY_LOST.of(told, window="m-0002"),)
    assert told in summary(SCENARIO, ends(repeats=1), [window(seen=lost)], 9.0).verdict.evidence


@pytest.mark.parametrize(
    ("made", "enough"),
    [
        ([], False),
        ([VALID], False),
        ([VALID, VALID], True),
        ([NOISY, VALID, NOISY, VALID], True),
        ([NOISY] * 4, False),
        ([NOISY] * 5, True),
        ([NOISY, NOISY, NOISY, VALID], False),
        ([NOISY, NOISY, NOISY, NOISY, VALID], True),
        ([LIMITED], False),
        ([VALID, LIMITED, LIMITED], True),
        ([ABORTED, VALID], False),
    ],
)
def test_windows_are_repeated_until_enough_are_valid_or_more_would_not_help(made, enough):
    made_windows = [window(number, validity) for number, validity in enumerate(made, start=1)]
    assert sockets._enough(made_windows, ends(repeats=2, max_repeats=3)) is enough


def test_valid_windows_speak_and_disturbed_ones_are_counted():
    made = [window(1, NOISY, "stolen", per_s=1.0), window(2, per_s=9000.0), window(3, per_s=11_000.0)]
    result = summary(SCENARIO, ends(rate_tps=None), made, 9.0)
    assert (result.outcome, result.metrics[0].value, result.trials) == (Outcome.MEASURED, 10_000, 3)
    assert result.invalid_trials == {"noisy_host": 1}
    assert result.warnings == (Warn.WINDOWS_REPEATED.of("stolen", discarded=1, windows=3),)
    assert result.verdict is not None


def test_if_all_were_disturbed_the_figures_say_so():
    result = summary(SCENARIO, ends(), [window(n, NOISY, "a compiler ran") for n in (1, 2)], 9.0)
    assert result.outcome is Outcome.MEASURED
    assert all(metric.disturbed and metric.cautions == (NONE_VALID,) for metric in result.metrics)
    assert result.warnings == (Warn.FEW_WINDOWS.of("a compiler ran", valid=0, windows=2, asked=2),)


def test_if_none_can_be_judged_the_scenario_failed_with_the_reason():
    result = summary(
        SCENARIO, ends(), [window(1, LIMITED, "no source port"), window(2, LIMITED, "no source port")], 9.0
    )
    assert (result.outcome, result.reason, result.verdict, result.metrics) == (
        Outcome.FAILED,
        "no source port",
        None,
        (),
    )


def fallen(number, before=14_000.0, after=300.0):
    made = measurement(pair(transactions_per_s=2000.0, trend=trend(before, after)), number=number)
    return sockets._judged(made, None, device(default()))


def test_a_rate_that_fell_within_its_windows_is_a_range_with_the_level_that_lasts():
    made_windows = [fallen(number, after=after) for number, after in enumerate((290.0, 300.0, 320.0), start=1)]
    assert made_windows[1].change == LevelChange(1.0, 14_000.0, 300.0)
    assert made_windows[1].validity is VALID
    told = summary(SCENARIO, ends(), made_windows, 9.0)
    rate = next(metric for metric in told.metrics if metric.name == "transactions")
    assert (rate.value, rate.low, rate.high) == (300.0, 290.0, 14_000.0)
    assert any(part.startswith("not stationary: ") for part in rate.cautions)
    assert sum(warning.kind is Warn.NOT_STATIONARY for warning in told.warnings) == 3


def test_the_levels_of_pairs_add_up_and_one_without_a_change_keeps_its_rate():
    falls = trend(5000.0, 100.0, at_s=1.5)
    both = measurement(pair(transactions_per_s=2500.0, trend=falls), pair(transactions_per_s=4000.0))
    assert window_of(both).change == LevelChange(1.5, 9000.0, 4100.0)


def test_a_window_stored_before_engines_told_a_trend_has_no_change():
    stored = measurement(pair())
    for run in stored.account["pairs"][0]["runs"]:
        del run["trend"]
    assert window_of(stored).change is None


def test_ports_that_run_out_are_the_verdict_of_a_scenario_that_has_no_rate():
    portless = failures(address_unavailable=2794, first="no source port left (EADDRNOTAVAIL)")
    for status in ("completed", "aborted"):
        short = measurement(pair("crr", status=status, failures=portless))
        judged = sockets._judged(short, None, device(default()))
        assert judged.validity is LIMITED
        result = summary(SCENARIO, ends(), [judged], 3.0)
        assert (result.outcome, result.verdict.limit) == (Outcome.FAILED, Limit.SOURCE_PORTS)
        assert result.metrics == (), "no low number stands for it"


def test_rules_that_the_datapath_did_not_see_are_a_warning():
    bridge = replace(SCENARIO.dut.bridges[0], rule_series=(RuleSeries("drop", 499_999),))
    scenario = replace(SCENARIO, dut=replace(SCENARIO.dut, bridges=(bridge,)))
    seen = {"ovs/exercised/flows": 2.0, "ovs/exercised/masks": 1.0}
    result = summary(scenario, ends(repeats=1), [window(seen=seen)], 9.0)
    assert result.warnings[0] == Warn.NO_FLOW_OF_ITS_OWN.of(items=500_000, what="OpenFlow rules", flows=2, masks=1)


def test_a_verdict_survives_the_disk():
    codec = Codec.of(Measurement)
    stored = [codec.decode(codec.encode(window(n, seen=cpu(0, 0.5)), "m"), "m") for n in (1, 2)]
    fresh = [window(n, seen=cpu(0, 0.5)) for n in (1, 2)]
    assert summary(SCENARIO, ends(), stored, 9.0) == summary(SCENARIO, ends(), fresh, 9.0)
    assert summary(SCENARIO, ends(), stored, 9.0).verdict.limit is Limit.PLANNED_RATE


class Bench:
    """A bench whose windows were all made before it was interrupted; whoever starts an engine on it fails."""

    def __init__(self, *made):
        self.scenario = SCENARIO
        self.task = Task(records=made)
        self.wall_s = 0.0
        self.host = HERE
        self.setup = SimpleNamespace(places=Places("b", PurePosixPath("/b"), HERE))


def test_the_lab_keeps_off_the_cpus_of_an_end_on_its_own_machine_where_the_switch_is_on_another(monkeypatch):
    far, kept = Remote("far", "far", sudo=True, lease_s=60), []
    bench, there = Bench(), Local()
    bench.scenario = replace(SCENARIO, sites=(Site(far), Site(None, (), ("a",))))
    bench.host = there
    bench.setup.places = Places("b", PurePosixPath("/b"), there, {"lab": HERE, "far": there})
    monkeypatch.setattr(sockets, "kept_off", lambda cpus, host: nullcontext(kept.append((cpus, host))))
    monkeypatch.setattr(sockets, "_measure", lambda bench, ends, loop: loop.kept(window()))
    measure_sockets(bench)
    assert kept == [((3, 4, 5), there), ((0, 1), HERE)]


def test_recorded_windows_that_gave_nothing_do_not_end_a_resumed_run(monkeypatch):
    made = []

    def fresh(_bench, _ends, loop):
        made.extend(loop.records)
        loop.records += [window(5), window(6)]

    monkeypatch.setattr(sockets, "_measure", fresh)
    result = measure_sockets(Bench(window(1), window(2, ABORTED), window(3, LIMITED), window(4, LIMITED)))
    assert [measurement.id for measurement in made] == ["m-0001"]
    assert (result.outcome, result.trials) == (Outcome.MEASURED, 3)


def test_recorded_windows_are_not_made_again():
    result = measure_sockets(Bench(window(1), window(2, NOISY), window(3)))
    assert (result.trials, result.invalid_trials) == (3, {"noisy_host": 1})


class AnyPairs:
    """Pairs that answer, or fail."""

    def __init__(self, outcome, stop_requested=False):
        self.outcome, self.stop_requested = outcome, stop_requested

    def run(self, wanted):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return (msgspec.convert(self.outcome, SocketsResult),)


class Switch(Collector):
    """It does not answer the n-th time that it is read."""

    name = "switch"

    def __init__(self, dies_at):
        self.left = dies_at

    def snapshot(self):
        self.left -= 1
        if self.left == 0:
            raise DutError("it is gone")
        return Snapshot(0.0, {})


@pytest.mark.parametrize(
    ("pairs", "dies_at", "error", "validities"),
    [
        (AnyPairs(pair()), 0, None, [VALID]),
        (AnyPairs(pair(), stop_requested=True), 0, Interrupted, [VALID]),
        (AnyPairs(pair()), 2, DutError, [ABORTED]),
        (AnyPairs(UnreachableError("timed out")), 0, BenchError, []),
        (AnyPairs(UnreachableError("timed out")), 2, DutError, []),
        (AnyPairs(RequirementError("no such port")), 2, DutError, []),
    ],
    ids=["none", "a stop", "a death", "no way", "no way since it died", "no engine since it died"],
)
def test_whatever_ends_a_window_what_was_measured_is_kept_first(pairs, dies_at, error, validities):
    kept, bench = [], Bench()
    bench.task = Task(keep=kept.append)
    with pytest.raises(error) if error else nullcontext():
        sockets._window(bench, ends(connections=1), pairs, Bracket([Switch(dies_at)]), loop_of(bench))
    assert [(made.id, made.validity) for made in kept] == [("hosts-0001", validity) for validity in validities]
