"""The measure `build`: many rules, ports or veth pairs made and removed, on a bench that stands."""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from typing import ClassVar, Final

from pinchpoint.bench.resource import Daemon
from pinchpoint.bulk.making import FIRST_ADDRESS, Bulk, Timed, Veths, timed_make, timed_removal, veth_namespaces
from pinchpoint.dut.device import Items, Keys, made_by
from pinchpoint.dut.registry import device_of
from pinchpoint.host.priority import kept_off
from pinchpoint.host.processes import OwnMemory, Process
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import TWO_PORTS, Arrays, MeasureKind, asked, needed
from pinchpoint.measure.loop import Loop, once
from pinchpoint.measure.standing import Begun, Standing
from pinchpoint.measure.summary import result_of
from pinchpoint.measure.traffic import Background, Disturbance, Probes, Traffic, background, disturbance, judged
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Batch, Scenario
from pinchpoint.model.warning import ResultWarning, Warn

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
GROWS = 1.5  # times the first quarter's time per item: more than runs on a shared machine differ


@dataclass(frozen=True)
class Build(Batch):
    """What is made, and how."""

    kind: ClassVar[str] = "build"
    probe_rules: int  # rules whose first frame is timed (flows only)
    load_fps: float  # forwarded meanwhile, to see what building blocks; 0: nothing is sent


_HOW: Final = {
    "process": "one process for each item",
    "file": "one process that reads all from a file",
    "bundle": "one atomic OpenFlow bundle",
    "transaction": "one transaction of the database",
    "netlink": "one socket",
}


def table(keys: Keys) -> Table:
    """`[build]` of a device with these keys."""
    made = made_by(keys)
    methods = tuple(dict.fromkeys(method for items in made.values() for method in items.methods))
    how = "; ".join(f'"{method}": {_HOW.get(method, method)}' for method in methods)
    return Table("build", "What is created, and how. The time that this takes is measured.", (
        Key("what", kinds.word(*made), "; ".join(f'"{word}": {items.words}' for word, items in made.items()) + "."),
        Key("method", kinds.word(*methods),
            f"{how}. " + " ".join(f"For {word}: {', '.join(items.methods)}." for word, items in made.items())),
        Key("count", kinds.integer(1, 5_000_000), "How many are made."),
        Key("concurrency", kinds.integer(1, 1024), "Processes at a time (method process only).", 40),
        Key("probe_rules", kinds.integer(0, 1000),
            "Rules, spread over all, for which the first frame that takes them is timed (flows only).", 0),
        Key("load_fps", kinds.number(0, 1e9),
            "Frames per second sent meanwhile, to see how long forwarding is blocked; 0 sends none.", 0.0),
    ), measures=("build",))  # fmt: skip


def check_keys(source: Source, build: Values, arrays: Arrays, keys: Keys) -> None:
    """The method is one by which the thing can be made; what sends frames has ports and streams."""
    made = made_by(keys).get(build.get("what", ""))
    if made and "method" in build and build["method"] not in made.methods:
        expected = " or ".join(f'"{method}"' for method in made.methods) + f" for {build['what']}"
        source.mismatch(("build", "method"), expected, build["method"])
    if build.get("what") in ("ports", "veths") and build.get("probe_rules"):
        source.mismatch(("build", "probe_rules"), f"0 for {build['what']}", build["probe_rules"])
    if build.get("load_fps", 0) > 0 or build.get("probe_rules", 0) > 0:
        needed(source, TWO_PORTS, arrays)


@dataclass(frozen=True)
class Usage:
    """What making took of the machine; 0 bytes where there is no such process."""

    switch_before_bytes: int  # resident memory of the device's process
    switch_after_bytes: int
    lab_peak_bytes: int | None  # while making; None: the kernel cannot tell it of a part of a process's life
    switch_cpu_s: float
    commands_cpu_s: float  # of the processes that made the items


@dataclass(frozen=True)
class Built:
    """One making and removal of all items."""

    build: Build
    shown_by: str  # whoever says whether all items are there, with the verb
    made: Timed
    removed: Timed
    usage: Usage
    disturbance: Disturbance | str | None  # None: no load was sent meanwhile; or why nothing can be said of it
    taken_s: tuple[float | None, ...]  # when each probed rule took its first frame; None: not at all
    taken_within_s: float  # how finely that is known


def metrics(built: Built) -> Iterator[Metric]:
    """The figures that curves are drawn from."""
    count, usage, made = built.build.count, built.usage, built.made
    yield Metric("build time", "s", made.returned_s, note="until the last command returned")
    earliest_s = max(made.returned_s, made.visible_s - made.look_s)
    note = f"until {built.shown_by} all of them; the interval is the last look at it"
    yield Metric("visible time", "s", made.visible_s, earliest_s, made.visible_s, note)
    yield Metric("build rate", "1/s", count / made.returned_s)
    yield Metric("time per item", "s", made.returned_s / count)
    yield Metric("removal time", "s", built.removed.visible_s, note=f"until {built.shown_by} none of them")
    yield Metric("commands' processor time", "s", usage.commands_cpu_s)
    if usage.lab_peak_bytes is not None:
        yield Metric("lab peak memory", "bytes", float(usage.lab_peak_bytes), note="while making")
    if (growth := made.growth) is not None:
        yield Metric("growth", "share", growth, note="time per item, last quarter / first quarter")
    if (growth := built.removed.growth) is not None:
        yield Metric("removal growth", "share", growth)
    if built.build.what != "veths":  # of which the switch knows nothing
        each = (usage.switch_after_bytes - usage.switch_before_bytes) / count
        yield Metric("switch memory per item", "bytes", each)
        yield Metric("switch processor time", "s", usage.switch_cpu_s)
    yield from _traffic(built)


def _traffic(built: Built) -> Iterator[Metric]:
    taken = [seconds for seconds in built.taken_s if seconds is not None]
    if taken:
        probed = f"{len(taken)} of {len(built.taken_s)} probed rules, known to {built.taken_within_s * 1e3:.0f} ms"
        note = f"until the datapath forwarded by it; {probed}"
        yield Metric("first frame time", "s", max(taken), min(taken), max(taken), note)
    if isinstance(disturbance := built.disturbance, Disturbance):
        own = "; the interval is what the engine's own pauses and drops may have cost" if disturbance.engine_s else ""
        note = f"lost frames / offered rate, less the loss before building{own}"
        low_s = disturbance.blocked_s - disturbance.engine_s
        yield Metric("blocked time", "s", disturbance.blocked_s, low_s, disturbance.blocked_s, note)
        if disturbance.longest_gap_s is not None:
            yield Metric("longest gap", "s", disturbance.longest_gap_s, note="in the received sequence")


def warnings(measurement: Measurement, why_slower: str) -> tuple[ResultWarning, ...]:
    """What the figures of a measurement do not say by themselves.

    `why_slower` is why time per item may grow with their number; empty if that is not known.
    """
    told = [Warn.BUILD_DISTURBED.of(measurement.reason)] if measurement.reason else []
    growth = next((metric.value for metric in measurement.metrics if metric.name == "growth"), 0.0)
    if growth > GROWS:
        told.append(Warn.GETS_SLOWER.of(why_slower or "for a reason that is not known", growth=growth))
    probes, refused = measurement.account.get("probes"), measurement.account.get("refused")
    taken = probes["taken_s"] if isinstance(probes, Mapping) else ()
    if untaken := sum(seconds is None for seconds in taken):
        told.append(Warn.TOOK_NO_FRAME.of(untaken=untaken, probed=len(taken)))
    if isinstance(refused, str) and refused:
        told.append(Warn.NO_BLOCKED_TIME.of(refused))
    return tuple(told)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands. Processes start side by side but end at one device: a few gain all there is."""
    build = asked(scenario, Build)
    item_s = ITEM_S.get((build.what, build.method), UNKNOWN_ITEM_S)
    return build.count * (item_s / min(2, build.concurrency) if build.method == "process" else item_s)


def measure_build(bench: Standing) -> ScenarioResult:
    """Make all items, see when they show, remove them. Raises Interrupted, BenchError, DutError or EngineError.

    A build that an interrupted run finished is answered from its record, also one that the host disturbed.
    """
    build, measurement = asked(bench.scenario, Build), once(bench, _measure)
    told = warnings(measurement, _items(bench, build).why_slower.get(build.method, ""))
    return result_of(bench.scenario, (), bench.wall_s, measurement.metrics, told)


def _measure(bench: Standing, loop: Loop[Measurement]) -> Measurement:
    build = asked(bench.scenario, Build)
    bench.task.on_stoppable(loop)
    bench.task.note_facts(bench.live.versions())
    begun, probes = Begun(bench.scenario, loop.begin(GUESS_S)), probes_of(build)
    with ExitStack() as held:
        bulk = held.enter_context(items(bench, probes))
        traffic = None
        if probes or build.load_fps:
            traffic = held.enter_context(background(bench, probes, build.load_fps))
            # What makes the items must not take the CPUs of what sends and forwards; the engine has its own by now.
            held.enter_context(kept_off(bench.cpus, bench.host))
        built, seen = _make(bench, build, bulk, traffic, loop)
    used = {f"build/{name}": float(value) for name, value in asdict(built.usage).items() if value is not None}
    ended = begun.ended(metrics(built), _account(built, seen), {**loop.whole().flat(), **used})
    return judged(ended, built.made.visible_s)


def _make(
    bench: Standing, build: Build, bulk: Bulk, traffic: Background | None, loop: Loop[Measurement]
) -> tuple[Built, Traffic | None]:
    """Make all, account for the traffic and the host meanwhile, remove all."""
    switch = _process(bench)
    if traffic is not None:
        traffic.start(loop.check)
    before_bytes, cpu_s, commands_s = switch.resident_bytes(), switch.cpu_s(), bench.host.children_s()
    own = OwnMemory()
    with loop.observing(bench.host_bracket()):
        began = time.monotonic()
        made = timed_make(bulk, build.count, loop.check)
    usage = Usage(
        switch_before_bytes=before_bytes,
        switch_after_bytes=switch.resident_bytes(),
        lab_peak_bytes=None if bench.host.name else own.peak_bytes(),  # what makes them there is not the lab
        switch_cpu_s=switch.cpu_s() - cpu_s,
        commands_cpu_s=bench.host.children_s() - commands_s,
    )
    seen = traffic.finish(began, loop.check) if traffic is not None else None
    removed = timed_removal(bulk, build.count, loop.check)
    probes, load = probes_of(build), seen.load if seen else None
    built = Built(
        build=build,
        shown_by=_items(bench, build).shown_by,
        made=made,
        removed=removed,
        usage=usage,
        disturbance=disturbance(*load) if load else None,
        taken_s=seen.taken_s if seen else (),
        taken_within_s=probes.interval_s if probes else 0.0,
    )
    return built, seen


def _account(built: Built, seen: Traffic | None) -> dict[str, object]:
    """Everything that the metrics were made from, as plain data."""
    account: dict[str, object] = {"build": asdict(built.build)}
    for name, timed in (("making", built.made), ("removal", built.removed)):
        account[name] = {**asdict(timed), "steps": [[step.items, step.seconds] for step in timed.steps]}
    if built.taken_s:
        account["probes"] = {"taken_s": list(built.taken_s), "within_s": built.taken_within_s}
    if seen is not None and seen.load:
        quiet, meanwhile = seen.load
        account["load"] = {"quiet": asdict(quiet), "building": asdict(meanwhile)}
        account["quiet_loss"] = quiet.loss
        account["refused"] = built.disturbance if isinstance(built.disturbance, str) else ""
    return account


def items(bench: Standing, probes: Probes | None) -> AbstractContextManager[Bulk]:
    """What the scenario's `[build]` asks for, ready to be made; the bench takes away what is left of it."""
    build = asked(bench.scenario, Build)
    if build.what == "veths":
        netns = veth_namespaces(bench.setup.places.bench_id)
        return nullcontext(Veths(bench.host, *netns, build.count, build.method, build.concurrency))
    return bench.live.items(build, probed=probes is not None)


def _items(bench: Standing, build: Build) -> Items:
    """What is known of what the scenario makes."""
    return made_by(device_of(bench.scenario).keys)[build.what]


def probes_of(build: Build) -> Probes | None:
    """The rules to probe: spread evenly, the first and the last among them."""
    count = min(build.probe_rules, build.count)
    if build.what != "flows" or not count:
        return None
    step = (build.count - 1) // (count - 1) if count > 1 else 1
    last = int(IPv4Address(FIRST_ADDRESS)) + build.count - 1
    return Probes(last - step * (count - 1), step, count)


def _process(bench: Standing) -> Process:
    """The device's own; one that has none holds no memory and takes no time."""
    name = device_of(bench.scenario).freezing(bench.scenario).daemon
    daemons = [resource for resource in bench.setup.resources if isinstance(resource, Daemon) and resource.name == name]
    return Process(bench.host, name, daemons[0].pidfile if daemons else None)


MEASURE: Final = MeasureKind(
    made=Build,
    finds="time to make rules, ports or links",
    table=table,
    run=measure_build,
    expected_s=expected_s,
    main=("build time", "visible time", "build rate", "first frame time", "blocked time", "longest gap",
          "removal time"),
    judged_by="time per item",
    needs={},
    check=check_keys,
    made_of="build",
    has_limit=False,
)  # fmt: skip
