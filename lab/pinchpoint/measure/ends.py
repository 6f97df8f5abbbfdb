"""The engine's ends of a service: its clients behind one port of the device, its backends behind another."""

from dataclasses import dataclass

from pinchpoint.engine.connections import Dpdk
from pinchpoint.measure.standing import Standing
from pinchpoint.model.scenario import Service


@dataclass(frozen=True)
class Ends:
    """How the engine opens them."""

    words: tuple[str, str]  # the two ports, as its command line has them
    dpdk: Dpdk | None  # where they are ports of DPDK


def ends_of(bench: Standing, service: Service) -> Ends:
    """The ends on a bench that stands."""
    ports = {port.name: (number, port) for number, port in enumerate(bench.scenario.ports)}
    clients, servers = (
        bench.setup.bench.attachment(*ports[name]).word for name in (service.client_port, service.server_port)
    )
    eal = bench.setup.engine.eal_args
    ring = min(port.ring for port in bench.scenario.ports)
    return Ends((clients, servers), Dpdk(eal, ring) if eal else None)
