"""The engine's ends of a service: its clients behind one port of the device, its backends behind another."""

from dataclasses import dataclass

from pinchpoint.engine.connections import Dpdk, Load, command, connect
from pinchpoint.measure.standing import Standing
from pinchpoint.model.scenario import Service


@dataclass(frozen=True)
class Ends:
    """How the engine opens them."""

    words: tuple[str, str]  # the two ports, as its command line has them
    dpdk: Dpdk | None  # where they are ports of DPDK


def ends_of(bench: Standing, service: Service) -> Ends:
    """The ends on a bench that stands. Raises EngineError."""
    ports = {port.name: (number, port) for number, port in enumerate(bench.scenario.ports)}
    clients, servers = (
        bench.setup.bench.attachment(*ports[name]).word for name in (service.client_port, service.server_port)
    )
    eal = bench.setup.engine.eal_args
    if not eal:
        return Ends((clients, servers), None)
    ends = Ends((clients, servers), Dpdk(eal, min(port.ring for port in bench.scenario.ports)))
    _meet(bench, service, ends)
    return ends


def _meet(bench: Standing, service: Service, ends: Ends) -> None:
    """Open one connection that is in no account: a device on rings answers nothing before they have been joined.

    Raises EngineError.
    """
    load = Load(connections=1, rate_cps=1e3, requests=1, timeout_s=1.0)
    argv = command(bench.engine, bench.scenario.engine.cpus[0], ends.words, service, load, ends.dpdk)
    connect(bench.host, argv, bench.setup.places.environment, load)
