"""Counter-experiments that any device allows: the scenario changed in one respect. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pinchpoint.model.causes import Experiment
from pinchpoint.model.scenario import Scenario, Stream

FEW = 16  # five-tuples: any cache holds as many
LARGE_RING, LONGER, LARGEST_RING = 4096, 4, 32768  # descriptors: the least, the factor, the most
SHORTEST, SHORTEST_SEGMENT = 64, 76  # bytes; of TCP with the engine's signature
_OPPOSITE: Final = {"ipv4_src": "ipv4_dst", "ipv4_dst": "ipv4_src", "udp_src": "udp_dst", "udp_dst": "udp_src"}


def experiments(
    scenario: Scenario, own: Mapping[Experiment, Scenario], free_cpus: Collection[int]
) -> dict[Experiment, Scenario]:
    """All that would change anything; the device's own come before those of traffic, rings and engine."""
    changes = {kind: changed for kind, changed in _of_bench(scenario, free_cpus) if changed != scenario} | dict(own)
    return {kind: changes[kind] for kind in Experiment if kind in changes}


def _of_bench(scenario: Scenario, free_cpus: Collection[int]) -> Iterator[tuple[Experiment, Scenario]]:
    yield Experiment.FEW_FLOWS, replace(scenario, streams=tuple(map(_few, scenario.streams)))
    yield (
        Experiment.SHORT_FRAMES,
        replace(scenario, streams=tuple(map(_short, scenario.streams))),
    )
    rings = tuple(replace(port, ring=max(LARGE_RING, min(LONGER * port.ring, LARGEST_RING))) for port in scenario.ports)
    yield Experiment.LARGE_RING, replace(scenario, ports=rings)
    if free_cpus and len(scenario.engine.cpus) < len(scenario.ports):
        cpus = (*scenario.engine.cpus, min(free_cpus))
        yield Experiment.MORE_ENGINE_CORES, replace(scenario, engine=replace(scenario.engine, cpus=cpus))
    if scenario.established:  # the other way a balancer takes only what its backends answer
        return
    yield Experiment.BOTH_WAYS, replace(scenario, streams=_answered(scenario.streams))


def _answered(streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """The streams, and an answer to each that has none: the same five-tuples the other way round."""
    ways = {(stream.tx_port, stream.rx_port) for stream in streams}
    return (*streams, *(_answer(stream) for stream in streams if (stream.rx_port, stream.tx_port) not in ways))


def _answer(stream: Stream) -> Stream:
    return replace(
        stream,
        tx_port=stream.rx_port,
        rx_port=stream.tx_port,
        eth_src=stream.eth_dst,
        eth_dst=stream.eth_src,
        ipv4_src=stream.ipv4_dst,
        ipv4_dst=stream.ipv4_src,
        udp_src=stream.udp_dst,
        udp_dst=stream.udp_src,
        order=tuple(_OPPOSITE[name] for name in stream.order),
    )


def _short(stream: Stream) -> Stream:
    return replace(stream, frame_bytes=SHORTEST_SEGMENT if stream.segment else SHORTEST)


def _few(stream: Stream) -> Stream:
    return replace(stream, flows=min(stream.flows, FEW))
