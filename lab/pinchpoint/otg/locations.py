"""Locations of ports: what a script may name, and what the engine opens for it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.engine.protocol import BackendName
from pinchpoint.host import interfaces
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import InputError

KERNEL: Final = ("af_packet", "af_xdp")
BACKENDS: Final[tuple[BackendName, ...]] = ("mem", "af_packet", "af_xdp", "dpdk")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
EXPECTED: Final = "expected [LOCATION=][BACKEND:]DEVICE[@NETNS], as in veth0@ns1, eth1=af_xdp:veth0 or mem:pair"


@dataclass(frozen=True)
class Place:
    """What the engine opens."""

    backend: BackendName
    device: str
    netns: str | None


def allowed(words: Sequence[str]) -> Mapping[str, Place]:
    """The places by the location that a script writes. Raises InputError."""
    places: dict[str, Place] = {}
    for word in words:
        alias, place = _parsed(word)
        if alias in places:
            raise InputError(
                f"PORT {word}: the location {alias!r} is given twice", "give each port a location of its own"
            )
        places[alias] = place
    return places


def require_devices(places: Mapping[str, Place], host: Host) -> None:
    """Raises InputError if the interface of a port is not there."""
    for place in places.values():
        name, namespace = place.device.partition(",")[0], place.netns
        if place.backend in KERNEL and not interfaces.exists(host, name, namespace):
            where = f"namespace {namespace}" if namespace else "this machine"
            raise InputError(f"PORT {place.device}: {where} has no interface {name}", "ip -br link lists them")


def _parsed(word: str) -> tuple[str, Place]:
    alias, equals, rest = word.partition("=")
    if not equals or re.match(rf"({'|'.join(BACKENDS)}):", word):
        # Options of a device have an equals sign too: what begins with a backend has no alias.
        alias, rest = word, word
    backend: BackendName = next((backend for backend in BACKENDS if rest.startswith(f"{backend}:")), "af_packet")
    device = rest.removeprefix(f"{backend}:")
    netns = None
    if backend in KERNEL and "@" in device:
        device, _, netns = device.rpartition("@")
    if not alias or not device or not word.isprintable() or (netns is not None and not _NAMESPACE.fullmatch(netns)):
        raise InputError(f"PORT {word!r}: {EXPECTED}")
    return alias, Place(backend, device, netns)
