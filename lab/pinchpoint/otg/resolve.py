"""Gateways asked for by ARP (RFC 826): the engine sends the requests and keeps what arrives as a capture."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pinchpoint.engine import protocol
from pinchpoint.engine.streams import Arp, Ethernet, Layer, Rate, Shape, Size, Steady, StreamRequest, Template, Vlan
from pinchpoint.otg.devices import TPIDS, Endpoint
from pinchpoint.otg.patterns import ipv4_text, mac_text

ASKED_S: Final = 0.5
ASK_FPS: Final = 10.0
KEPT: Final = 1000  # frames, for a port on which other things arrive
_PACKET_BLOCK: Final = 6  # pcapng: enhanced packet block
_ARP: Final = 0x0806
_TAGS: Final = frozenset(TPIDS.values())
_NOBODY: Final = "00:00:00:00:00:00"


def questions(ends: Sequence[Endpoint], file: str, epoch: int) -> protocol.Run:
    """A trial that asks for the gateway of each end."""
    return protocol.Run(
        trial="otg-arp", epoch=epoch, duration_s=ASKED_S, drain_s=0.1, sample_interval_s=None, probe_cores=(),
        quiet_within_s=0.0, verify_checksums=False, tx_burst=1, latency_every=1, loopback=False,
        capture=protocol.CaptureRequest(file, KEPT), slices=None,
        streams=tuple(_question(number, end) for number, end in enumerate(ends)),
    )  # fmt: skip


def _question(number: int, end: Endpoint) -> StreamRequest:
    mac = mac_text(end.mac)
    tags = tuple(Layer(vlan=Vlan(one["id"], one["priority"], False, TPIDS[one["tpid"]])) for one in end.vlans)
    asked = Arp(mac, ipv4_text(end.address), _NOBODY, ipv4_text(end.gateway))
    layers = (Layer(ethernet=Ethernet(mac, "ff:ff:ff:ff:ff:ff")), *tags, Layer(arp=asked))
    return StreamRequest(
        id=number, tx_port=end.port, rx_port=None, rate=Rate(fps=ASK_FPS), shape=Shape(steady=Steady()),
        size=Size(fixed=64), template=Template(layers=layers), stamped=False, wrong_checksums=(), seed=0, flows=1,
        fields=(), tracked_flows=0,
    )  # fmt: skip


def answered(capture: bytes) -> Mapping[int, int]:
    """MAC addresses by IPv4 address, from the ARP replies of a pcapng file of the engine."""
    found = {}
    for frame in _frames(capture):
        at = 12
        while frame[at : at + 2] and int.from_bytes(frame[at : at + 2], "big") in _TAGS:
            at += 4
        body = frame[at + 2 : at + 30]
        if int.from_bytes(frame[at : at + 2], "big") == _ARP and len(body) == 28 and body[6:8] == b"\0\2":
            found[int.from_bytes(body[14:18], "big")] = int.from_bytes(body[8:14], "big")
    return found


def _frames(capture: bytes) -> Iterator[bytes]:
    """Frames of a little-endian pcapng file (draft-ietf-opsawg-pcapng), up to where it is cut off."""
    at = 0
    while at + 12 <= len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        if length < 12 or at + length > len(capture):
            return
        if kind == _PACKET_BLOCK and length >= 32:
            kept = struct.unpack_from("<I", capture, at + 20)[0]
            yield capture[at + 28 : at + 28 + min(kept, length - 32)]
        at += length
