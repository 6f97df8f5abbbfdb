"""Connections over frames: the engine's command `connect` and its account (docs/engine.md, "Connections")."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pinchpoint.host.interface import CommandFailed, Environment, Host
from pinchpoint.model.errors import EngineError
from pinchpoint.model.scenario import Service

SPARE_S = 30.0  # for the start of the engine, its links, and a host that is busy
RING = 4096
LINK_S = 20.0  # a switch looks for a vhost server about once a second


@dataclass(frozen=True)
class Dpdk:
    """How the engine opens ports of DPDK."""

    eal: Sequence[str]  # arguments of its environment layer
    ring: int  # frames in a port's rings: a vhost-user port takes no more than it has


@dataclass(frozen=True)
class Load:
    """What is opened."""

    connections: int
    rate_cps: float
    requests: int
    timeout_s: float
    hold_s: float = 0.0  # for which each stays open after its first answer; needs a second request


class Times(msgspec.Struct, frozen=True):
    """Since a connection was due, nanoseconds."""

    count: int
    p50: int
    p99: int
    max: int


class Source(msgspec.Struct, frozen=True):
    """An address that backends saw."""

    address: str
    count: int


class Sources(msgspec.Struct, frozen=True):
    """Connections by the address that the backend saw; `others` came from addresses that are not listed."""

    listed: tuple[Source, ...]
    others: int


class Client(msgspec.Struct, frozen=True):
    """What became of the connections: opened = completed + refused + reset + timed out + unfinished."""

    opened: int
    shortfall: int
    established: int
    answered: int
    completed: int
    refused: int
    reset: int
    timed_out_connecting: int
    timed_out_answering: int
    timed_out_closing: int
    unfinished: int
    wrong_payload: int
    wrong_backend: int
    toa_right: int
    toa_wrong: int
    reused: int | None  # whose backend saw the address and port of another open one; None: not looked at
    duplicated: int
    foreign: int
    backends: tuple[int, ...]
    local: Sources
    connect_ns: Times | None
    answer_ns: Times | None
    close_ns: Times | None

    @property
    def failures(self) -> dict[str, int]:
        """How connections failed, by words; those that did."""
        counts = {
            "refused": self.refused,
            "reset": self.reset,
            "timed out connecting": self.timed_out_connecting,
            "timed out answering": self.timed_out_answering,
            "timed out closing": self.timed_out_closing,
            "unfinished": self.unfinished,
        }
        return {words: count for words, count in counts.items() if count}


class Others(msgspec.Struct, frozen=True):
    """Frames at one port that were no segments."""

    port: str
    fragments: int
    wrong_checksums: int
    malformed: int


class Account(msgspec.Struct, frozen=True):
    """The last line that the command prints."""

    elapsed_s: float
    client: Client | None
    others: tuple[Others, ...]


def command(
    engine: Sequence[str], core: int, ends: Sequence[str], service: Service, load: Load, dpdk: Dpdk | None = None
) -> list[str]:
    """The command line: the client behind the first of the ports `ends`, the backends behind the second.

    `dpdk`: where the ports are DPDK's.
    """
    ring = str(dpdk.ring if dpdk else RING)
    backends = [word for one in service.backends for word in ("--backend", f"{one.address}:{one.port}")]
    return [
        *engine,
        "connect",
        *ends,
        *("--to", f"{service.address}:{service.port}", "--clients", service.clients.as_ipv4(), *backends),
        *("--rate", str(round(load.rate_cps)), "--count", str(load.connections), "--requests", str(load.requests)),
        *("--timeout", f"{load.timeout_s}s", "--core", str(core), "--json"),
        *("--rx-ring", ring, "--tx-ring", ring),
        *(("--hold", f"{load.hold_s}s", "--hold-before", "1") if load.hold_s else ()),
        *(("--eal", " ".join(dpdk.eal), "--link-timeout", f"{LINK_S:g}s") if dpdk else ()),
    ]


def connect(host: Host, argv: Sequence[str], environment: Environment, load: Load) -> Account:
    """Open the connections and wait until each has ended. Raises EngineError."""
    lasting_s = load.connections / load.rate_cps + load.timeout_s + load.hold_s
    try:
        said = host.run(argv, environment=environment, timeout_s=lasting_s + SPARE_S)
    except CommandFailed as error:
        raise EngineError(f"the engine opened no connections: {error.output}") from error
    return parse(said)


def parse(said: str) -> Account:
    """The account in what the command printed. Raises EngineError."""
    last = said.strip().rpartition("\n")[2]
    try:
        return msgspec.json.decode(last, type=Account)
    except msgspec.MsgspecError as error:
        raise EngineError(f"the engine's account cannot be read: {error}: {last[:200]}") from error
