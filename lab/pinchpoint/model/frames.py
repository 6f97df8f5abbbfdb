"""What the frames of a stream are, whichever way a scenario says it. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from pinchpoint.model.headers import (
    FCS_BYTES,
    HEADERS,
    SHORTEST_BYTES,
    SIGNATURE_BYTES,
    FieldValues,
    length,
    mixes_groups,
    read,
)
from pinchpoint.model.scenario import Layers, Range, Stream

_ADDRESSED: Final = ("ipv4", "ipv6", "udp", "tcp")
_OTHER: Final = {"src": "dst", "sender_mac": "target_mac", "sender_ip": "target_ip"}
_OPPOSITE: Final = {**_OTHER, **{far: near for near, far in _OTHER.items()}}


@dataclass(frozen=True)
class Placed:
    """One header of a frame."""

    name: str
    place: str  # as field programs call it: `ipv4` the outermost, `ipv4[1]` the next one inwards
    fields: Mapping[str, FieldValues]


def headers(stream: Stream) -> tuple[Placed, ...]:
    """The headers of its frames, the outermost first."""
    return placed(stream.layers or _plain(stream))


def placed(layers: Layers) -> tuple[Placed, ...]:
    """Headers as they stand in layers that were checked."""
    seen: dict[str, int] = {}
    made = []
    for layer in layers:
        ((name, written),) = layer.items()
        seen[name] = number = seen.get(name, -1) + 1
        header = HEADERS[name]
        place = (header.program or name) + (f"[{number}]" if number else "")
        fields = {key: read(header.fields[key], value) for key, value in written.items()}
        made.append(Placed(name, place, fields))
    return tuple(made)


def _plain(stream: Stream) -> Layers:
    """The layers of a stream that has none of its own."""
    ip, ports = (stream.ipv4_src, stream.ipv4_dst), (stream.udp_src, stream.udp_dst)
    network = {key: span.as_addresses() for key, span in zip(("src", "dst"), ip, strict=True) if span}
    transport: dict[str, Any] = {key: _ports(span) for key, span in zip(("src", "dst"), ports, strict=True) if span}
    if (segment := stream.segment) is not None:
        transport |= {"seq": segment.seq, "ack": segment.ack, "flags": ["psh", "ack"]}
    ethernet = {"ethernet": {"src": stream.eth_src, "dst": stream.eth_dst}}
    return ethernet, {"ipv4": network}, {"udp" if segment is None else "tcp": transport}


def _ports(span: Range) -> int | str:
    return span.first if span.count == 1 else f"{span.first}-{span.last}"


def moving(stream: Stream) -> dict[str, FieldValues]:
    """The fields that vary, named as field programs name them, the fastest first."""
    varied = varied_of(headers(stream))
    names = stream.order if stream.layers else [_program(stream, name) for name in stream.order]
    return {name: varied[name] for name in names if name in varied}


def _program(stream: Stream, key: str) -> str:
    """The field of a range of a plain stream."""
    header, _, name = key.partition("_")
    return f"{'tcp' if header == 'udp' and stream.segment else header}.{name}"


def varied_of(frame: tuple[Placed, ...]) -> dict[str, FieldValues]:
    """The fields of these headers that vary, in the order of the headers."""
    fields = ((header.place, key, values) for header in frame for key, values in header.fields.items())
    return {f"{place}.{key}": values for place, key, values in fields if values.count > 1}


def flows_of(varied: Mapping[str, FieldValues], *, together: bool) -> int:
    """Frames after which fields repeat that count, or step together; what each frame draws anew repeats nowhere."""
    counts = [values.count for values in varied.values() if values.exponent is None]
    return math.lcm(*counts) if together else math.prod(counts)


def five_tuples(stream: Stream) -> int:
    """How many five-tuples its frames have; at most, unless `is_exact`."""
    if not stream.layers:
        return stream.flows
    own = [values for name, values in moving(stream).items() if _is_of_tuple(name)]
    counted = [values for values in own if values.exponent is None]
    cycle = min(stream.flows, math.prod(values.distinct for values in counted))
    if stream.together:
        cycle = min(cycle, math.lcm(*(values.count for values in counted)))
    return cycle * math.prod(values.count for values in own if values.exponent is not None)


def is_exact(stream: Stream, sent: int) -> bool:
    """Whether `sent` frames have exactly min(sent, `five_tuples`) different five-tuples, rather than at most."""
    varied = moving(stream)
    own = [values for name, values in varied.items() if _is_of_tuple(name)]
    if any(values.is_drawn for values in own):
        return False
    repeats = any(values.distinct < values.count for values in own)
    if len(own) == len(varied) and not repeats:
        return True
    return sent >= stream.flows == flows_of(varied, together=stream.together) and not (repeats and stream.together)


def _is_of_tuple(name: str) -> bool:
    header, _, key = name.partition(".")
    return header.partition("[")[0] in _ADDRESSED and key in _OPPOSITE


def destinations(stream: Stream) -> FieldValues | None:
    """The IPv4 addresses that a router finds behind the Ethernet header; None: another header stands there."""
    _, *inner = headers(stream)
    return inner[0].fields["dst"] if inner and inner[0].name == "ipv4" else None


def macs(stream: Stream) -> FieldValues:
    """The Ethernet addresses that its frames are for."""
    return headers(stream)[0].fields["dst"]


def is_group(values: FieldValues) -> bool:
    """Whether Ethernet addresses are of groups, one of them at least (IEEE 802.3, 3.2.3)."""
    ends = values.numbers[0], values.numbers[-1]
    is_mixed = not values.listed and mixes_groups(*ends, values.step)
    return is_mixed or any(number >> 40 & 1 for number in (*ends, *values.listed))


def least_bytes(frame: tuple[Placed, ...]) -> int:
    """Of a frame with these headers, the engine's signature and the check sequence."""
    headers_bytes = sum(length(header.name, header.fields) for header in frame)
    return max(SHORTEST_BYTES, headers_bytes + SIGNATURE_BYTES + FCS_BYTES)


def shortest(stream: Stream) -> Stream:
    """The same with the smallest frames that it can have."""
    return replace(stream, frame_bytes=least_bytes(headers(stream)), sizes=None)


def fewer(stream: Stream, most: int) -> Stream:
    """The stream with at most `most` different frames: the first of its cycle, the first ranks of Zipf's law."""
    flows = min(stream.flows, most)
    left, layers = most // flows, list[Mapping[str, Mapping[str, Any]]]()
    for layer in stream.layers:
        ((name, fields),) = layer.items()
        ranked = {key: values for key, values in fields.items() if isinstance(values, Mapping) and "zipf" in values}
        for key, values in ranked.items():
            ranked[key] = {**values, "count": min(values["count"], left)}
            left //= ranked[key]["count"]
        layers.append({name: {**fields, **ranked}})
    return replace(stream, flows=flows, layers=tuple(layers))


def turns_alike(stream: Stream) -> bool:
    """Whether `turned` has the same five-tuples: what the engine draws depends on the name of the field."""
    return not any(values.is_drawn and _opposite(name) != name for name, values in moving(stream).items())


def turned(stream: Stream) -> Stream:
    """The same five-tuples the other way round, where it `turns_alike`. The ports of tunnels stay: they say what
    follows. So do Ethernet addresses where the destination is a group's, which sends nothing.
    """
    frame = headers(stream)
    kept = {before.place for before, after in pairwise(frame) if HEADERS[after.name].port}
    kept |= {header.place for header in frame if header.name == "ethernet" and is_group(header.fields["dst"])}
    ends = (stream.eth_src, stream.eth_dst)
    eth_src, eth_dst = ends if "eth" in kept else ends[::-1]
    layers: list[Mapping[str, Mapping[str, Any]]] = [
        layer if header.place in kept else {name: {_OPPOSITE.get(key, key): values for key, values in fields.items()}}
        for header, layer in zip(frame, stream.layers, strict=False)
        for name, fields in layer.items()
    ]
    return replace(
        stream,
        tx_port=stream.rx_port,
        rx_port=stream.tx_port,
        eth_src=eth_src,
        eth_dst=eth_dst,
        ipv4_src=stream.ipv4_dst,
        ipv4_dst=stream.ipv4_src,
        udp_src=stream.udp_dst,
        udp_dst=stream.udp_src,
        order=tuple(name if name.rpartition(".")[0] in kept else _opposite(name) for name in stream.order),
        layers=tuple(layers),
    )


def _opposite(name: str) -> str:
    """Of `ipv4_src` and `ipv4[1].src`: the other end's."""
    header, mark, key = name.rpartition("." if "." in name else "_")
    return f"{header}{mark}{_OPPOSITE.get(key, key)}"
