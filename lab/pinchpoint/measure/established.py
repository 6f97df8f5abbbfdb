"""Connections through a balancer that are opened before frames are measured, and stand."""

from collections.abc import Sequence
from dataclasses import replace

from pinchpoint.engine.connections import Account, connect, left, standing
from pinchpoint.measure.ends import ends_of
from pinchpoint.measure.standing import Standing, Undoable
from pinchpoint.model.errors import BenchError, EngineError, InputError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Established, Scenario, Service

_HELD = (Resource.LOCAL_PORTS, Resource.TABLE, Resource.DESCRIPTORS)  # one place for each that stands
HINT = 'measure = "verify" shows what the service does with each; more established.timeout_s, or fewer connections'


def established(bench: Standing) -> Scenario:
    """Open the connections that the scenario's frames belong to; the scenario with frames to where they went.

    The engine that opened them has ended when this returns, and no end has closed one: a device knows them until
    its time-out. Raises BenchError where one of them was not established, EngineError.
    """
    scenario = bench.scenario
    service, wanted = scenario.service, scenario.established
    if service is None or wanted is None:
        raise InputError(f"{scenario.path}: expected a [service] with connections that stand")
    (stream,) = scenario.streams
    ends = ends_of(bench, service)
    argv = standing(bench.engine, scenario.engine.cpus[0], ends.words, service, wanted, stream, ends.dpdk)
    bench.on_stoppable(Undoable())
    if balancer := bench.live.balancer():
        require_places(balancer.limits(), wanted)
    account = connect(bench.host, argv, bench.setup.places.environment, left(wanted))
    next_hop = judged(account, service, wanted)
    bench.record.note_facts({"established connections": _told(bench, wanted)})
    return replace(scenario, streams=(replace(stream, eth_dst=next_hop),))


def require_places(limits: Sequence[Limit], wanted: Established) -> None:
    """Raises BenchError where connections that all stand at the same time have no places."""
    for limit in limits:
        if limit.size is not None and limit.size < wanted.connections and limit.resource in _HELD:
            wish = f"{wanted.connections:,} connections stand at the same time"
            message = f"{wish}, and {limit.resource} are {limit.size:,}: {limit.source}"
            raise BenchError(message, "fewer established.connections")


def judged(account: Account, service: Service, wanted: Established) -> str:
    """The Ethernet address at which the service is. Raises BenchError, EngineError."""
    client = account.client
    if client is None or account.next_hop is None:
        raise EngineError(f"nobody answered for {service.address}: the engine found no way to the service")
    if client.established < wanted.connections:
        failed = ", ".join(f"{count:,} {words}" for words, count in client.failures.items()) or "the others not opened"
        of = f"{client.established:,} of {wanted.connections:,} connections were established"
        raise BenchError(f"{of} through {service.address}:{service.port}: {failed}", HINT)
    return account.next_hop


def _told(bench: Standing, wanted: Established) -> str:
    """How many were opened, and how many the device says it knows."""
    balancer = bench.live.balancer()
    tracked = balancer.tracked() if balancer else None
    known = "" if tracked is None else f"; the device knows {tracked:,}"
    return f"{wanted.connections:,} opened{known}"
