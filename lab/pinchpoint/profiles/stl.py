"""Stand-ins for the names of TRex's stateless API: they keep what a profile says, each with its line.

Names, arguments and defaults are those of the API's manual (TRex Stateless Python API). An argument that is not here is
refused by name. Python's standard library alone.
"""

import ipaddress
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pinchpoint.profiles.layers import Layer, UnsupportedError

MARK: Final = "__profile__"  # a name of the profile's module, by which its frames are known


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


class Refused(Recorded):
    """A name that is known and not supported."""

    why = ""

    def __init__(self, *values: Any, **named: Any) -> None:
        raise UnsupportedError(f"{type(self).__name__}: not supported: {self.why}")


class Instruction(Recorded):
    """One instruction that changes packets."""

    kind = ""

    def out(self) -> dict[str, Any]:
        """As the lab reads it."""
        return {"kind": self.kind, "line": self.line, **self.args}


class STLVmFlowVar(Instruction):
    """A variable that takes a step with every packet."""

    kind = "variable"
    defaults: ClassVar[Mapping[str, Any]] = {
        "name": ..., "init_value": None, "min_value": 0, "max_value": 255, "size": 4, "step": 1, "op": "inc",
        "value_list": None, "split_to_cores": True, "next_var": None,
    }  # fmt: skip

    def out(self) -> dict[str, Any]:
        """As the lab reads it."""
        args = self.args
        for name in ("value_list", "next_var"):
            if args[name] is not None:
                raise UnsupportedError(f"STLVmFlowVar({name}=...): not supported: variables count through a range")
        first = None if args["init_value"] is None else _number(args["init_value"])
        return {
            "kind": self.kind, "line": self.line, "name": args["name"], "first": first, "size": args["size"],
            "least": _number(args["min_value"]), "most": _number(args["max_value"]), "step": args["step"],
            "op": args["op"],
        }  # fmt: skip


class STLVmTupleGen(Instruction):
    """Addresses, and with every round of them the next port."""

    kind = "tuple"
    defaults: ClassVar[Mapping[str, Any]] = {
        "name": ..., "ip_min": "0.0.0.1", "ip_max": "0.0.0.10", "port_min": 1025, "port_max": 65535,
        "limit_flows": 100_000, "flags": 0,
    }  # fmt: skip

    def out(self) -> dict[str, Any]:
        """As the lab reads it."""
        args = {name: value for name, value in self.args.items() if name != "flags"}
        if self.args["flags"]:
            raise UnsupportedError(f"STLVmTupleGen(flags={self.args['flags']}): not supported, expected 0")
        args |= {"ip_min": _number(args["ip_min"]), "ip_max": _number(args["ip_max"])}
        return {"kind": self.kind, "line": self.line, **args}


class STLVmWrFlowVar(Instruction):
    """Writes a variable into the packet."""

    kind = "write"
    defaults: ClassVar[Mapping[str, Any]] = {
        "fv_name": ...,
        "pkt_offset": ...,
        "offset_fixup": 0,
        "add_val": 0,
        "is_big": True,
    }


class STLVmFixIpv4(Instruction):
    """The header's checksum is right again."""

    kind = "checksum"
    defaults: ClassVar[Mapping[str, Any]] = {"offset": ...}

    def out(self) -> dict[str, Any]:
        """As the lab reads it: checksums are always right."""
        return {"kind": self.kind, "line": self.line}


class STLVmFixChecksumHw(STLVmFixIpv4):
    """All checksums are right again."""

    defaults: ClassVar[Mapping[str, Any]] = {"l3_offset": ..., "l4_offset": ..., "l4_type": ...}


class STLVmTrimPktSize(Refused):
    """Frame sizes from a variable; refused."""

    why = "a stream has one frame size; write a stream for each"


class STLVmWrMaskFlowVar(Refused):
    """Writes of some bits."""

    why = "variables are written as whole bytes"


class STLVmFlowVarRepeatableRandom(Refused):
    """A variable of a repeatable random sequence; refused."""

    why = "addresses and ports of a stream count through a range"


class STLVmFixIcmpv6(Refused):
    """The checksum of ICMPv6; refused."""

    why = "streams are UDP over IPv4"


class STLScVmRaw(Recorded):
    """A list of instructions."""

    defaults: ClassVar[Mapping[str, Any]] = {"list_of_commands": (), "cache_size": None}

    @property
    def instructions(self) -> Sequence[Any]:
        return self.args["list_of_commands"] or ()


class STLVM(Recorded):
    """Instructions, one call for each."""

    def __init__(self) -> None:
        super().__init__()
        self.instructions: list[Instruction] = []

    def var(self, *values: Any, **named: Any) -> None:
        self.instructions.append(STLVmFlowVar(*values, **named))

    def tuple_var(self, *values: Any, **named: Any) -> None:
        self.instructions.append(STLVmTupleGen(*values, **named))

    def write(self, *values: Any, **named: Any) -> None:
        self.instructions.append(STLVmWrFlowVar(*values, **named))

    def fix_chksum(self, offset: Any = "IP") -> None:
        """Right checksums, as all are."""
        self.instructions.append(STLVmFixIpv4(offset))

    def fix_chksum_hw(self, *values: Any, **named: Any) -> None:
        """Right checksums, as all are."""
        self.instructions.append(STLVmFixChecksumHw(*values, **named))

    def set_cached(self, size: int) -> None:
        """Packets made in advance: the same packets."""

    def trim(self, *values: Any, **named: Any) -> None:
        STLVmTrimPktSize()

    def write_mask(self, *values: Any, **named: Any) -> None:
        STLVmWrMaskFlowVar()

    def repeatable_random_var(self, *values: Any, **named: Any) -> None:
        STLVmFlowVarRepeatableRandom()


class STLPktBuilder(Recorded):
    """A packet, and what changes it."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "pkt": None,
        "pkt_buffer": None,
        "vm": None,
        "build_raw": True,
        "remove_fcs": True,
    }


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


class STLTXCont(Mode):
    """Sends at a steady rate until the trial ends."""

    kind = "continuous"
    defaults: ClassVar[Mapping[str, Any]] = Mode.rates


class STLTXSingleBurst(Mode):
    """A number of packets."""

    kind = "single burst"
    defaults: ClassVar[Mapping[str, Any]] = {"total_pkts": 1, **Mode.rates}


class STLTXMultiBurst(Mode):
    """Sends bursts with pauses between them."""

    kind = "bursts"
    defaults: ClassVar[Mapping[str, Any]] = {"pkts_per_burst": 1, "ibg": 0.0, "count": 1, **Mode.rates}


class STLFlowStats(Recorded):
    """Counts of a stream: the engine always has them."""

    defaults: ClassVar[Mapping[str, Any]] = {"pg_id": ..., "vxlan": False}


class STLFlowLatencyStats(STLFlowStats):
    """Latency of a stream: the engine always has it."""


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
        for name in ("next", "action_count", "mac_src_override_by_pkt", "mac_dst_override_mode", "dummy_stream",
                     "start_paused"):  # fmt: skip
            if self.args[name]:
                raise UnsupportedError(
                    f"STLStream({name}={self.args[name]!r}): not supported: streams run side by side"
                )
        if not self.args["self_start"]:
            raise UnsupportedError("STLStream(self_start=False): not supported: streams run side by side")
        packet, mode = self.args["packet"] or STLPktBuilder(pkt=Layer()), self.args["mode"] or STLTXCont()
        if not isinstance(packet, STLPktBuilder) or packet.args["pkt_buffer"] or not _is_packet(packet.args["pkt"]):
            raise UnsupportedError(
                "STLStream(packet=...): expected STLPktBuilder(pkt=Ether()/IP()/UDP()/...), no capture"
            )
        if not isinstance(mode, Mode):
            raise UnsupportedError(f"STLStream(mode={type(mode).__name__}): expected STLTXCont(...)")
        program = packet.args["vm"] or ()
        instructions = program if isinstance(program, list | tuple) else getattr(program, "instructions", None)
        if instructions is None or any(not isinstance(instruction, Instruction) for instruction in instructions):
            raise UnsupportedError("STLPktBuilder(vm=...): expected STLVM, or STLScVmRaw with a list of instructions")
        return {
            "name": self.args["name"], "line": self.line, "enabled": bool(self.args["enabled"]),
            "start_us": self.args["isg"], "mode": mode.kind, "unit": mode.unit, "rate": mode.rate,
            "layers": [{"kind": type(layer).__name__, "values": layer.args} for layer in packet.args["pkt"].layers()],
            "bytes": len(packet.args["pkt"]), "instructions": [instruction.out() for instruction in instructions],
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
        raise UnsupportedError(
            "STLProfile.load_pcap: not supported: pinchpoint-engine send --pcap sends a captured frame"
        )


class STLError(Exception):
    """What a profile raises."""


NAMES: Final = (
    STLVmFlowVar, STLVmTupleGen, STLVmWrFlowVar, STLVmFixIpv4, STLVmFixChecksumHw, STLVmTrimPktSize, STLVmWrMaskFlowVar,
    STLVmFlowVarRepeatableRandom, STLVmFixIcmpv6, STLScVmRaw, STLVM, STLPktBuilder, STLTXCont, STLTXSingleBurst,
    STLTXMultiBurst, STLFlowStats, STLFlowLatencyStats, STLStream, STLProfile, STLError,
)  # fmt: skip
