"""What a scenario says of a reference device: its keys, and the options of the engine that follow from them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.dut.device import Keys, RawScenario
from pinchpoint.dut.services import BY_TUPLE, TRACKING, Services
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.model.scenario import Family, Mode, Range, Service

PLACES = ("rx", "ring", "table", "rules", "tx")
VHOST_USER, VETH = "vhost-user", "veth"
LARGEST_TABLE: Final = 1 << 22
MOST_LOCAL_ENDS: Final = 1 << 28
_LOCAL_PORTS: Final = 64_511  # 1025-65535, unless the service says otherwise
_OF_BOTH: Final = ("cpus", "rate_fps", "ring", "seed")


@dataclass(frozen=True)
class ReferenceDut:
    """A forwarder of known truth; each loss is a share of the frames that reach the place."""

    cpus: tuple[int, ...]  # one
    rate_fps: float | None  # None: as frames come
    ring: int
    new_flow_us: float
    drop: str  # a rule, as `pinchpoint-engine forward --drop` has it; empty: none
    rx_loss: float
    table_loss: float
    tx_loss: float
    pause_every_ms: float | None
    pause_ms: float
    offload: str  # which flows hardware serves: "all", "two-way", or empty: none
    offload_rate_fps: float | None  # None: as frames come
    offloaded: bool
    hides: str  # a place, or empty
    seed: int
    # Of a balancer, which has a [service].
    new_connection_us: float = 0.0
    toa: bool = False
    rewrites_seq: bool = False
    unfair: tuple[int, ...] = ()  # connections of each backend in a round; empty: one each
    leaks: bool = False
    reuses_after: int | None = None  # connections; None: never while in use
    breaks_payload: int | None = None  # one of this number of segments to a client
    drops_syn: int | None = None  # one of this number of SYNs
    slow_backend: int | None = None  # its number
    slow_ms: float = 0.0
    io: str = VHOST_USER  # whose sockets the engine serves; or VETH, whose far ends it sends to by packet sockets
    kind: str = "reference"

    polls = True

    def options(self) -> Iterator[str]:
        """Options of `pinchpoint-engine forward`, word by word; faults that are not planted are left out."""
        losses = (("rx", self.rx_loss), ("table", self.table_loss), ("tx", self.tx_loss))
        return _words(
            ("rate", _shown(self.rate_fps, "{:.0f}")), ("ring", str(self.ring)),
            ("new-flow-cost", _shown(self.new_flow_us or None, "{:g}us")), ("drop", self.drop),
            *(("loss", _shown(share or None, f"{place}:share={{:.9f}}")) for place, share in losses),
            ("pause", _shown(self.pause_every_ms, f"{{:g}}ms:{self.pause_ms:g}ms")),
            ("offload", self.offload),
            ("offload-rate", _shown(self.offload_rate_fps, "{:.0f}") if self.offload else None),
            ("offloaded", self.offloaded), ("seed", str(self.seed)), ("hide", self.hides),
        )  # fmt: skip


def balancing_options(dut: ReferenceDut, service: Service) -> Iterator[str]:
    """Options of `pinchpoint-engine balance`, word by word."""
    ports = service.local_ports if service.local else None
    weights = dut.unfair or (service.weights if len(set(service.weights)) > 1 else ())
    stages = ((stage, getattr(service, f"{stage}_s")) for stage in ("opening", "established", "closed"))
    return _words(
        ("service", service.end), ("scheduler", service.scheduler.value),
        *(("backend", backend.end) for backend in service.backends),
        ("direct", service.is_direct),
        ("local", service.local.as_addresses() if service.local else None),
        ("local-ports", f"{ports.first}-{ports.last}" if ports else None),
        ("connections", _shown(service.max_connections, "{}")),
        *((f"{stage}-timeout", _shown(seconds, "{:g}s")) for stage, seconds in stages),
        ("rate", _shown(dut.rate_fps, "{:.0f}")), ("ring", str(dut.ring)), ("seed", str(dut.seed)),
        ("new-connection-cost", _shown(dut.new_connection_us or None, "{:g}us")), ("toa", dut.toa),
        ("rewrite-seq", dut.rewrites_seq), ("weights", ",".join(map(str, weights))), ("leak", dut.leaks),
        ("reuse-after", _shown(dut.reuses_after, "{}")), ("break-payload", _shown(dut.breaks_payload, "{}")),
        ("drop-syn", _shown(dut.drops_syn, "{}")),
        ("slow-backend", _shown(dut.slow_backend, f"{{}}:{dut.slow_ms:g}ms")),
    )  # fmt: skip


def _shown(value: float | None, form: str) -> str | None:
    """The value of an option, in that form; None: it is not set."""
    return None if value is None else form.format(value)


def _words(*options: tuple[str, str | bool | None]) -> Iterator[str]:
    """`--NAME VALUE` of each option that is set, word by word; `--NAME` of one that is True."""
    for name, value in options:
        if value:
            yield f"--{name}"
        if value and isinstance(value, str):
            yield value


_SHARE = kinds.number(0.0, 1.0)
_NUMBER, _ADDRESS = r"(?:stream|every|src-port|dst-port)=\d{1,9}", r"(?:src|dst)=\d{1,3}(?:\.\d{1,3}){3}"
_TERM = rf"(?:{_NUMBER}|{_ADDRESS}|protocol=(?:udp|tcp|icmp|\d{{1,3}}))"
_RULE = re.compile(rf"(?:{_TERM}(?:,{_TERM})*)?", re.ASCII)
_DROP = kinds.matching(_RULE, 'a rule such as "protocol=udp,dst=198.19.0.1,dst-port=53,every=10", or nothing')


def _weights() -> kinds.Kind:
    weight = kinds.integer(0, 1000)

    def read(value: Any) -> tuple[int, ...]:
        kinds.check(isinstance(value, list | tuple))
        return tuple(weight.read(element) for element in value)

    return kinds.Kind("a list of whole numbers from 0 to 1,000", read, schema={"type": "array", "items": weight.schema})


_EVERY = kinds.integer(1, 1_000_000_000)
_NEVER = Unset("never")
BALANCING = (
    Key("new_connection_us", kinds.number(0, 1e6), "As a balancer: what a new connection takes, microseconds.", 0.0),
    Key("toa", kinds.boolean(), "As a balancer: whether a TOA option tells backends the client's end.", False),
    Key("rewrites_seq", kinds.boolean(), "As a balancer: whether it rewrites the client's sequence numbers.", False),
    Key("unfair", _weights(),
        "As a balancer, wrong on purpose: connections of each backend in a round of the scheduler; empty: one each.",
        []),
    Key("leaks", kinds.boolean(), "As a balancer, wrong on purpose: whether it never forgets a connection.", False),
    Key("reuses_after", kinds.integer(1, 1_000_000),
        "As a balancer, wrong on purpose: connections to a backend after which the local addresses and ports begin "
        "again, whether in use or not.", _NEVER),
    Key("breaks_payload", _EVERY,
        "As a balancer, wrong on purpose: of this number of segments to a client, one has a changed bit of payload.",
        _NEVER),
    Key("drops_syn", _EVERY, "As a balancer, wrong on purpose: of this number of SYNs, one is dropped.", _NEVER),
    Key("slow_backend", kinds.integer(0, 255),
        "As a balancer: the number of the backend that is reached late, by slow_ms.", Unset("none")),
    Key("slow_ms", kinds.number(0, 60_000), "As a balancer: how late that backend is reached.", 0.0),
)  # fmt: skip
KEYS = Keys(
    dut=(
        Key("io", kinds.word(VHOST_USER, VETH),
            f'"{VHOST_USER}": rings, which the engine serves; "{VETH}": ends of veth pairs, read by packet sockets.',
            VHOST_USER),
        Key("cpus", kinds.cpus(), "The CPU of its thread.", [1]),
        Key("rate_fps", kinds.number(1, 1e9), "Frames served a second in each direction.", Unset("as they come")),
        Key("ring", kinds.integer(1, 1 << 20), "Frames that wait for service at most, in each direction.", 1024),
        Key("new_flow_us", kinds.number(0, 1e6), "What a frame of a new flow takes longer, microseconds.", 0.0),
        Key("drop", _DROP, "Frames that match are dropped: all terms, and of those every N-th; empty: none.", ""),
        Key("rx_loss", _SHARE, "Share of frames lost as they leave a port's ring.", 0.0),
        Key("table_loss", _SHARE, "Share of frames lost once they are served.", 0.0),
        Key("tx_loss", _SHARE, "Share of frames lost before the other port.", 0.0),
        Key("pause_every_ms", kinds.number(0.001, 1e6), "It stands still once in this time.", Unset("never")),
        Key("pause_ms", kinds.number(0, 1e6), "For how long it stands still then.", 0.0),
        Key("offload", kinds.word("", "all", "two-way"),
            "Flows that hardware serves: all from their second frame on, or those whose reply was seen; empty: none.",
            ""),
        Key("offload_rate_fps", kinds.number(1, 1e9), "Frames that the hardware serves a second in each direction.",
            Unset("as they come")),
        Key("offloaded", kinds.boolean(), "Whether it says that every flow is offloaded, whatever is true.", False),
        Key("hides", kinds.word("", *PLACES), "A place whose drops it reports as 0; empty: none.", ""),
        Key("seed", kinds.integer(1, (1 << 31) - 1), "Of the losses, and of a balancer's hashes.", 1),
        *BALANCING,
    ),
    services=Services(BY_TUPLE, tuple(Mode), TRACKING, families=(Family.IPV4, Family.IPV6), has_weights=True),
)  # fmt: skip


def _unset(key: Key) -> object:
    default = None if isinstance(key.default, Unset) else key.default
    return tuple(default) if isinstance(default, list) else default


def check_balancing(raw: RawScenario) -> None:
    """A balancer has the keys of one, a forwarder those of the other, and what is asked for fits its memory."""
    dut, service = raw.dut, raw.tables.get("service") or {}
    own = {key.name for key in BALANCING}
    for key in KEYS.dut:
        foreign = key.name not in own and key.name not in _OF_BOTH if service else key.name in own
        if foreign and dut.get(key.name) != _unset(key):
            whose = "a [service]: the device balances" if service else "no [service]: the device forwards"
            raw.problem(("dut", key.name), f"expected none with {whose}")
    if service:
        _check_service(raw)


def _check_service(raw: RawScenario) -> None:
    dut, service, backends = raw.dut, raw.tables["service"], len(raw.arrays.get("backend", ()))
    if (service.get("max_connections") or 0) > LARGEST_TABLE:
        wanted = f"at most {LARGEST_TABLE:,} of reference"
        raw.mismatch(("service", "max_connections"), wanted, service["max_connections"])
    local = service.get("local")
    ports = service.get("local_ports")
    if isinstance(local, Range):
        ends = local.count * (ports.count if isinstance(ports, Range) else _LOCAL_PORTS) * backends
        if ends > MOST_LOCAL_ENDS:
            expected = f"at most {MOST_LOCAL_ENDS:,} local addresses and ports of all backends together"
            raw.problem(("service", "local"), f"expected {expected}, found {ends:,}")
    for key in ("toa", "reuses_after"):
        if dut.get(key) and local is None:
            raw.problem(("dut", key), 'expected none without mode = "full-nat"')
    weights = dut.get("unfair") or ()
    if weights and (len(weights) != backends or not any(weights)):
        wanted = f"{backends} numbers, one for each [[backend]], and not only zeros"
        raw.mismatch(("dut", "unfair"), wanted, list(weights))
    slow = dut.get("slow_backend")
    if slow is not None and slow >= backends:
        raw.mismatch(("dut", "slow_backend"), f"the number of a [[backend]], 0 to {backends - 1}", slow)
