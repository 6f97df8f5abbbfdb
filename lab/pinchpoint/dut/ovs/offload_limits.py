"""What is known to keep a datapath flow in software: from its match and its actions, not from its flag. Pure.

Sources: drivers/net/ethernet/mellanox/mlx5/core/en/tc_ct.c and net/sched/act_ct.c of Linux for tracked connections;
lib/netdev-offload-dpdk.c of Open vSwitch for the userspace datapath.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pinchpoint.model.offload import OffloadLimit

_ICMP, _TCP, _UDP, _ICMP6 = "1", "6", "17", "58"
_PROTOCOL = re.compile(r"proto=(\d{1,3})(?=[,)])")  # matched whole; with a mask behind it, it is not
_TTL = re.compile(r"(?:ttl|hlimit)=(\d{1,3})(?=[,)])")
_STATE = re.compile(r"ct_state\((0x[0-9a-f]{1,8}|\d{1,9})(?:/(0x[0-9a-f]{1,8}|\d{1,9}))?\)")
_STATE_WORDS = re.compile(r"ct_state\(([+-][a-z+-]*)\)")
_NEW, _ESTABLISHED, _TRACKED_BIT = 0x01, 0x02, 0x20  # OVS_CS_F_NEW, OVS_CS_F_ESTABLISHED, OVS_CS_F_TRACKED
_BITS: Final[Mapping[str, int]] = MappingProxyType({"new": _NEW, "est": _ESTABLISHED, "trk": _TRACKED_BIT})
_RECIRC = re.compile(r"recirc_id\((0x[0-9a-f]{1,8}|\d{1,9})\)")
_TRACKED = re.compile(r"(?:^|,)ct(?:\(|,|$)")
_USERSPACE = re.compile(r"(?:^|[,(])userspace\(")

Holds = Callable[[str, str], bool]  # of a flow's key and its actions


def limits_of(key: str, actions: str, is_userspace_datapath: bool) -> tuple[OffloadLimit, ...]:
    """Those that hold for one flow of `dpctl/dump-flows -m`."""
    known = {**_EVERYWHERE, **(_USERSPACE_DATAPATH if is_userspace_datapath else {})}
    return tuple(limit for limit, holds in known.items() if holds(key, actions))


def _protocol(key: str) -> str:
    match = _PROTOCOL.search(key)
    return match[1] if match else ""


def _state(key: str) -> tuple[int, int] | None:
    """(value, mask) of the state of the tracked connections that the flow matches; None if it matches none."""
    if words := _STATE_WORDS.search(key):
        value = sum(bit for word, bit in _BITS.items() if f"+{word}" in words[1])
        mask = value | sum(bit for word, bit in _BITS.items() if f"-{word}" in words[1])
    elif numbers := _STATE.search(key):
        value, mask = int(numbers[1], 0), int(numbers[2], 0) if numbers[2] else 0xFF
    else:
        return None
    return (value, mask) if value & mask & _TRACKED_BIT else None  # else what it matches is that nothing is tracked yet


def _is_tracked(key: str, actions: str) -> bool:
    return _state(key) is not None or _TRACKED.search(actions) is not None


def _is_new(key: str) -> bool:
    """Whether the flow is of connections that are not established yet."""
    if (state := _state(key)) is None:
        return False
    value, mask = state
    return bool(value & mask & _NEW) or bool(mask & ~value & _ESTABLISHED)


def _has_low_ttl(key: str) -> bool:
    match = _TTL.search(key)
    return match is not None and int(match[1]) <= 1


def _is_recirculated(key: str) -> bool:
    match = _RECIRC.search(key)
    return match is not None and int(match[1], 0) != 0


_EVERYWHERE: Final[Mapping[OffloadLimit, Holds]] = MappingProxyType(
    {
        OffloadLimit.ONE_WAY: lambda key, actions: _protocol(key) == _UDP and _is_new(key),
        OffloadLimit.NOT_ESTABLISHED: lambda key, actions: _protocol(key) == _TCP and _is_new(key),
        OffloadLimit.TRACKED_ICMP: lambda key, actions: _protocol(key) in (_ICMP, _ICMP6) and _is_tracked(key, actions),
        OffloadLimit.FRAGMENTS: lambda key, actions: "frag=first" in key or "frag=later" in key,
        OffloadLimit.TTL: lambda key, actions: _has_low_ttl(key),
        OffloadLimit.USERSPACE: lambda key, actions: _USERSPACE.search(actions) is not None,
    }
)
_USERSPACE_DATAPATH: Final[Mapping[OffloadLimit, Holds]] = MappingProxyType(
    {
        OffloadLimit.TRACKING: lambda key, actions: _TRACKED.search(actions) is not None,
        OffloadLimit.RECIRCULATED: lambda key, actions: _is_recirculated(key),
    }
)
