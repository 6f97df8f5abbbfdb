"""What a scenario says of the measures of kernel sockets: `bandwidth`, `rr` and `crr`.

Workloads over kernel sockets between two hosts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.dut.device import Keys
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import Arrays
from pinchpoint.model.scenario import Between


@dataclass(frozen=True)
class Sockets(Between):
    """A workload over kernel sockets between two hosts."""

    kind: ClassVar[str]
    connections: int
    request_bytes: int
    response_bytes: int
    rate_tps: float | None  # planned transactions per second; None: as fast as they come
    warm_up_s: float
    duration_s: float
    repeats: int
    timeout_s: float
    max_repeats: int = 3  # windows made beyond `repeats`, in place of invalid ones


@dataclass(frozen=True)
class Bandwidth(Sockets):
    """Bytes from client to server, as fast as they go."""

    kind: ClassVar[str] = "bandwidth"


@dataclass(frozen=True)
class RequestResponse(Sockets):
    """Requests and responses over standing connections."""

    kind: ClassVar[str] = "rr"


@dataclass(frozen=True)
class ConnectRequestResponse(Sockets):
    """A connection for each request."""

    kind: ClassVar[str] = "crr"


SOCKETS: Final = Table("sockets",
    "A workload over kernel sockets between two hosts. `bandwidth`: bytes from client to server as fast as they go. "
    "`rr`: requests and responses over standing connections. `crr`: a connection for each request.", (
    Key("client", kinds.port_name(), "The host that connects."),
    Key("server", kinds.port_name(), "The host that accepts."),
    Key("connections", kinds.integer(1, 16_384), "Connections, or transactions under way at once.", 1),
    Key("request_bytes", kinds.integer(1, 1_048_576), "Bytes of a request; with bandwidth, of one write.",
        Computed("1; 131,072 with bandwidth")),
    Key("response_bytes", kinds.integer(0, 1_048_576), "Bytes of a response; with bandwidth there is none.",
        Computed("1; 0 with bandwidth")),
    Key("rate_tps", kinds.number(0.1, 1e8), "Planned transactions per second.", Unset("each begins when one ends")),
    Key("warm_up_s", kinds.number(0, 3600), "Time before the window, not counted, seconds.", 0.5),
    Key("duration_s", kinds.number(0.05, 86_400), "Time counted, the window, seconds.", 10.0),
    Key("repeats", kinds.integer(1, 100), "How often it is all done, each time on new connections.", 3),
    Key("timeout_s", kinds.number(0.1, 60), "A transaction that takes longer has failed, seconds.", 10.0),
    Key("max_repeats", kinds.integer(0, 100),
        "Windows made beyond `repeats` in place of those that were disturbed, all together.", 3),
), measures=tuple(workload.kind for workload in (Bandwidth, RequestResponse, ConnectRequestResponse)))  # fmt: skip


def check_stream(source: Source, sockets: Values, arrays: Arrays, _: Keys) -> None:
    """Client and server are two hosts, and nothing answers. Fills in the defaults."""
    _check_ends(source, sockets, arrays["host"])
    if sockets.get("response_bytes"):
        source.mismatch(("sockets", "response_bytes"), "0 with bandwidth", sockets["response_bytes"])
    if sockets.get("rate_tps") is not None:
        source.mismatch(("sockets", "rate_tps"), "none with bandwidth", sockets["rate_tps"])
    sockets.setdefault("request_bytes", 131_072)
    sockets.setdefault("response_bytes", 0)


def check_requests(source: Source, sockets: Values, arrays: Arrays, _: Keys) -> None:
    """Client and server are two hosts, and every request is answered. Fills in the defaults."""
    _check_ends(source, sockets, arrays["host"])
    sockets.setdefault("request_bytes", 1)
    sockets.setdefault("response_bytes", 1)
    if sockets["response_bytes"] == 0:
        source.mismatch(("sockets", "response_bytes"), "1 or more where requests are answered", 0)


def _check_ends(source: Source, sockets: Values, hosts: Sequence[Element]) -> None:
    names = [host.values["name"] for host in hosts if "name" in host.values]
    for key in ("client", "server"):
        if key in sockets and sockets[key] not in names:
            expected = f"the name of a [[host]] ({', '.join(names) or 'there is none'})"
            source.mismatch(("sockets", key), expected, sockets[key])
    if "client" in sockets and sockets["client"] == sockets.get("server"):
        source.problem(("sockets", "server"), f'expected a host other than the client, found "{sockets["client"]}"')
