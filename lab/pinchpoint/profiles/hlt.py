"""TRex's HLT streams: one call with many arguments, of which it makes packets and programs as `stl` has them.

Names and defaults of the arguments are those of the API's manual (TRex HLT API, traffic_config). A field that varies
has three of them beside its own: its mode, step and count. Python's standard library alone.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pinchpoint.profiles.stl import (
    NAMES,
    Layer,
    Mode,
    STLPktBuilder,
    STLStream,
    STLTXCont,
    STLTXMultiBurst,
    STLTXSingleBurst,
    STLVmFlowVar,
    STLVmTrimPktSize,
    STLVmWrFlowVar,
    UnsupportedError,
)

_FLAGS: Final = {f"tcp_{word}_flag": word[0].upper() for word in ("urg", "ack", "psh", "rst", "syn", "fin")}
_TOS: Final = {
    "ip_precedence": 5, "ip_tos_field": 2, "ip_mbz": 0, "ip_delay": 4, "ip_throughput": 3, "ip_reliability": 2,
    "ip_cost": 1, "ip_reserved": 0, "ip_dscp": 2, "ip_cu": 0,
}  # fmt: skip
"""Parts of one byte (RFC 791, 3.1; RFC 2474, 3): how many of its bits follow each, where TRex puts it."""
_DEFAULTS: Final[Mapping[str, Any]] = {
    "transmit_mode": "continuous", "rate_pps": None, "rate_bps": None, "rate_percent": 10, "name": None, "direction": 0,
    "pkts_per_burst": 1, "burst_loop_count": 1, "inter_burst_gap": 12, "length_mode": "fixed",
    "l3_imix1_size": 64, "l3_imix1_ratio": 7, "l3_imix2_size": 570, "l3_imix2_ratio": 4,
    "l3_imix3_size": 1518, "l3_imix3_ratio": 1, "l3_imix4_size": 9230, "l3_imix4_ratio": 0,
    "frame_size": 64, "frame_size_min": 64, "frame_size_max": 64, "l3_length": None, "l3_length_min": 110,
    "l3_length_max": 238, "l2_encap": "ethernet_ii", "mac_src": "00:00:01:00:00:01", "mac_dst": "00:00:00:00:00:00",
    "ignore_macs": False,
    "vlan_id": None, "vlan_user_priority": 1, "vlan_cfi": 1, "l3_protocol": None, "l4_protocol": None,
    "vlan_protocol_tag_id": None, "ip_src_addr": "0.0.0.0", "ip_dst_addr": "192.0.0.1", "ip_ttl": 64, "ip_id": 0,
    **dict.fromkeys(_TOS, 0),
    "ipv6_src_addr": "fe80::12", "ipv6_dst_addr": "fe80::22", "ipv6_hop_limit": 64, "ipv6_traffic_class": 0,
    "ipv6_flow_label": 0, "ipv6_next_header": None, "tcp_src_port": 1024, "tcp_dst_port": 80, "tcp_seq_num": 1,
    "tcp_ack_num": 1, "tcp_window": 4069, "udp_src_port": 1024, "udp_dst_port": 80, **dict.fromkeys(_FLAGS, 0),
}  # fmt: skip
_WITHOUT_EFFECT: Final = frozenset({
    "mode", "port_handle", "port_handle2", "bidirectional", "stream_id", "save_to_yaml", "split_by_cores",
    "load_profile", "consistent_random", "disable_flow_stats", "flow_stats_id", "frame_size_step",
    "l3_length_step",
    "ip_checksum", "ip_fragment_offset", "tcp_checksum", "udp_length", "tcp_data_offset", "vlan_priority_mode",
    "vlan_priority_step", "vlan_priority_count", "enable_auto_detect_instrumentation",
    *(f"mac_{end}2{what}" for end in ("src", "dst") for what in ("", "_mode", "_step", "_count")),
})  # fmt: skip
_VARYING: Final = {  # argument -> (how those of its variation begin, where it stands, bytes written, how far into it)
    "mac_dst": ("mac_dst", "Ether.dst", 4, 2), "mac_src": ("mac_src", "Ether.src", 4, 2),
    "ip_src_addr": ("ip_src", "IP.src", 4, 0), "ip_dst_addr": ("ip_dst", "IP.dst", 4, 0),
    "ipv6_src_addr": ("ipv6_src", "IPv6.src", 4, 12), "ipv6_dst_addr": ("ipv6_dst", "IPv6.dst", 4, 12),
    **{f"{kind}_{end}_port": (f"{kind}_{end}_port", f"{kind.upper()}.{place}", 2, 0)
       for kind in ("udp", "tcp") for end, place in (("src", "sport"), ("dst", "dport"))},
}  # fmt: skip
_OPS: Final = {"increment": "inc", "decrement": "dec", "random": "random"}
_MOST_VLAN: Final = (1 << 12) - 1
_MOST_LISTED: Final = 1024  # values of a variable


class _Arguments:
    """What a call says, and what it leaves to defaults."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        variations = {f"{name}_{what}" for name, *_ in _VARYING.values() for what in ("mode", "step", "count")}
        variations |= {f"vlan_id_{what}" for what in ("mode", "step", "count")}
        for name in given:
            if name not in {*_DEFAULTS, *_WITHOUT_EFFECT, *variations}:
                raise UnsupportedError(f"STLHltStream({name}=...): not supported")
        back = str(given.get("direction", 0)) == "1"
        self.given = {_swapped(name) if back else name: value for name, value in given.items() if value is not None}

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name, _DEFAULTS.get(name))

    def number(self, name: str) -> int:
        """A whole number, also one that is written as text, or as an address."""
        return _number(self[name], name)


def _swapped(name: str) -> str:
    """The same argument of the other direction: sources and destinations change places."""
    ends = {"_src": "_dst", "_dst": "_src"}
    return re.sub("_src|_dst", lambda end: ends[end[0]], name)


def _number(value: Any, name: str) -> int:
    text = str(value)
    try:
        if re.fullmatch(r"(?:[0-9A-Fa-f]{2}[:.-]){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}", text):
            return int(re.sub("[:.-]", "", text), 16)
        return int(ipaddress.ip_address(text)) if "." in text or ":" in text else int(text, 0)
    except ValueError:
        raise UnsupportedError(f"STLHltStream({name}={text[:40]!r}): expected a number or an address") from None


def _mac(value: Any, name: str) -> str:
    return ":".join(f"{byte:02x}" for byte in _number(value, name).to_bytes(6, "big"))


def _words(value: Any) -> list[Any]:
    """The values of nested tags: a list, or a text with blanks between them."""
    if isinstance(value, list | tuple):
        return list(value)
    return str(value).split() if value is not None else []


def STLHltStream(**given: Any) -> list[STLStream]:
    """The streams of a call: one, or of a mix one for each size."""
    told = _Arguments(given)
    if told["length_mode"] != "imix":
        return [_stream(told, None, 1.0)]
    sizes = [(told.number(f"l3_imix{n}_size"), told.number(f"l3_imix{n}_ratio")) for n in range(1, 5)]
    total = sum(ratio for _, ratio in sizes)
    return [_stream(told, size, ratio / total) for size, ratio in sizes if ratio]


def _stream(told: _Arguments, size: int | None, share: float) -> STLStream:
    """`size`: of its frames, where the length mode does not say; `share`: of the rate."""
    layers = list(_layers(told))
    packet, program = layers[0], list(_program(told, layers))
    for layer in layers[1:]:
        packet = packet / layer
    link = sum(layer.own_bytes() for layer in layers if type(layer).__name__ in ("Ether", "Dot1Q"))
    low, high = _sizes(told, size, link, len(packet))
    if low < high:
        op = _OPS[told["length_mode"]]
        program += [STLVmFlowVar("hlt_size", min_value=low - 4, max_value=high - 4, size=2, op=op),
                    STLVmTrimPktSize("hlt_size")]  # fmt: skip
    padded = packet / (max(0, high - 4 - len(packet)) * "x")
    return STLStream(name=told["name"], packet=STLPktBuilder(pkt=padded, vm=program), mode=_mode(told, share))


def _sizes(told: _Arguments, size: int | None, link: int, least: int) -> tuple[int, int]:
    """The smallest and the largest frame, with its check sequence."""
    if size is not None:
        return size, size
    mode = told["length_mode"]
    if mode == "auto":
        return least + 4, least + 4
    if mode == "fixed":
        length = told.number("l3_length") + link + 4 if told["l3_length"] is not None else told.number("frame_size")
        return length, length
    if mode not in _OPS:
        raise UnsupportedError(f"STLHltStream(length_mode={mode!r}): not supported")
    if "l3_length_min" in told.given or "l3_length_max" in told.given:
        return told.number("l3_length_min") + link + 4, told.number("l3_length_max") + link + 4
    return told.number("frame_size_min"), told.number("frame_size_max")


def _mode(told: _Arguments, share: float) -> Mode:
    units = (("rate_pps", "pps"), ("rate_bps", "bps_L2"), ("rate_percent", "percentage"))
    name, unit = next((pair for pair in units if pair[0] in told.given), units[-1])
    rate = {unit: float(told[name]) * share}
    if told["transmit_mode"] == "continuous":
        return STLTXCont(**rate)
    packets = told.number("pkts_per_burst")
    if told["transmit_mode"] == "single_burst":
        return STLTXSingleBurst(total_pkts=packets, **rate)
    if told["transmit_mode"] != "multi_burst":
        raise UnsupportedError(f"STLHltStream(transmit_mode={told['transmit_mode']!r}): not supported")
    gap, count = float(told["inter_burst_gap"]), told.number("burst_loop_count")
    return STLTXMultiBurst(pkts_per_burst=packets, ibg=gap, count=count, **rate)


def _layers(told: _Arguments) -> Iterator[Layer]:
    ends = {} if told["ignore_macs"] else {end: f"mac_{end}" for end in ("src", "dst")}
    yield NAMES["Ether"](**{end: _mac(told[name], name) for end, name in ends.items()})
    yield from _tags(told)
    network, transport = told["l3_protocol"], told["l4_protocol"]
    if network is None and (transport or any(name.startswith("ip_") for name in told.given)):
        network = "ipv4"
    if network == "ipv4":
        yield NAMES["IP"](src=told["ip_src_addr"], dst=told["ip_dst_addr"], ttl=told.number("ip_ttl"),
                          tos=sum(told.number(name) << behind for name, behind in _TOS.items()),
                          id=told.number("ip_id"))  # fmt: skip
    elif network == "ipv6":
        yield NAMES["IPv6"](src=told["ipv6_src_addr"], dst=told["ipv6_dst_addr"], hlim=told.number("ipv6_hop_limit"),
                            tc=told.number("ipv6_traffic_class"), fl=told.number("ipv6_flow_label"),
                            nh=told.number("ipv6_next_header") if told["ipv6_next_header"] else None)  # fmt: skip
    elif network is not None:
        raise UnsupportedError(f"STLHltStream(l3_protocol={network!r}): not supported")
    if transport == "udp":
        yield NAMES["UDP"](sport=told.number("udp_src_port"), dport=told.number("udp_dst_port"))
    elif transport == "tcp":
        flags = "".join(letter for name, letter in _FLAGS.items() if told.number(name))
        yield NAMES["TCP"](sport=told.number("tcp_src_port"), dport=told.number("tcp_dst_port"), flags=flags,
                           seq=told.number("tcp_seq_num"), ack=told.number("tcp_ack_num"),
                           window=told.number("tcp_window"))  # fmt: skip
    elif transport is not None:
        raise UnsupportedError(f"STLHltStream(l4_protocol={transport!r}): not supported")


def _tags(told: _Arguments) -> Iterator[Layer]:
    tags = _words(told["vlan_id"]) or ([0] if "vlan" in str(told["l2_encap"]) else [])
    for text in _words(told["vlan_protocol_tag_id"]):
        if str(text).removeprefix("0x") not in ("8100", str(0x8100)):
            raise UnsupportedError(f"STLHltStream(vlan_protocol_tag_id={text!r}): not supported, expected 8100")
    for number, tag in enumerate(tags):
        priority, drop = (_nth(told[name], number, 1) for name in ("vlan_user_priority", "vlan_cfi"))
        yield NAMES["Dot1Q"](vlan=_number(tag, "vlan_id"), prio=_number(priority, "vlan_user_priority"),
                             id=_number(drop, "vlan_cfi"))  # fmt: skip


def _nth(value: Any, number: int, default: Any) -> Any:
    """Of nested tags; a single value is that of the first."""
    values = _words(value)
    return values[number] if number < len(values) else default


def _program(told: _Arguments, layers: Sequence[Layer]) -> Iterator[Any]:
    """What varies, as far as the packet has it."""
    kinds = [type(layer).__name__ for layer in layers]
    for name, (variation, place, size, fixup) in _VARYING.items():
        if place.partition(".")[0] in kinds and not (told["ignore_macs"] and place.startswith("Ether")):
            words = [told[f"{variation}_{what}"] for what in ("mode", "step", "count")]
            base = told.number(name) & (1 << 8 * size) - 1
            yield from _varied(name, words, base, size, (1 << 8 * size) - 1, place, fixup)
    for number, tag in enumerate(_words(told["vlan_id"])):
        words = [_nth(told[f"vlan_id_{what}"], number, None) for what in ("mode", "step", "count")]
        base = _number(tag, "vlan_id")
        yield from _varied(f"vlan_id_{number}", words, base, 2, _MOST_VLAN, f"Dot1Q:{number}.vlan", 0)


def _varied(name: str, words: Sequence[Any], base: int, size: int, most: int, place: str, fixup: int) -> Iterator[Any]:
    """The instructions for one field; `words`: its mode, step and count."""
    mode, count = words[0] or "fixed", _number(words[2] or 1, name)
    step = _number(words[1] or 1, name) & (1 << 8 * size) - 1  # of an IPv6 address the bytes that vary
    if mode == "fixed" or (count == 1 and mode != "random"):
        return
    if mode not in _OPS:
        raise UnsupportedError(f"STLHltStream({name}: mode {mode!r}): expected fixed, increment, decrement or random")
    span = step * (count - 1)
    ranges = {"increment": (base, base + span), "decrement": (base - span, base), "random": (0, most)}
    low, high = ranges[mode]
    if low >= 0 and high <= most:
        yield STLVmFlowVar(name, min_value=low, max_value=high, size=size, step=step, op=_OPS[mode])
    elif count > _MOST_LISTED:
        raise UnsupportedError(f"STLHltStream({name}): {count} values from {base} by {step} go beyond {most}")
    else:  # they go on at the other end
        signed = step if mode == "increment" else -step
        yield STLVmFlowVar(name, value_list=[base + signed * nth & most for nth in range(count)], size=size)
    yield STLVmWrFlowVar(fv_name=name, pkt_offset=place, offset_fixup=fixup)
