"""The keys that say what is sent: streams of frames, whose headers are those of the table `model.headers`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from itertools import combinations
from pathlib import Path as FilePath
from typing import Any, Final

from pinchpoint.dut.attach import HEADERS as ETHERNET_BYTES
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.kinds import Kind, MismatchError
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.measure import registry as measures
from pinchpoint.measure.kind import MeasureKind
from pinchpoint.model.effective import toml_of
from pinchpoint.model.frames import Placed, flows_of, least_bytes, placed, varied_of
from pinchpoint.model.headers import (
    FCS_BYTES,
    HEADERS,
    KEYS,
    MOST_FLOWS,
    MOST_HEADERS,
    SIGNATURE_BYTES,
    FieldKind,
    FieldValues,
    read,
)
from pinchpoint.model.scenario import Between, Layers, Range, Sizes

FRAMES: Final = tuple(
    measure.name for measure in measures.measures() if not (measure.is_served or issubclass(measure.made, Between))
)
"""The measures that send streams of frames."""
RANGES: Final = ("ipv4_dst", "ipv4_src", "udp_dst", "udp_src")
LARGEST_BYTES: Final = 9022
MIXES: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "simple": ((64, 7), (594, 4), (1518, 1)),
    "IMIX_v4_1": ((64, 28), (570, 16), (1518, 4)),
}
"""Mixes of frame sizes, each with its weight, as the engine knows them."""
_PLAIN: Final = ("eth_src", "eth_dst", *RANGES)
_MOST_SIZES, _LONGEST_MIX = 64, 1 << 16  # as the engine takes them
_TRANSPORTS: Final = ("udp", "tcp", "icmp", "icmpv6")
_LIVE_FIELDS, _LIVE_BYTES = 8, 3076  # of frames that the kernel makes: how many vary, and the longest
_CHECKED: Final = {"ipv4": {"ipv4"}, "l4": {*_TRANSPORTS}}
_APART: Final = (("ipv4", "ipv6"), ("ipv4", "icmpv6"), ("ipv6", "icmp"), *combinations(_TRANSPORTS, 2))
_NAMED: Final = {
    "vlan": "a VLAN tag", "ipv4": "an IPv4 header", "ipv6": "an IPv6 header", "tcp": "a TCP header",
    "icmp": "an ICMP header", "icmpv6": "an ICMPv6 header",
}  # fmt: skip
_REPLAYED: Final = frozenset(
    ("from", "to", "frame_bytes", "share", "burst_frames", "arrivals", "seed", "pcap", "pcap_source", "pcap_others")
)
_STANDARD_BYTES: Final = 1518  # of the longest frame of Ethernet (IEEE 802.3, 3.2.7)
_SIDE: Final = re.compile("interface:[0-9]{1,5}|[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_FIELD: Final = re.compile(r"[a-z0-9]+(\[[0-9]{1,2}\])?\.[a-z_]+")


def _value(row: FieldKind) -> Kind:
    def read_value(written: Any) -> FieldValues:
        try:
            return read(row, written)
        except ValueError as error:
            raise MismatchError(*error.args) from None

    return Kind(row.expected, read_value, schema=row.schema)


def _sizes() -> Kind:
    """One frame size, or several."""
    size = kinds.integer(64, LARGEST_BYTES)

    def read_sizes(value: Any) -> int | Sizes:
        if isinstance(value, str) and value in MIXES:
            return Sizes(MIXES[value])
        if isinstance(value, str) and (ends := re.fullmatch("([0-9]{2,4})-([0-9]{2,4})", value)):
            smallest, largest = (int(size.read(int(end))) for end in ends.groups())
            kinds.check(smallest < largest)
            return Sizes(between=(smallest, largest))
        if not isinstance(value, list):
            return int(size.read(value))
        pairs = [item if isinstance(item, list) else [item, 1] for item in value]
        kinds.check(1 <= len(pairs) <= _MOST_SIZES and all(len(pair) == 2 for pair in pairs))
        weight = kinds.integer(1, _LONGEST_MIX)
        mix = tuple((int(size.read(one)), int(weight.read(weighs))) for one, weighs in pairs)
        kinds.check(sum(weighs for _, weighs in mix) <= _LONGEST_MIX)
        return Sizes(mix)

    names = " or ".join(f'"{name}"' for name in MIXES)
    expected = (
        f'{size.expected}; of several sizes {names}, random ones as "64-1518", or a list of sizes or [size, weight]'
    )
    limits = {"minimum": 64, "maximum": LARGEST_BYTES, "minItems": 1, "maxItems": _MOST_SIZES}
    pattern = f"^(?:{'|'.join(MIXES)}|[0-9]{{2,4}}-[0-9]{{2,4}})$"
    return Kind(expected, read_sizes, schema={"type": ["integer", "string", "array"], "pattern": pattern, **limits})


def _layers() -> Kind:
    """A list of headers; what stands in it is judged with the other keys."""

    def read_layers(value: Any) -> list[Any]:
        kinds.check(isinstance(value, list) and 1 <= len(value) <= MOST_HEADERS)
        return list(value)

    def header(name: str) -> Mapping[str, Any]:
        rows = {key: row.schema for key, row in HEADERS[name].fields.items()}
        return {"type": "object", "properties": rows, "additionalProperties": False}

    named = {"type": "object", "properties": {name: header(name) for name in HEADERS}, "additionalProperties": False}
    items = {"anyOf": [{"enum": list(HEADERS)}, {**named, "minProperties": 1, "maxProperties": 1}]}
    schema = {"type": "array", "items": items, "minItems": 1, "maxItems": MOST_HEADERS}
    return Kind(f"a list of at most {MOST_HEADERS} headers, the outermost first", read_layers, schema=schema)


def _order() -> Kind:
    names = kinds.texts("", lambda value: value in KEYS or _FIELD.fullmatch(value) is not None)
    expected = 'a list of different names of fields: keys, or of several headers of a kind "ipv4[1].dst"'
    return kinds.listed(expected, names, may_be_empty=True)


def _is_side(value: str) -> bool:
    """Whether it names who sent frames of a capture."""
    if _SIDE.fullmatch(value):
        return True
    try:
        ip_network(value, strict=False)
    except ValueError:
        return False
    return True


def _header_keys() -> Iterator[Key]:
    for key, (header, name) in KEYS.items():
        row = HEADERS[header].fields[name]
        default = row.filled if row.default is None else toml_of(row.default)
        default += f" if the frame has {_NAMED[header]}" if header in _NAMED else ""
        yield Key(key, _value(row), f"{row.doc}.", row.default if key in _PLAIN else Unset(default))


STREAM: Final = Table(
    "stream",
    "Frames from one port to another: UDP over IPv4, unless a key of another header is there. A key of `vlan`, `ipv6`, "
    "`tcp`, `icmp` or `icmpv6` adds its header; `layers` lists all headers. The defaults are the addresses and the "
    "discard port that RFC 2544 (C.2.2), RFC 5180 and RFC 863 reserve.",
    (
        Key("from", kinds.port_name(), "The port where the frames enter the DUT.", field="tx_port"),
        Key("to", kinds.port_name(), "The port where they should come out.", field="rx_port"),
        Key("frame_bytes", _sizes(), "Frame size with its check sequence, bytes. A device may take less.",
            Computed(f"64, or what the headers need with {SIGNATURE_BYTES} bytes of signature")),
        Key("share", kinds.number(0.001, 1000), "Its share of the load, relative to the other streams.", 1.0),
        *_header_keys(),
        Key("layers", _layers(),
            "All headers, each by its name or as `{name = {field = value}}`. A key above sets its field if `layers` "
            "has that header exactly once.", Unset("those of the keys")),
        Key("order", _order(),
            "Which field advances fastest, which next. Names that are left out follow in the default order.",
            Computed("IP addresses, then ports, then Ethernet addresses, destinations before sources; then the others "
                     "as they stand in the frame")),
        Key("flows", kinds.integer(1, MOST_FLOWS),
            "Frames after which all fields repeat, each with another five-tuple where ranges of its fields alone vary; "
            "at most the product of the numbers of values.", Computed("the product of the numbers of values")),
        Key("together", kinds.boolean(),
            "The fields advance together, each by one with every frame, as other generators have it, instead of one "
            "after the other; `flows` is then at most the least common multiple of the numbers of values.",
            Computed("true where Ethernet addresses alone vary")),
        Key("burst_frames", kinds.integer(1, 1_000_000),
            "Frames that fall due together, at the same mean rate.", 1),
        Key("arrivals", kinds.word("steady", "poisson", "captured"),
            "When frames fall due: at equal distances, at random times that do not depend on each other (a Poisson "
            "process of the same mean rate), or as far apart as in the capture, which is as fast as the load asks for.",
            Computed("steady; with `pcap` captured, unless burst_frames or the measure say when")),
        Key("pcap", kinds.texts(
                "the path of a file, from the scenario's folder", lambda value: kinds.is_plain(value) and value != ""),
            "A capture (pcap, pcapng) whose frames are sent as they are and in their order, again and again, in place "
            "of frames made of headers. Where the payload allows it they carry the engine's signature; others are "
            "counted by what devices leave alone of them. `frame_bytes` is then the longest that it may have, by "
            "default 1518, and the share of a side as many as its frames.", Unset("frames made of headers")),
        Key("pcap_source", kinds.texts(
                'an IP address or network, an Ethernet address, or "interface:N" of a pcapng file', _is_side),
            "Who sent the frames of the capture that this stream sends.", Unset("all frames")),
        Key("pcap_others", kinds.boolean(), "All frames of the capture that pcap_source did not send.", False),
        Key("seed", kinds.integer(0, (1 << 63) - 1), "Of random values: the same seed gives the same frames.", 0),
        Key("wrong_checksums", kinds.listed(
                'a list of "ipv4" and "l4"', kinds.word("ipv4", "l4"), may_be_empty=True),
            "Checksums that are wrong in every frame: of IPv4 headers, of UDP, TCP or ICMP.", []),
    ),
    at_most=256,
    measures=FRAMES,
)  # fmt: skip
WRITTEN_ELSEWHERE: Final[Mapping[str, str]] = {
    **{
        f"stream.{header}_{name}": f"write {row.key}" if row.key else f"write {{{header} = {{{name} = ...}}}} in layers"
        for header, kind in HEADERS.items() for name, row in kind.fields.items() if row.key != f"{header}_{name}"
    },
}  # fmt: skip
"""What one might write, and what there is instead."""


def check(
    source: Source, streams: Sequence[Element], ports: Sequence[Element], most_bytes: int, backend: str | None
) -> None:
    """Streams join ports that are there, with frames that they take. Fills in what the frames are."""
    names = [port.values["name"] for port in ports if "name" in port.values]
    for element in streams:
        at, stream = element.at, element.values
        for key, field in (("from", "tx_port"), ("to", "rx_port")):
            if field in stream and stream[field] not in names:
                expected = f"the name of a [[port]] ({', '.join(names) or 'there is none'})"
                source.mismatch((*at, key), expected, stream[field])
        if "tx_port" in stream and stream.get("rx_port") == stream["tx_port"]:
            source.problem((*at, "to"), f'expected a port other than "from", found "{stream["tx_port"]}" in both')
        if "segment" in stream:  # of connections that stand
            _check_size(source, at, stream, 0, most_bytes)
            continue
        if layers := _layers_of(source, element):
            _settle(source, element, layers, most_bytes, backend)
        _check_replay(source, element, most_bytes, backend)


def _check_replay(source: Source, element: Element, most_bytes: int, backend: str | None) -> None:
    """A replay has a capture, and nothing that its frames would have to be made for. Fills in its defaults."""
    at, stream, written = element.at, element.values, element.written
    if stream.get("pcap") is None:
        for key in ("pcap_source", "pcap_others"):
            if stream.get(key):
                source.problem((*at, key), "expected pcap with it, found none")
        if stream.get("arrivals") == "captured":
            source.mismatch((*at, "arrivals"), '"steady" or "poisson" without pcap', "captured")
        return
    stream["pcap"] = str(FilePath(source.path).absolute().parent / stream["pcap"])
    for key in written.keys() - _REPLAYED:
        source.problem((*at, key), f"expected no {key} with pcap: the frames of a capture are sent as they are")
    if stream.get("sizes"):
        source.mismatch((*at, "frame_bytes"), "one size with pcap, the longest", written["frame_bytes"])
    if stream.get("pcap_others") and stream.get("pcap_source") is None:
        source.problem((*at, "pcap_others"), "expected pcap_source with it, found none")
    if backend == "xdp_live":
        source.problem((*at, "pcap"), 'expected none where the kernel makes the frames (engine.backend = "xdp_live")')
    if "frame_bytes" not in written:
        stream["frame_bytes"] = min(_STANDARD_BYTES, most_bytes)
    stream.setdefault("arrivals", "captured" if stream.get("burst_frames", 1) == 1 else "steady")


def check_paced(source: Source, streams: Sequence[Element], measure: MeasureKind) -> None:
    """Frames fall due in one way, and in none where the measure has its own."""
    for element in streams:
        if measure.paces and element.values.get("pcap") and "arrivals" not in element.written:
            del element.values["arrivals"]
        frames, arrivals = element.values.get("burst_frames", 1), element.values.get("arrivals", "steady")
        if frames > 1 and arrivals != "steady":
            source.mismatch((*element.at, "arrivals"), '"steady" with burst_frames', arrivals)
        for key, default, value in (("burst_frames", 1, frames), ("arrivals", "steady", arrivals)):
            if measure.paces and value != default:
                expected = f'{toml_of(default)} with measure = "{measure.name}", which says itself when frames fall due'
                source.mismatch((*element.at, key), expected, value)


def _settle(source: Source, element: Element, layers: Layers, most_bytes: int, backend: str | None) -> None:
    """What follows from the headers: the model's fields, sizes, and the order of what varies."""
    at, stream, written = element.at, element.values, element.written
    is_plain, frame = _is_plain(stream, layers, written), placed(layers)
    varied, ends = varied_of(frame), frame[0].fields
    stream |= {"eth_src": ends["src"].template, "eth_dst": ends["dst"].template}
    for key in RANGES:
        stream[key] = Range(stream[key].first, stream[key].count) if is_plain else None
    stream["layers"] = () if is_plain else layers
    for key in KEYS.keys() - set(_PLAIN):
        stream.pop(key, None)
    if "frame_bytes" not in written:
        stream["frame_bytes"] = least_bytes(frame)
    if "frame_bytes" in stream:
        _check_size(source, at, stream, least_bytes(frame), most_bytes)
    for word in stream.get("wrong_checksums", ()):
        if not _CHECKED[word] & _checked(frame):
            source.problem((*at, "wrong_checksums"), f'expected no "{word}": these frames have no such checksum')
    asked = _order_of(source, at, stream.get("order", ()), frame)
    if is_plain:
        keys = (key for name in asked if (key := name.replace(".", "_")) in RANGES)
        stream["order"] = tuple(dict.fromkeys((*keys, *RANGES)))
    else:
        stream["order"] = tuple(name for name in dict.fromkeys((*asked, *sorted(varied, key=_rank))) if name in varied)
    _fill_flows(source, at, stream, varied, "the four ranges" if is_plain else f"what varies, {_names(varied)}")
    if backend == "xdp_live":
        for expected in _not_live(stream, varied, written):
            told = f"expected {expected}, where the kernel makes the frames"
            source.problem(at, f'{told} (engine.backend = "xdp_live")')


def _checked(frame: Sequence[Placed]) -> set[str]:
    """Headers that may have a checksum: UDP over IPv4 before a tunnel has none (RFC 7348, 4.1)."""
    names = [header.name for header in frame]
    around = zip(["", *names[:-1]], names, [*names[1:], ""], strict=True)
    return {name for before, name, after in around if before != "ipv4" or not (after and HEADERS[after].port)}


def _is_plain(stream: Values, layers: Layers, written: Mapping[str, Any]) -> bool:
    """Whether the frames are UDP over IPv4 with ranges of addresses and ports alone."""
    names = [name for layer in layers for name in layer]
    keys = set(written) & set(KEYS)
    if "layers" in written or names != ["ethernet", "ipv4", "udp"] or not keys <= set(_PLAIN):
        return False
    return all(stream[key].is_run and (stream[key].count == 1 or key in RANGES) for key in _PLAIN)


def _not_live(stream: Values, varied: Mapping[str, FieldValues], written: Mapping[str, Any]) -> Iterator[str]:
    """What these frames would have to be for the kernel to make them: Recipe and LiveStream of the engine."""
    if stream.get("sizes"):
        yield "one size"
    if stream.get("frame_bytes", 0) > _LIVE_BYTES:
        yield f"at most {_LIVE_BYTES:,} bytes"
    if any(values.listed or values.is_drawn for values in varied.values()):
        yield "ranges"
    if stream["together"] and len(varied) > 1:
        default = "" if "together" in written else " (true is the default where Ethernet addresses alone vary)"
        yield f"together = false{default}"
    if len(varied) > _LIVE_FIELDS:
        yield f"at most {_LIVE_FIELDS} fields that vary"
    for name, values in varied.items():
        if values.numbers[0] >> 32 != values.numbers[-1] >> 32:
            yield f"values of {name} that differ in their low 32 bits alone"
        if name.endswith(".pcp") and (other := name.removesuffix("pcp") + "id") in varied:
            yield f"{name} or {other} to vary, not both, which share a byte"


def _layers_of(source: Source, element: Element) -> Layers:
    """The headers of a stream's frames with what must be in each; none where a problem was noted."""
    at, stream, written = element.at, element.values, element.written
    before = len(source.problems)
    keys = {key: stream.get(key) for key in KEYS if key in written}
    if None in keys.values() or ("layers" in written and "layers" not in stream):
        return ()
    listed: Headers
    if "layers" in written:
        listed = _listed(source, at, stream["layers"])
    else:
        listed = [(name, {}) for name in _implied(source, at, keys)]
    if len(source.problems) > before:
        return ()
    for key in keys:
        _put(source, at, listed, key, written[key])
    _fill_headers(source, at, listed)
    return tuple({name: fields} for name, fields in listed) if len(source.problems) == before else ()


Headers = list[tuple[str, dict[str, Any]]]
"""Headers with what is written of each."""


def _implied(source: Source, at: Path, keys: Mapping[str, Any]) -> list[str]:
    """The headers that keys bring. Notes those that cannot stand together."""
    brings: dict[str, str] = {}
    for key in keys:
        brings.setdefault(KEYS[key][0], key)
    for header, other in _APART:
        if header in brings and other in brings:
            mine, theirs = brings[header], brings[other]
            told = f"expected {mine} or {theirs}, found both: a frame has one of the two headers"
            source.problem((*at, theirs), f"{told}, unless `layers` lists more")
    tag = ["vlan"] if "vlan" in brings else []
    network = "ipv6" if {"ipv6", "icmpv6"} & brings.keys() else "ipv4"
    return ["ethernet", *tag, network, next((name for name in _TRANSPORTS[1:] if name in brings), "udp")]


def _listed(source: Source, at: Path, layers: Sequence[Any]) -> Headers:
    """The headers of `layers`; what is wrong is noted."""
    listed: Headers = []
    for number, item in enumerate(layers):
        place = (*at, "layers", number)
        named: Any = {item: {}} if isinstance(item, str) else item
        if not isinstance(named, dict) or len(named) != 1 or not all(isinstance(own, dict) for own in named.values()):
            source.mismatch(place, "the name of a header, or {name = {field = value}}", item)
            continue
        ((name, fields),) = named.items()
        if name not in HEADERS:
            source.mismatch(place, f"a header ({', '.join(HEADERS)})", name, tuple(HEADERS))
            continue
        behind = HEADERS[name].behind if listed else ("ethernet",)
        if (listed and listed[-1][0] not in behind) or (not listed and name != "ethernet"):
            found = f"behind {listed[-1][0]}" if listed else "first"
            expected = f"{name} behind {' or '.join(behind)}" if listed else "ethernet first"
            source.problem(place, f"expected {expected}, found {name} {found}")
        _check_fields(source, (*place, name) if isinstance(item, dict) else place, name, fields)
        listed.append((name, dict(fields)))
    return listed


def _check_fields(source: Source, at: Path, header: str, fields: Mapping[str, Any]) -> None:
    for key, value in fields.items():
        row = HEADERS[header].fields.get(key)
        if row is None:
            source.unknown((*at, key), tuple(HEADERS[header].fields), None)
            continue
        try:
            read(row, value)
        except ValueError as error:
            source.mismatch((*at, key), str(error) or row.expected, value)


def _put(source: Source, at: Path, listed: Headers, key: str, value: Any) -> None:
    """A key sets a field of the one header of its kind."""
    header, name = KEYS[key]
    places = [fields for other, fields in listed if other == header]
    if len(places) != 1:
        told = f"expected one {header} in layers, found {len(places) or 'none'}"
        source.problem((*at, key), f"{told}: write {{{header} = {{{name} = ...}}}} there")
    elif name in places[0]:
        source.problem((*at, key), f"expected {key} or {header}.{name} of layers, found both")
    else:
        places[0][name] = value


def _fill_headers(source: Source, at: Path, listed: Headers) -> None:
    """Each header has addresses and ports; one that is announced by a port of UDP is behind that."""
    behind = [*(name for name, _ in listed[1:]), ""]
    for number, ((name, fields), after) in enumerate(zip(listed, behind, strict=True)):
        if name == "udp" and after and (port := HEADERS[after].port):
            fields.setdefault("dst", port)
        for key, row in HEADERS[name].fields.items():
            if row.required and key not in fields:
                told = f"missing; expected {{{name} = {{{key} = ...}}}}: {row.format.expected}"
                source.problem((*at, "layers", number), told)
            elif row.default is not None:
                fields.setdefault(key, row.default)


def _check_size(source: Source, at: Path, stream: Values, least: int, most: int) -> None:
    """Every frame has room for its headers, and the device takes it. Keeps the largest size, and all if they differ."""
    size = stream["frame_bytes"]
    sizes = size if isinstance(size, Sizes) else None
    every = [*(sizes.between or ()), *(frame_bytes for frame_bytes, _ in sizes.mix)] if sizes else [size]
    if min(every) < least:
        parts = f"headers of {least - SIGNATURE_BYTES - FCS_BYTES} bytes, a signature of {SIGNATURE_BYTES}"
        expected = f"at least {least:,} ({parts}, a check sequence of {FCS_BYTES})"
        source.mismatch((*at, "frame_bytes"), expected, min(every))
    if max(every) > most:
        expected = f"at most {most:,} (MTU {most - ETHERNET_BYTES})"
        source.mismatch((*at, "frame_bytes"), expected, max(every))
    stream["frame_bytes"], stream["sizes"] = max(every), sizes


def _order_of(source: Source, at: Path, names: Sequence[str], frame: Sequence[Placed]) -> list[str]:
    """Fields as field programs name them. Notes those that these frames have not."""
    known = {f"{header.place}.{key}" for header in frame for key in HEADERS[header.name].fields}
    asked = []
    for name in names:
        header, key = KEYS.get(name, ("", ""))
        field = f"{HEADERS[header].program or header}.{key}" if header else name
        if field not in known:
            varied = _names(varied_of(tuple(frame)))
            source.problem((*at, "order"), f"expected fields of these frames, found {name}; what varies: {varied}")
        asked.append(field)
    return asked


def _rank(name: str) -> tuple[int, bool]:
    """IP addresses, ports, Ethernet addresses, destinations before sources; then the others as they stand."""
    header, _, key = name.partition(".")
    layer = next((rank for rank, kinds_of in enumerate((("ipv4", "ipv6"), ("udp", "tcp"), ("eth",)))
                  if header.partition("[")[0] in kinds_of and key in ("src", "dst")), 3)  # fmt: skip
    return layer, key == "src"


def _names(varied: Mapping[str, FieldValues]) -> str:
    return ", ".join(varied) or "nothing"


def _fill_flows(source: Source, at: Path, stream: Values, varied: Mapping[str, FieldValues], whose: str) -> None:
    """Fill in the defaults and compare with the numbers of values."""
    are_macs = len(varied) > 1 and all(name.startswith("eth") for name in varied)
    together = stream.setdefault("together", are_macs)
    product = flows_of(varied, together=together)
    if "flows" in stream and stream["flows"] > product:
        what = "least common multiple of the lengths" if together else "product"
        source.mismatch((*at, "flows"), f"at most {product:,}, the {what} of {whose}", stream["flows"])
    if "flows" not in stream and product > MOST_FLOWS:
        frames = "different frames" if stream["layers"] else "five-tuples"
        problem = f"missing; the ranges make {product:,} {frames}, more than the {MOST_FLOWS:,} of a cycle"
        source.problem((*at, "flows"), problem)
    stream.setdefault("flows", product)
