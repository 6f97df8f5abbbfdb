"""Stand-ins for the names that profiles are written with: packet layers, and TRex's stateless API.

They keep what a profile says, each call of the API with its line. Names, arguments and defaults are those of the API's
manual (TRex Stateless Python API); what is not here is refused by name. Python's standard library alone.
"""

import copy
import ipaddress
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

MARK: Final = "__profile__"  # a name of the profile's module, by which its frames are known


class UnsupportedError(Exception):
    """What a profile says and the lab does not do; the message names it."""


class ProfileLineError(Exception):
    """What stands on this line of the profile cannot be done as it says."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class Layer:
    """One header, and what follows it. `a / b` is a copy of both, `len` counts the bytes of all."""

    fields: ClassVar[Mapping[str, Any]] = {}
    header_bytes: ClassVar[int] = 0

    def __init__(self, **args: Any) -> None:
        self.__dict__.update(args={}, below=None)
        for name, value in args.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.fields:
            known = ", ".join(self.fields)
            raise UnsupportedError(f"{type(self).__name__}({name}=...): not supported, expected one of {known}")
        if not isinstance(value, int | str) and value is not None:
            raise UnsupportedError(f"{type(self).__name__}({name}={str(value)[:40]}): expected a number or a text")
        self.args[name] = value

    def __getattr__(self, name: str) -> Any:
        if name in type(self).fields:
            return self.args.get(name, self.fields[name])
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "payload":
            return self.below or Raw()
        raise UnsupportedError(f"{type(self).__name__}.{name}: not supported")

    def __deepcopy__(self, memo: dict[int, Any]) -> "Layer":
        made = type(self)()
        made.__dict__.update(args=dict(self.args), below=copy.deepcopy(self.below, memo))
        return made

    def __truediv__(self, other: Any) -> "Layer":
        made = copy.deepcopy(self)
        made.layers()[-1].__dict__["below"] = copy.deepcopy(_as_layer(other))
        return made

    def __rtruediv__(self, other: Any) -> "Layer":
        return _as_layer(other) / self

    def __getitem__(self, kind: type["Layer"]) -> "Layer":
        for layer in self.layers():
            if type(layer) is kind:
                return layer
        raise UnsupportedError(f"packet[{getattr(kind, '__name__', kind)}]: there is no such layer")

    def __contains__(self, kind: type["Layer"]) -> bool:
        return any(type(layer) is kind for layer in self.layers())

    def __iter__(self) -> Iterator["Layer"]:
        raise UnsupportedError("a packet of several values: write a stream for each")

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return sum(layer.own_bytes() for layer in self.layers())

    def layers(self) -> list["Layer"]:
        """The header itself and those that follow."""
        stack: list[Layer] = [self]
        while stack[-1].below is not None:
            stack.append(stack[-1].below)
        return stack

    def own_bytes(self) -> int:
        """Bytes of this header alone, with its options."""
        return self.header_bytes + len(self.args.get("options") or "") // 2


def _as_layer(other: Any) -> Layer:
    if isinstance(other, str | bytes | bytearray):
        return Raw(load=other)
    if isinstance(other, Layer):
        return other
    raise UnsupportedError(f"packet / {type(other).__name__}: expected a layer, a text or bytes")


class Raw(Layer):
    """Payload, of which only its length is kept."""

    fields: ClassVar[Mapping[str, Any]] = {"load": 0}

    def __init__(self, load: Any = b"") -> None:
        super().__init__(load=len(load))

    def own_bytes(self) -> int:
        """Bytes of the payload."""
        return int(self.load)


def _layer(name: str, header_bytes: int, **fields: Any) -> type[Layer]:
    """A header with these fields, each with what it is where the profile says nothing."""
    return type(name, (Layer,), {"header_bytes": header_bytes, "fields": fields})


def _options(data: bytes | str = b"") -> str:
    """Options of IPv4 as a header has them: hexadecimal digits of a multiple of four bytes (RFC 791, 3.1)."""
    content = data.encode("latin-1") if isinstance(data, str) else bytes(data)
    return (content + bytes(-len(content) % 4)).hex()


_IP: Final = {"src": "127.0.0.1", "dst": "127.0.0.1", "ttl": 64, "tos": 0, "id": 1, "flags": 0, "proto": 17}
LAYERS: Final = (
    _layer("Ether", 14, dst="", src="", type=0x0800),  # IEEE 802.3
    _layer("Dot1Q", 4, vlan=1, prio=0, id=0, type=0x0800),  # IEEE 802.1Q
    _layer("MPLS", 4, label=3, cos=0, s=0, ttl=0),  # RFC 3032
    _layer("IP", 20, **_IP, len=None, chksum=None, options=""),  # RFC 791
    _layer("IPv6", 40, src="::1", dst="::1", hlim=64, tc=0, fl=0, nh=17, plen=None),  # RFC 8200
    _layer("UDP", 8, sport=53, dport=53, len=None, chksum=None),  # RFC 768
    _layer("TCP", 20, sport=20, dport=80, seq=0, ack=0, flags="S", window=8192, chksum=None),  # RFC 9293, no options
    _layer("ICMP", 8, type=8, code=0, id=0, seq=0, chksum=None),  # RFC 792, an echo
    _layer("VXLAN", 8, vni=0, flags=8),  # RFC 7348
    Raw,
)
PACKETS: Final[Mapping[str, Any]] = {
    **{layer.__name__: layer for layer in LAYERS}, "IPOption": _options, "DNS": lambda: Raw(bytes(12)),
}  # fmt: skip
"""What a profile finds in scapy, by name. Of DNS a header without questions, as payload (RFC 1035, 4.1.1)."""


def profile_line() -> int:
    """The line of the profile that is being executed, 0 outside of it."""
    frame = sys._getframe(1)
    while frame is not None:
        if MARK in frame.f_globals:
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return 0


def _number(value: Any) -> int:
    """A value of a variable: a number or an IPv4 address."""
    if isinstance(value, str):
        try:
            return int(ipaddress.IPv4Address(value))
        except ValueError:
            raise UnsupportedError(f"{value!r}: expected a number or an IPv4 address") from None
    if isinstance(value, int):
        return value
    raise UnsupportedError(f"{str(value)[:40]}: expected a number or an IPv4 address")


_Call = TypeVar("_Call", bound="Recorded")


class Recorded:
    """The arguments of one call. `defaults` are the arguments in their order; `...`: it must be given."""

    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, *values: Any, **named: Any) -> None:
        word = type(self).__name__
        for name in named:
            if name not in self.defaults:
                known = ", ".join(self.defaults) or "none"
                raise UnsupportedError(f"{word}({name}=...): not supported, expected one of {known}")
        if len(values) > len(self.defaults):
            raise UnsupportedError(f"{word}: takes {len(self.defaults)} arguments, found {len(values)}")
        fields = dict(zip(self.defaults, values, strict=False)) | named
        missing = [name for name, value in self.defaults.items() if value is ... and name not in fields]
        if missing:
            raise UnsupportedError(f"{word}: {missing[0]} is missing")
        self.line = profile_line()
        self.args = {**self.defaults, **fields}


def _call(base: type[_Call], name: str, kind: str = "", **defaults: Any) -> type[_Call]:
    """A call of the API with these arguments."""
    return type(name, (base,), {"kind": kind, "defaults": defaults})


_NUMBERS: Final = ("init_value", "min_value", "max_value", "ip_min", "ip_max")  # arguments that may be addresses


class Instruction(Recorded):
    """One instruction that changes packets."""

    kind = ""
    kept: ClassVar[Sequence[str] | None] = None  # arguments that the lab is told; None: all
    refused: ClassVar[Mapping[str, str]] = {}  # those that must be left out: how the refusal goes on after the word

    def out(self) -> dict[str, Any]:
        """As the lab reads it. Raises UnsupportedError."""
        for name, words in self.refused.items():
            if self.args[name] not in (self.defaults[name], None):
                raise UnsupportedError(f"{type(self).__name__}({name}={words.format(self.args[name])}")
        names = self.defaults if self.kept is None else self.kept
        return {"kind": self.kind, "line": self.line, **{name: self._told(name) for name in names}}

    def _told(self, name: str) -> Any:
        value = self.args[name]
        is_left_out = value is None and self.defaults[name] is None
        return value if name not in _NUMBERS or is_left_out else _number(value)


class STLVmFlowVar(Instruction):
    """A variable that takes a step with every packet."""

    kind = "variable"
    defaults: ClassVar[Mapping[str, Any]] = {
        "name": ..., "init_value": None, "min_value": 0, "max_value": 255, "size": 4, "step": 1, "op": "inc",
        "value_list": None, "split_to_cores": True, "next_var": None,
    }  # fmt: skip
    kept = ("name", "init_value", "min_value", "max_value", "size", "step", "op")
    refused: ClassVar[Mapping[str, str]] = {"next_var": "...): not supported: variables step side by side"}

    def out(self) -> dict[str, Any]:
        """As the lab reads it; the values of a list take the place of its range."""
        values = self.args["value_list"] or ()
        if not isinstance(values, list | tuple):
            raise UnsupportedError("STLVmFlowVar(value_list=...): expected a list")
        return {**super().out(), "values": [_number(value) for value in values], "limit": 0}


class STLVmFlowVarRepeatableRandom(Instruction):
    """Random values that repeat after some packets."""

    kind = "variable"
    defaults: ClassVar[Mapping[str, Any]] = {
        "name": ..., "size": 4, "limit": 100, "seed": None, "min_value": 0, "max_value": None, "split_to_cores": True,
        "next_var": None,
    }  # fmt: skip
    kept = ("name", "min_value", "max_value", "size", "limit")
    refused: ClassVar[Mapping[str, str]] = STLVmFlowVar.refused

    def out(self) -> dict[str, Any]:
        """As the lab reads it."""
        told = super().out()
        if told["max_value"] is None:
            told["max_value"] = (1 << 8 * self.args["size"]) - 1
        return {**told, "init_value": None, "step": 1, "op": "random", "values": []}


class STLVmTupleGen(Instruction):
    """Addresses, and with every round of them the next port."""

    kind = "tuple"
    defaults: ClassVar[Mapping[str, Any]] = {
        "name": ..., "ip_min": "0.0.0.1", "ip_max": "0.0.0.10", "port_min": 1025, "port_max": 65535,
        "limit_flows": 100_000, "flags": 0,
    }  # fmt: skip
    kept = ("name", "ip_min", "ip_max", "port_min", "port_max", "limit_flows")
    refused: ClassVar[Mapping[str, str]] = {"flags": "{}): not supported, expected 0"}


class STLVmFixIpv4(Instruction):
    """The header's checksum is right again: it always is."""

    kind = "checksum"
    defaults: ClassVar[Mapping[str, Any]] = {"offset": ...}
    kept = ()


class STLVmFixChecksumHw(STLVmFixIpv4):
    """All checksums are right again."""

    defaults: ClassVar[Mapping[str, Any]] = {"l3_offset": ..., "l4_offset": ..., "l4_type": ...}


STLVmWrFlowVar: Final = _call(
    Instruction, "STLVmWrFlowVar", "write", fv_name=..., pkt_offset=..., offset_fixup=0, add_val=0, is_big=True
)
"""Writes a variable into the packet."""
STLVmWrMaskFlowVar: Final = _call(
    Instruction, "STLVmWrMaskFlowVar", "masked write", fv_name=..., pkt_offset=..., pkt_cast_size=1, mask=0xFF, shift=0,
    add_value=0, offset_fixup=0, is_big=True,
)  # fmt: skip
"""Writes some bits of a variable into the packet."""
STLVmTrimPktSize: Final = _call(Instruction, "STLVmTrimPktSize", "trim", fv_name=...)
"""Cuts packets to a variable's size."""
_REFUSED: Final = {"STLVmFixIcmpv6": "no stream is ICMPv6"}


def _refuse(name: str, *values: Any, **named: Any) -> Instruction:
    """A name that is known and not supported."""
    raise UnsupportedError(f"{name}: not supported: {_REFUSED[name]}")


class STLScVmRaw(Recorded):
    """A list of instructions."""

    defaults: ClassVar[Mapping[str, Any]] = {"list_of_commands": (), "cache_size": None}

    @property
    def instructions(self) -> Sequence[Any]:
        return self.args["list_of_commands"] or ()


class STLVM(Recorded):
    """Instructions, one call for each."""

    methods: ClassVar[Mapping[str, Any]] = {
        "var": STLVmFlowVar,
        "tuple_var": STLVmTupleGen,
        "write": STLVmWrFlowVar,
        "fix_chksum_hw": STLVmFixChecksumHw,
        "trim": STLVmTrimPktSize,
        "write_mask": STLVmWrMaskFlowVar,
        "repeatable_random_var": STLVmFlowVarRepeatableRandom,
    }
    renamed: ClassVar[Mapping[str, str]] = {"repeatable_random_var fv_name": "name", "write_mask add_val": "add_value"}

    def __init__(self) -> None:
        super().__init__()
        self.instructions: list[Instruction] = []

    def __getattr__(self, name: str) -> Any:
        if name not in self.methods:
            raise AttributeError(f"'STLVM' object has no attribute {name!r}")

        def call(*values: Any, **named: Any) -> None:
            arguments = {self.renamed.get(f"{name} {key}", key): value for key, value in named.items()}
            self.instructions.append(self.methods[name](*values, **arguments))

        return call

    def fix_chksum(self, offset: Any = "IP") -> None:
        """Right checksums, as all are."""
        self.instructions.append(STLVmFixIpv4(offset))

    def set_cached(self, size: int) -> None:
        """Packets made in advance: the same packets."""


STLPktBuilder: Final = _call(
    Recorded, "STLPktBuilder", pkt=None, pkt_buffer=None, vm=None, path_relative_to_profile=False, build_raw=True,
    remove_fcs=True,
)  # fmt: skip
"""A packet, and what changes it."""


class Mode(Recorded):
    """How a stream is sent."""

    kind = ""
    rates: ClassVar[Mapping[str, Any]] = {"pps": None, "bps_L1": None, "bps_L2": None, "percentage": None}

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        rate = {name: self.args[name] for name in self.rates if self.args[name] is not None} or {"pps": 1}
        if len(rate) > 1:
            raise UnsupportedError(f"{type(self).__name__}: expected one rate, found {' and '.join(rate)}")
        ((self.unit, self.rate),) = rate.items()

    def out(self) -> dict[str, Any]:
        """As the lab reads it: how many packets, how many together, how long between. No packets: without an end."""
        burst = self.args.get("pkts_per_burst", 1)
        packets = self.args.get("total_pkts", burst * self.args.get("count", 1) if self.kind == "bursts" else 0)
        told = {"mode": self.kind, "unit": self.unit, "rate": self.rate}
        return {**told, "packets": packets, "burst": burst, "gap_us": self.args.get("ibg", 0.0)}


STLTXCont: Final = _call(Mode, "STLTXCont", "continuous", **Mode.rates)
STLTXSingleBurst: Final = _call(Mode, "STLTXSingleBurst", "single burst", total_pkts=1, **Mode.rates)
STLTXMultiBurst: Final = _call(Mode, "STLTXMultiBurst", "bursts", pkts_per_burst=1, ibg=0.0, count=1, **Mode.rates)
# Counts and latency of a stream: the engine always has them.
STLFlowStats: Final = _call(Recorded, "STLFlowStats", pg_id=..., vxlan=False)
STLFlowLatencyStats: Final = _call(Recorded, "STLFlowLatencyStats", pg_id=..., vxlan=False, ieee_1588=False)
STLTaggedPktGroup: Final = _call(Recorded, "STLTaggedPktGroup", tpgid=...)


class CTRexVmInsFixHwCs:
    """Which checksum a card fills in: all are right here."""

    L4_TYPE_UDP, L4_TYPE_TCP, L4_TYPE_IP = 11, 13, 17


def _packed(text: str) -> bytes:
    """The bytes of an IPv4 address. Raises STLError."""
    try:
        return ipaddress.IPv4Address(text).packed
    except ValueError as error:
        raise STLError(str(error)) from error


def _is_valid(text: str) -> bool:
    try:
        return bool(_packed(text))
    except STLError:
        return False


class STLStreamDstMAC:
    """Where a packet's destination comes from: always the packet here."""

    CFG_FILE, PKT, ARP = 0, 1, 2


class STLStream(Recorded):
    """A stream: a packet, its program of variables, and how it is sent."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "name": None, "packet": None, "mode": None, "enabled": True, "self_start": True, "isg": 0.0,
        "flow_stats": None, "next": None, "stream_id": None, "action_count": 0, "random_seed": 0,
        "mac_src_override_by_pkt": None, "mac_dst_override_mode": None, "dummy_stream": False, "start_paused": False,
        "core_id": -1,
    }  # fmt: skip

    def out(self) -> dict[str, Any]:
        """As the lab reads it. Raises UnsupportedError for what no scenario says."""
        packet, mode = self.args["packet"] or STLPktBuilder(pkt=Layer()), self.args["mode"] or STLTXCont()
        pkt = packet.args["pkt"] if isinstance(packet, STLPktBuilder) and not packet.args["pkt_buffer"] else None
        if not _is_packet(pkt) and not isinstance(pkt, str):
            expected = "expected STLPktBuilder(pkt=Ether()/IP()/UDP()/...), or with the path of a capture"
            raise UnsupportedError(f"STLStream(packet=...): {expected}")
        if not isinstance(mode, Mode):
            raise UnsupportedError(f"STLStream(mode={type(mode).__name__}): expected STLTXCont(...)")
        program = packet.args["vm"] or ()
        instructions = program if isinstance(program, list | tuple) else getattr(program, "instructions", None)
        if instructions is None or any(not isinstance(instruction, Instruction) for instruction in instructions):
            raise UnsupportedError("STLPktBuilder(vm=...): expected STLVM, or STLScVmRaw with a list of instructions")
        sends = self.args["enabled"] and not self.args["dummy_stream"]
        layers = pkt.layers() if isinstance(pkt, Layer) else []
        return {
            "name": self.args["name"], "line": self.line, "enabled": bool(sends), "start_us": self.args["isg"],
            "waits": not self.args["self_start"], "followed": bool(self.args["next"]), **mode.out(),
            "capture": pkt if isinstance(pkt, str) else "",
            "layers": [{"kind": type(layer).__name__, "values": layer.args} for layer in layers],
            "bytes": sum(layer.own_bytes() for layer in layers),
            "instructions": [instruction.out() for instruction in instructions],
        }  # fmt: skip


def _is_packet(pkt: Any) -> bool:
    return isinstance(pkt, Layer) and type(pkt) is not Layer


class STLProfile(Recorded):
    """A list of streams."""

    defaults: ClassVar[Mapping[str, Any]] = {"streams": ()}

    def get_streams(self) -> list[Any]:
        streams = self.args["streams"]
        return list(streams) if isinstance(streams, list | tuple) else [streams]

    @staticmethod
    def load_pcap(*values: Any, **named: Any) -> None:
        instead = "pinchpoint-engine send --pcap sends captured frames"
        raise UnsupportedError(f"STLProfile.load_pcap: not supported: {instead}")


class STLError(Exception):
    """What a profile raises."""


_OFFERED: Final = (
    STLVmFlowVar, STLVmFlowVarRepeatableRandom, STLVmTupleGen, STLVmWrFlowVar, STLVmWrMaskFlowVar, STLVmTrimPktSize,
    STLVmFixIpv4, STLVmFixChecksumHw, CTRexVmInsFixHwCs, STLScVmRaw, STLVM, STLPktBuilder, STLStreamDstMAC,
    STLTXCont, STLTXSingleBurst, STLTXMultiBurst, STLFlowStats, STLFlowLatencyStats, STLTaggedPktGroup, STLStream,
    STLProfile, STLError,
)  # fmt: skip
NAMES: Final[Mapping[str, Any]] = {
    **PACKETS,
    "is_valid_ipv4": _is_valid,
    "is_valid_ipv4_ret": _packed,
    "ipv4_str_to_num": partial(int.from_bytes, byteorder="big"),
    **{kind.__name__: kind for kind in _OFFERED},
    **{name: partial(_refuse, name) for name in _REFUSED},
    **{f"STLStreamDstMAC_{name}": getattr(STLStreamDstMAC, name) for name in ("CFG_FILE", "PKT", "ARP")},
}
"""What a profile finds in the API's module, by name."""
