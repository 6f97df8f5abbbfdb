"""The measure `build`: many rules, ports or veth pairs made and removed, on a bench that stands."""

import os
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from pinchpoint.bench import host
from pinchpoint.bulk import needs
from pinchpoint.bulk.flows import FIRST_ADDRESS, Flows
from pinchpoint.bulk.making import Bulk, Timed, timed_make, timed_removal
from pinchpoint.bulk.ports import Ports
from pinchpoint.bulk.veths import Veths
from pinchpoint.diagnose import building
from pinchpoint.diagnose.building import Built, Disturbance, Usage
from pinchpoint.dut.ovs import OvsPlaces, switch_versions
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Build
from pinchpoint.model.trial import TrialValidity
from pinchpoint.sweep.forwarding import Background, Probes, Traffic, background
from pinchpoint.sweep.measure import Interrupted
from pinchpoint.sweep.standing import Standing

GUESS_S = 10.0  # of one build, for the progress display


class Stopper:
    """Turns a signal into Interrupted at the next place where building may stop, a fraction of a second on."""

    def __init__(self) -> None:
        self._stopping = False

    def stop(self) -> None:
        """For signal handlers."""
        self._stopping = True

    def check(self) -> None:
        """Raises Interrupted once it was asked to stop."""
        if self._stopping:
            raise Interrupted("interrupted", "pinchpoint run --resume RUN makes this build again")


def measure_build(bench: Standing) -> ScenarioResult:
    """Make all items, see when they show, remove them. Raises Interrupted, BenchError, DutError or EngineError.

    A build that an interrupted run finished is answered from its record.
    """
    found = next((one for one in bench.recorded.measurements if one.validity is TrialValidity.VALID), None)
    if found is None:
        stopper = Stopper()
        bench.on_stoppable(stopper)
        found = _measure(bench, stopper)
        bench.record.keep_measurement(found)
        bench.listener.measurement_ends(found)
    return _result(bench, found)


def _measure(bench: Standing, stopper: Stopper) -> Measurement:
    scenario, build = bench.scenario, _build(bench)
    identity = f"{scenario.name}-0001"
    bench.record.note_facts(switch_versions(bench.setup.places))
    bench.listener.measurement_begins(identity, GUESS_S)
    started, began = datetime.now(UTC), time.monotonic()
    probes = probes_of(build)
    sending = background(bench, probes, build.load_fps) if probes or build.load_fps else nullcontext()
    with items(bench, probes) as bulk, sending as traffic:
        built, account = _make(bench, bulk, traffic, stopper)
    return Measurement(
        id=identity,
        scenario=scenario.name,
        kind=str(scenario.measure),
        repeat=scenario.point.repeat,
        started=started.isoformat(),
        wall_s=time.monotonic() - began,
        metrics=building.metrics(built),
        account=account,
        observed={f"build/{name}": float(value) for name, value in asdict(built.usage).items()},
        pmds=(),
        validity=TrialValidity.VALID,
        reason="",
    )


def _make(
    bench: Standing, bulk: Bulk, traffic: Background | None, stopper: Stopper
) -> tuple[Built, Mapping[str, object]]:
    """Make all, account for the traffic meanwhile, remove all."""
    build, check = _build(bench), stopper.check
    switch = Process(Path(bench.setup.places.pidfile("vswitchd")))
    if traffic is not None:
        traffic.start(check)
    before_bytes, cpu_s, commands_s = switch.resident_bytes(), switch.cpu_s(), _commands_s()
    began = time.monotonic()
    made = timed_make(bulk, build.count, check)
    usage = Usage(
        switch_before_bytes=before_bytes,
        switch_after_bytes=switch.resident_bytes(),
        lab_peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        switch_cpu_s=switch.cpu_s() - cpu_s,
        commands_cpu_s=_commands_s() - commands_s,
    )
    seen = traffic.finish(began, check) if traffic is not None else None
    removed = timed_removal(bulk, build.count, check)
    probes = probes_of(build)
    built = Built(
        build=build,
        returned_s=made.returned_s,
        visible_s=made.visible_s,
        growth=made.growth,
        removed_s=removed.visible_s,
        removal_growth=removed.growth,
        usage=usage,
        disturbance=_disturbance(seen),
        taken_s=seen.taken_s if seen else (),
        taken_within_s=probes.interval_s if probes else 0.0,
    )
    return built, _account(built, made, removed, seen)


def _disturbance(seen: Traffic | None) -> Disturbance | None:
    if seen is None or seen.quiet is None or seen.building is None:
        return None
    quiet_loss = seen.quiet.lost / seen.quiet.offered if seen.quiet.offered else 0.0
    return Disturbance(seen.building.seconds, seen.building.longest_gap_s, quiet_loss)


def _account(built: Built, made: Timed, removed: Timed, seen: Traffic | None) -> dict[str, object]:
    """Everything that the metrics were made from, as plain data."""

    def plain(timed: Timed) -> dict[str, object]:
        steps = [[step.items, step.seconds] for step in timed.steps]
        return {"returned_s": timed.returned_s, "visible_s": timed.visible_s, "steps": steps}

    account: dict[str, Any] = {"build": asdict(built.build), "making": plain(made), "removal": plain(removed)}
    if built.taken_s:
        account["probes"] = {"taken_s": list(built.taken_s), "within_s": built.taken_within_s}
    if seen is not None and seen.quiet is not None and seen.building is not None:
        account["load"] = {"quiet": asdict(seen.quiet), "building": asdict(seen.building)}
        account["quiet_loss"] = built.disturbance.quiet_loss if built.disturbance else None
    return account


def _result(bench: Standing, found: Measurement) -> ScenarioResult:
    scenario, build = bench.scenario, _build(bench)
    probed: Any = found.account.get("probes") or {"taken_s": []}
    quiet_loss: Any = found.account.get("quiet_loss")
    untaken = sum(seconds is None for seconds in probed["taken_s"])
    return ScenarioResult(
        scenario=scenario.name,
        title=scenario.title,
        rates=(),
        latency=(),
        pmds=(),
        verdict=None,
        generator_ceiling_fps=None,
        trials=0,
        invalid_trials={},
        traffic_s=0.0,
        wall_s=time.monotonic() - bench.began,
        cache_line=None,
        warnings=building.warnings(found.metrics, build, quiet_loss, untaken),
        group=scenario.point.group,
        levels=scenario.point.levels,
        repeat=scenario.point.repeat,
        measure=str(scenario.measure),
        outcome=Outcome.MEASURED,
        reason="",
        metrics=found.metrics,
    )


@contextmanager
def items(bench: Standing, probes: Probes | None) -> Iterator[Bulk]:
    """What the scenario's `[build]` asks for, ready to be made; the bench takes away what is left of it."""
    build, places = _build(bench), bench.setup.places
    if build.what == "veths":
        yield Veths(*needs.veth_namespaces(places), build.count, build.method, build.concurrency)
    elif build.what == "ports":
        yield Ports(places, bench.control, build.count, build.method, build.concurrency)
    else:
        actions = f"output:{_number(places, bench.scenario.ports[-1].name)}" if probes else "drop"
        flows = Flows(places, bench.control, build.count, build.method, build.concurrency, actions)
        with flows.unmatched_dropped():
            yield flows


def probes_of(build: Build) -> Probes | None:
    """The rules to probe: spread evenly, the first and the last among them."""
    count = min(build.probe_rules, build.count)
    if build.what != "flows" or not count:
        return None
    step = (build.count - 1) // (count - 1) if count > 1 else 1
    last = int(IPv4Address(FIRST_ADDRESS)) + build.count - 1
    return Probes(last - step * (count - 1), step, count)


def _number(places: OvsPlaces, port: str) -> int:
    """The port's OpenFlow number, as the switch tells it."""
    argv = ["ovs-vsctl", f"--db={places.database}", "--timeout=30", "get", "Interface", port, "ofport"]
    said = host.run_command(argv, environment=places.environment).strip()
    if not said.isdigit() or said == "0":
        raise DutError(f"port {port} has no OpenFlow number: ovs-vsctl says {said!r}", "see ovs-vswitchd's log")
    return int(said)


def _build(bench: Standing) -> Build:
    scenario = bench.scenario
    if scenario.build is None:
        raise InputError(f'{scenario.path}: measure = "build" needs a table [build]', "see docs/scenario.md")
    return scenario.build


class Process:
    """A daemon by its pid file: its memory and its processor time (proc(5))."""

    def __init__(self, pidfile: Path) -> None:
        try:
            self._folder = Path("/proc") / str(int(pidfile.read_text()))
        except (OSError, ValueError) as error:
            raise DutError(f"ovs-vswitchd is gone: {error}", "see its log") from error

    def resident_bytes(self) -> int:
        """Memory that it really holds."""
        return int(self._read("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Processor time of all its threads since it started."""
        user, system = self._read("stat").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError as error:
            raise DutError(f"ovs-vswitchd is gone: {error}", "see its log") from error


def _commands_s() -> float:
    """Processor time of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
