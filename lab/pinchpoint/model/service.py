"""Words of a balanced service: how connections are dealt, rewritten and closed, and who is behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import gcd
from typing import Final

from pinchpoint.model import addresses


class Scheduler(StrEnum):
    """How connections are dealt to backends."""

    ROUND_ROBIN = "round-robin"
    HASH = "hash"  # of the client's address and port
    SOURCE = "source-hash"  # of its address alone: all connections of a client go to one backend
    LEAST = "least-connections"  # to the backend that has the fewest open ones

    @property
    def is_hash(self) -> bool:
        """Whether each tuple has a backend of its own."""
        return self in (Scheduler.HASH, Scheduler.SOURCE)


class Closer(StrEnum):
    """Which side closes a connection first, so that it keeps the address and port in TIME-WAIT (RFC 9293)."""

    CLIENT = "client"
    BACKEND = "backend"


class Transport(StrEnum):
    """What carries connections: over UDP each is a request and its answer, a datagram each."""

    TCP = "tcp"
    UDP = "udp"


class ProxyHeader(StrEnum):
    """The form of the PROXY protocol's header, in which a proxy tells a backend its client."""

    TEXT = "v1"
    BINARY = "v2"


class Mode(StrEnum):
    """What a balancer rewrites."""

    FULL_NAT = "full-nat"  # both addresses: backends see one of the balancer's
    DNAT = "dnat"  # the destination: backends see the client's
    DIRECT = "direct-return"  # the Ethernet address alone: backends answer the client past it


NAT: Final = (Mode.FULL_NAT, Mode.DNAT)
"""The modes in which answers take the way back through the device."""


class Family(StrEnum):
    """Of which addresses the clients and the service are, and of which the backends."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"
    NAT64 = "NAT64"  # clients use IPv6, backends IPv4
    NAT46 = "NAT46"  # the other way round

    @classmethod
    def of(cls, service: str, backend: str) -> "Family":
        """By the address of the service and of a backend."""
        words = {(False, False): cls.IPV4, (True, True): cls.IPV6, (True, False): cls.NAT64, (False, True): cls.NAT46}
        return words[addresses.is_v6(service), addresses.is_v6(backend)]


@dataclass(frozen=True)
class Backend:
    """A real server behind a balancer: where it listens, and its weight."""

    address: str
    port: int
    weight: int = 1  # its share of the connections, relative to those of the others

    @property
    def end(self) -> str:
        """Its address and port in one word."""
        return addresses.end(self.address, self.port)


def weights(backends: Sequence[Backend]) -> tuple[int, ...]:
    """Of the backends, without a common divisor."""
    divisor = gcd(*(backend.weight for backend in backends))
    return tuple(backend.weight // divisor for backend in backends)
