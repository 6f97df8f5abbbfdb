"""The reference device as a balancer (`pinchpoint-engine balance`): what is asked of it, its limits, its table."""

import signal
from collections.abc import Iterator
from typing import Final

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.resource import Relay
from pinchpoint.dut.device import RawScenario
from pinchpoint.dut.reference.account import LOCAL_USED, REFUSED_LOCAL, REFUSED_TABLE, TABLE_USED, Balanced, Ports
from pinchpoint.dut.reference.spec import BALANCING, KEYS, ReferenceDut, shown, words
from pinchpoint.dut.services import await_forgotten
from pinchpoint.host.interface import Host
from pinchpoint.keys.key import Key, Unset
from pinchpoint.keys.source import Source
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Range, Service

LARGEST_TABLE: Final = 1 << 22
MOST_LOCAL_ENDS: Final = 1 << 28
_LOCAL_PORTS: Final = 64_511  # 1025-65535, unless the service says otherwise
_OF_BOTH: Final = ("cpus", "rate_fps", "ring", "seed")
_FLUSH_S: Final = 2.0
RING_FULL: Final = "reference/port/*/ring"  # frames that waited for service in vain


def _unset(key: Key) -> object:
    default = None if isinstance(key.default, Unset) else key.default
    return tuple(default) if isinstance(default, list) else default


def check(raw: RawScenario, source: Source) -> None:
    """A balancer has the keys of one, a forwarder those of the other, and what is asked for fits its memory."""
    dut, service = raw.dut, raw.tables.get("service") or {}
    own = {key.name for key in BALANCING}
    for key in KEYS.dut:
        foreign = key.name not in own and key.name not in _OF_BOTH if service else key.name in own
        if foreign and dut.get(key.name) != _unset(key):
            whose = "a [service]: the device balances" if service else "no [service]: the device forwards"
            source.problem(("dut", key.name), f"expected none with {whose}")
    if service:
        _check_service(raw, source)


def _check_service(raw: RawScenario, source: Source) -> None:
    dut, service, backends = raw.dut, raw.tables["service"], len(raw.arrays.get("backend", ()))
    if (service.get("max_connections") or 0) > LARGEST_TABLE:
        source.mismatch(
            ("service", "max_connections"), f"at most {LARGEST_TABLE:,} of reference", service["max_connections"]
        )
    local = service.get("local")
    ports = service.get("local_ports")
    if isinstance(local, Range):
        ends = local.count * (ports.count if isinstance(ports, Range) else _LOCAL_PORTS) * backends
        if ends > MOST_LOCAL_ENDS:
            expected = f"at most {MOST_LOCAL_ENDS:,} local addresses and ports of all backends together"
            source.problem(("service", "local"), f"expected {expected}, found {ends:,}")
    for key in ("toa", "reuses_after"):
        if dut.get(key) and local is None:
            source.problem(("dut", key), 'expected none without mode = "full-nat"')
    weights = dut.get("unfair") or ()
    if weights and (len(weights) != backends or not any(weights)):
        source.mismatch(
            ("dut", "unfair"), f"{backends} numbers, one for each [[backend]], and not only zeros", list(weights)
        )
    slow = dut.get("slow_backend")
    if slow is not None and slow >= backends:
        source.mismatch(("dut", "slow_backend"), f"the number of a [[backend]], 0 to {backends - 1}", slow)


def options(dut: ReferenceDut, service: Service) -> Iterator[str]:
    """Options of `pinchpoint-engine balance`, word by word."""
    ports = service.local_ports if service.local else None
    stages = ((stage, getattr(service, f"{stage}_s")) for stage in ("opening", "established", "closed"))
    return words(
        ("service", service.end),
        ("scheduler", service.scheduler.value),
        *(("backend", backend.end) for backend in service.backends),
        ("direct", service.is_direct),
        ("local", service.local.as_addresses() if service.local else None),
        ("local-ports", f"{ports.first}-{ports.last}" if ports else None),
        ("connections", shown(service.max_connections, "{}")),
        *((f"{stage}-timeout", shown(seconds, "{:g}s")) for stage, seconds in stages),
        ("rate", shown(dut.rate_fps, "{:.0f}")),
        ("ring", str(dut.ring)),
        ("seed", str(dut.seed)),
        ("new-connection-cost", shown(dut.new_connection_us or None, "{:g}us")),
        ("toa", dut.toa),
        ("rewrite-seq", dut.rewrites_seq),
        ("weights", ",".join(map(str, dut.unfair))),
        ("leak", dut.leaks),
        ("reuse-after", shown(dut.reuses_after, "{}")),
        ("break-payload", shown(dut.breaks_payload, "{}")),
        ("drop-syn", shown(dut.drops_syn, "{}")),
        ("slow-backend", shown(dut.slow_backend, f"{{}}:{dut.slow_ms:g}ms")),
    )


class ReferenceBalancer:
    """A reference balancer that stands; it answers once the engine has opened its ports."""

    def __init__(self, ports: Ports[Balanced], host: Host, relay: Relay) -> None:
        self.ports, self._host, self._relay = ports, host, relay

    def limits(self) -> tuple[Limit, ...]:
        """Its table and its local addresses and ports, as its account has them. Raises DutError."""
        told = self.ports.account()
        held_s = told.closed_timeout_s
        settings = "max_connections, closed_s"
        table = Limit(Resource.TABLE, told.table.size, held_s, settings, TABLE_USED, (REFUSED_TABLE,))
        worker = Limit(Resource.WORKER, None, None, "rate_fps, new_connection_us", refused=(RING_FULL,))
        if told.local_ends is None:
            return (table, worker)
        source = "local, local_ports, for each backend; closed_s"
        size = told.local_ends.size
        return (table, worker, Limit(Resource.LOCAL_PORTS, size, held_s, source, LOCAL_USED, (REFUSED_LOCAL,)))

    def flush(self) -> None:
        """Have it forget all connections, and wait until it has. Raises BenchError."""
        self._host.signal([daemon_pid(self._relay, self._host)], signal.SIGUSR2)
        if left := await_forgotten(self.tracked, _FLUSH_S, 0.002):
            raise BenchError(f"the reference balancer still remembers {left:,} connections after a flush")

    def tracked(self) -> int:
        """Places of its table that are occupied."""
        return self.ports.account().table.used
