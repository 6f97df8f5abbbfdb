"""What the shipped studies ask for is what their measures produce: a misspelt metric gives no sentence, silently."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import socket_windows
import trials

from pinchpoint.account.windows import window_of
from pinchpoint.dut.ovs import DEVICE
from pinchpoint.measure.blocked.run import Blocked
from pinchpoint.measure.build import run as building
from pinchpoint.measure.build.run import Build
from pinchpoint.measure.burst import run as bursts
from pinchpoint.measure.burst.run import Burst
from pinchpoint.measure.load.run import Load, of_load
from pinchpoint.measure.loss_curve import run as loss_curve
from pinchpoint.measure.loss_curve.run import LossCurve
from pinchpoint.measure.rates.run import Rates, of_rates
from pinchpoint.measure.recovery import run as recovery
from pinchpoint.measure.recovery.run import Recovered, Recovery
from pinchpoint.measure.sockets import windows
from pinchpoint.measure.sockets.run import Bandwidth, ConnectRequestResponse, RequestResponse
from pinchpoint.model.measurement import BurstTest
from pinchpoint.model.result import LatencyPoint, Rate, RateStatus
from pinchpoint.scenario.study import load_study

handled = DEVICE.handled
own_metrics = DEVICE.metrics

STUDIES = Path(__file__).parents[3] / "studies"
NAMES = ("flow-rules", "io-paths", "bridge-scale", "rfc2544")
SEEN = {
    "ovs/exercised/flows": 2.0,
    "ovs/exercised/masks": 1.0,
    "ovs/pmd/core1/subtable_lookups": 30.0,
    "ovs/pmd/core1/megaflow_hits": 10.0,
}


def of_frames(scenario):
    trial = replace(trials.trial(threads=[trials.thread_load()]), observed=SEEN)
    if isinstance(scenario.measure, Load):
        return [metric for at_fps in scenario.measure.at_fps for metric in of_load(at_fps, [trial], DEVICE.figures)]
    ratios = scenario.search.loss_ratios
    rates = [Rate(ratio, RateStatus.FOUND, 1e6, 1.1e6, 1.0, 3.0, "") for ratio in ratios]
    latency = [LatencyPoint(share, 1e5, "t-0001", None, "") for share in scenario.measure.at]
    return of_rates(rates, latency, trial, DEVICE)


def of_sockets(scenario):
    kind = "stream" if isinstance(scenario.measure, Bandwidth) else "rr"
    window = socket_windows.measurement(socket_windows.pair(kind), seen=SEEN)
    return windows.of_window(window_of(window), own_metrics(SEEN), handled(SEEN))


def of_build(scenario):
    usage = building.Usage(1, 2, 3, 0.1, 0.1)
    timed = SimpleNamespace(returned_s=2.0, visible_s=2.5, look_s=0.0, growth=1.0)
    return building.metrics(building.Built(scenario.measure, "", timed, timed, usage, None, (0.1,), 0.01))


def of_bursts(_scenario):
    tests = [BurstTest(2000, 2010, 8e6, ()), BurstTest(2100, 2110, 8e6, ())]
    return bursts.metrics(bursts.burst_result(tests, 8e6, "", (4e6, "")), None, 1024)


def of_loss_curve(_scenario):
    return loss_curve.metrics([loss_curve.point(1.0, 1e6, [trials.trial()], "")])


def of_recovery(_scenario):
    return recovery.metrics([Recovered("t-0001", 0.0, 1e-3, 1e6, 5, 0, still=False)], 1e6)


PRODUCERS = {
    Rates: of_frames,
    Load: of_frames,
    Bandwidth: of_sockets,
    RequestResponse: of_sockets,
    ConnectRequestResponse: of_sockets,
    Build: of_build,
    Burst: of_bursts,
    LossCurve: of_loss_curve,
    Recovery: of_recovery,
    Blocked: lambda _scenario: (),  # no finding is about it
}


def produced(sweep):
    scenario = sweep.scenarios[0]
    return {metric.name: metric.unit for metric in PRODUCERS[type(scenario.measure)](scenario)}


@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
@pytest.mark.parametrize("name", NAMES)
def test_every_metric_of_a_finding_is_produced(name, quick):
    study, sweeps = load_study(STUDIES / name, quick)
    by_group = {sweep.group: produced(sweep) for sweep in sweeps}
    asked = [(finding.group, finding.metric) for finding in study.findings if finding.metric]
    asked += [(finding.against, finding.metric) for finding in study.findings if finding.kind in ("compare", "cost")]
    compared = [conclusion.request for conclusion in study.conclusions]
    asked += [
        (group, request.metric) for request in compared for group in (request.group, request.against or request.group)
    ]
    assert asked
    assert [pair for pair in asked if pair[1] not in by_group[pair[0]]] == []


@pytest.mark.parametrize("name", NAMES)
def test_published_curves_have_our_metrics_names_and_units(name):
    study, sweeps = load_study(STUDIES / name)
    by_group = {sweep.group: produced(sweep) for sweep in sweeps}
    wrong = [curve for curve in study.published if by_group[curve.group].get(curve.metric) != curve.unit]
    assert not wrong, [(curve.group, curve.metric, curve.unit) for curve in wrong]


def test_queues_are_compared_by_their_rate():
    study, _ = load_study(STUDIES / "io-paths")
    assert ("growth", "NDR", "queues") in [(f.kind, f.metric, f.factor) for f in study.findings if f.group == "queues"]
