"""The measure `build`: many rules, ports or veth pairs made and removed, on a bench that stands."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from ipaddress import IPv4Address
from typing import Any, Final

from pinchpoint.bench.resource import Daemon
from pinchpoint.bulk import needs
from pinchpoint.bulk.making import FIRST_ADDRESS, Bulk, Timed, timed_make, timed_removal
from pinchpoint.bulk.veths import Veths
from pinchpoint.dut.device import Items, made_by
from pinchpoint.dut.registry import device_of
from pinchpoint.host.making import children_s
from pinchpoint.host.priority import kept_off
from pinchpoint.host.usage import OwnMemory, Process
from pinchpoint.measure.build import Build, check_keys, table
from pinchpoint.measure.build import metrics as building
from pinchpoint.measure.build.metrics import Built, Usage
from pinchpoint.measure.carried import Disturbance, disturbance, judged
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.standing import Standing, Stopper
from pinchpoint.measure.summary import scenario_result
from pinchpoint.measure.traffic import Background, Probes, Traffic, background
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario

GUESS_S = 10.0  # of one build, for the progress display

# Per item made, its removal included, for estimates, which their own ratio to the time spent corrects.
ITEM_S: Mapping[tuple[str, str], float] = {
    ("flows", "process"): 10e-3,
    ("flows", "file"): 20e-6,
    ("flows", "bundle"): 40e-6,
    ("ports", "process"): 60e-3,
    ("ports", "transaction"): 10e-3,
    ("veths", "process"): 10e-3,
    ("veths", "file"): 2e-3,
    ("veths", "netlink"): 2e-3,
}
UNKNOWN_ITEM_S = 5e-3


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands. Processes start side by side but end at one device: a few gain all there is."""
    build = asked(scenario, Build)
    item_s = ITEM_S.get((build.what, build.method), UNKNOWN_ITEM_S)
    return build.count * (item_s / min(2, build.concurrency) if build.method == "process" else item_s)


def measure_build(bench: Standing) -> ScenarioResult:
    """Make all items, see when they show, remove them. Raises Interrupted, BenchError, DutError or EngineError.

    A build that an interrupted run finished is answered from its record, also one that the host disturbed.
    """
    return _result(bench, bench.once(lambda: _measure(bench)))


def _measure(bench: Standing) -> Measurement:
    build, stopper = _build(bench), bench.stopper()
    bench.record.note_facts(bench.live.versions())
    begun = bench.begin(1, GUESS_S)
    probes = probes_of(build)
    with ExitStack() as held:
        bulk = held.enter_context(items(bench, probes))
        traffic = None
        if probes or build.load_fps:
            traffic = held.enter_context(background(bench, probes, build.load_fps))
            # What makes the items must not take the CPUs of what sends and forwards; the engine has its own by now.
            held.enter_context(kept_off(bench.cpus, bench.host))
        built, account, seen = _make(bench, bulk, traffic, stopper)
    used = {f"build/{name}": float(value) for name, value in asdict(built.usage).items() if value is not None}
    return judged(begun.ended(building.metrics(built), account, {**seen, **used}), built.visible_s)


def _make(
    bench: Standing, bulk: Bulk, traffic: Background | None, stopper: Stopper
) -> tuple[Built, Mapping[str, object], Mapping[str, float]]:
    """Make all, account for the traffic and the host meanwhile, remove all."""
    build, check = _build(bench), stopper.check
    switch = _process(bench)
    if traffic is not None:
        traffic.start(check)
    bracket = bench.host_bracket()
    before_bytes, cpu_s, commands_s = switch.resident_bytes(), switch.cpu_s(), children_s(bench.host)
    own = OwnMemory()
    bracket.open()
    began = time.monotonic()
    made = timed_make(bulk, build.count, check)
    observed = bracket.close().flat()
    usage = Usage(
        switch_before_bytes=before_bytes,
        switch_after_bytes=switch.resident_bytes(),
        lab_peak_bytes=None if bench.host.name else own.peak_bytes(),  # what makes them there is not the lab
        switch_cpu_s=switch.cpu_s() - cpu_s,
        commands_cpu_s=children_s(bench.host) - commands_s,
    )
    seen = traffic.finish(began, check) if traffic is not None else None
    removed = timed_removal(bulk, build.count, check)
    probes, disturbed = probes_of(build), _disturbance(seen)
    built = Built(
        build=build,
        shown_by=_items(bench).shown_by,
        returned_s=made.returned_s,
        visible_s=made.visible_s,
        growth=made.growth,
        removed_s=removed.visible_s,
        removal_growth=removed.growth,
        look_s=made.look_s,
        usage=usage,
        disturbance=disturbed if isinstance(disturbed, Disturbance) else None,
        taken_s=seen.taken_s if seen else (),
        taken_within_s=probes.interval_s if probes else 0.0,
    )
    return built, _account(built, made, removed, seen), observed


def _disturbance(seen: Traffic | None) -> Disturbance | str | None:
    if seen is None or seen.quiet is None or seen.building is None:
        return None
    return disturbance(seen.quiet, seen.building)


def _account(built: Built, made: Timed, removed: Timed, seen: Traffic | None) -> dict[str, object]:
    """Everything that the metrics were made from, as plain data."""

    def plain(timed: Timed) -> dict[str, object]:
        steps = [[step.items, step.seconds] for step in timed.steps]
        return {
            "returned_s": timed.returned_s,
            "visible_s": timed.visible_s,
            "look_s": timed.look_s,
            "steps": steps,
        }

    account: dict[str, Any] = {"build": asdict(built.build), "making": plain(made), "removal": plain(removed)}
    if built.taken_s:
        account["probes"] = {"taken_s": list(built.taken_s), "within_s": built.taken_within_s}
    if seen is not None and seen.quiet is not None and seen.building is not None:
        account["load"] = {"quiet": asdict(seen.quiet), "building": asdict(seen.building)}
        account["quiet_loss"] = seen.quiet.loss
        disturbed = _disturbance(seen)
        account["refused"] = disturbed if isinstance(disturbed, str) else ""
    return account


def _result(bench: Standing, measurement: Measurement) -> ScenarioResult:
    return scenario_result(
        bench.scenario,
        bench.wall_s,
        metrics=measurement.metrics,
        warnings=building.warnings(measurement, _items(bench).why_slower.get(_build(bench).method, "")),
    )


@contextmanager
def items(bench: Standing, probes: Probes | None) -> Iterator[Bulk]:
    """What the scenario's `[build]` asks for, ready to be made; the bench takes away what is left of it."""
    build = _build(bench)
    if build.what == "veths":
        netns = needs.veth_namespaces(bench.setup.places.bench_id)
        yield Veths(bench.host, *netns, build.count, build.method, build.concurrency)
        return
    with bench.live.items(build, probed=probes is not None) as bulk:
        yield bulk


def _items(bench: Standing) -> Items:
    """What is known of what the scenario makes."""
    return made_by(device_of(bench.scenario).keys)[_build(bench).what]


def probes_of(build: Build) -> Probes | None:
    """The rules to probe: spread evenly, the first and the last among them."""
    count = min(build.probe_rules, build.count)
    if build.what != "flows" or not count:
        return None
    step = (build.count - 1) // (count - 1) if count > 1 else 1
    last = int(IPv4Address(FIRST_ADDRESS)) + build.count - 1
    return Probes(last - step * (count - 1), step, count)


def _build(bench: Standing) -> Build:
    return asked(bench.scenario, Build)


def _process(bench: Standing) -> Process:
    """The device's own; one that has none holds no memory and takes no time."""
    name = device_of(bench.scenario).freezing(bench.scenario).daemon
    daemons = [resource for resource in bench.setup.resources if isinstance(resource, Daemon) and resource.name == name]
    return Process(bench.host, name, daemons[0].pidfile if daemons else None)


MEASURES: Final = (
    MeasureKind(
        made=Build,
        finds="time to make rules, ports or links",
        table=table,
        run=measure_build,
        expected_s=expected_s,
        main=(
            "build time",
            "visible time",
            "build rate",
            "first frame time",
            "blocked time",
            "longest gap",
            "removal time",
        ),
        judged_by="time per item",
        needs={},
        check=check_keys,
        made_of="build",
        has_limit=False,
    ),
)
