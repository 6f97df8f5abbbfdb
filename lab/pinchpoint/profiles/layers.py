"""Stand-ins for the packet layers that profiles are written with; what they lack is refused by name.

A layer keeps what the profile says of its fields, and nothing else. Python's standard library alone.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class UnsupportedError(Exception):
    """What a profile says and the lab does not do; the message names it."""


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
        """Bytes of this header alone."""
        return self.header_bytes


def _as_layer(other: Any) -> Layer:
    if isinstance(other, str | bytes | bytearray):
        return Raw(load=other)
    if isinstance(other, Layer):
        return other
    raise UnsupportedError(f"packet / {type(other).__name__}: expected a layer, a text or bytes")


class Ether(Layer):
    """Ethernet header (IEEE 802.3)."""

    fields: ClassVar[Mapping[str, Any]] = {"dst": "", "src": "", "type": 0x0800}
    header_bytes = 14


class Dot1Q(Layer):
    """A VLAN tag (IEEE 802.1Q)."""

    fields: ClassVar[Mapping[str, Any]] = {"vlan": 1, "prio": 0, "id": 0, "type": 0x0800}
    header_bytes = 4


class IP(Layer):
    """IPv4 header (RFC 791)."""

    fields: ClassVar[Mapping[str, Any]] = {
        "src": "127.0.0.1", "dst": "127.0.0.1", "ttl": 64, "tos": 0, "id": 1, "flags": 0, "proto": 17, "len": None,
        "chksum": None,
    }  # fmt: skip
    header_bytes = 20


class IPv6(Layer):
    """IPv6 header (RFC 8200)."""

    fields: ClassVar[Mapping[str, Any]] = {
        "src": "::1",
        "dst": "::1",
        "hlim": 64,
        "tc": 0,
        "fl": 0,
        "nh": 17,
        "plen": None,
    }
    header_bytes = 40


class UDP(Layer):
    """UDP header (RFC 768)."""

    fields: ClassVar[Mapping[str, Any]] = {"sport": 53, "dport": 53, "len": None, "chksum": None}
    header_bytes = 8


class TCP(Layer):
    """TCP (RFC 9293) without options."""

    fields: ClassVar[Mapping[str, Any]] = {
        "sport": 20,
        "dport": 80,
        "seq": 0,
        "ack": 0,
        "flags": "S",
        "window": 8192,
        "chksum": None,
    }
    header_bytes = 20


class ICMP(Layer):
    """ICMP (RFC 792) as an echo."""

    fields: ClassVar[Mapping[str, Any]] = {"type": 8, "code": 0, "id": 0, "seq": 0, "chksum": None}
    header_bytes = 8


class Raw(Layer):
    """Payload, of which only its length is kept."""

    fields: ClassVar[Mapping[str, Any]] = {"load": 0}

    def __init__(self, load: Any = b"") -> None:
        super().__init__(load=len(load))

    def own_bytes(self) -> int:
        """Bytes of the payload."""
        return int(self.load)


LAYERS = (Ether, Dot1Q, IP, IPv6, UDP, TCP, ICMP, Raw)
