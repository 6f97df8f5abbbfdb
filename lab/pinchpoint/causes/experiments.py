"""Counter-experiments that any device allows: the scenario changed in one respect. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from pinchpoint.model.causes import Experiment
from pinchpoint.model.scenario import Scenario, Stream

FEW = 16  # five-tuples: any cache holds as many
LARGEST_RING = 4096  # descriptors: vhost-user rings of more are not common
SHORTEST = 64  # bytes


def experiments(
    scenario: Scenario, own: Mapping[Experiment, Scenario], free_cpus: Collection[int]
) -> dict[Experiment, Scenario]:
    """All that would change anything; the device's own come before those of traffic, rings and engine."""
    found = {kind: changed for kind, changed in _of_bench(scenario, free_cpus) if changed != scenario} | dict(own)
    return {kind: found[kind] for kind in Experiment if kind in found}


def _of_bench(scenario: Scenario, free_cpus: Collection[int]) -> Iterator[tuple[Experiment, Scenario]]:
    yield Experiment.FEW_FLOWS, replace(scenario, streams=tuple(map(_few, scenario.streams)))
    yield (
        Experiment.SHORT_FRAMES,
        replace(scenario, streams=tuple(replace(one, frame_bytes=SHORTEST) for one in scenario.streams)),
    )
    rings = tuple(replace(port, ring=max(port.ring, LARGEST_RING)) for port in scenario.ports)
    yield Experiment.LARGE_RING, replace(scenario, ports=rings)
    if free_cpus and len(scenario.engine.cpus) < len(scenario.ports):
        cpus = (*scenario.engine.cpus, min(free_cpus))
        yield Experiment.MORE_ENGINE_CORES, replace(scenario, engine=replace(scenario.engine, cpus=cpus))


def _few(stream: Stream) -> Stream:
    return replace(stream, flows=min(stream.flows, FEW))
