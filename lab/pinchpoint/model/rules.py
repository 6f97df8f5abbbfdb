"""Rule templates: one line repeated over a range of indices."""

import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

_PLACEHOLDER = re.compile(r"\{(i|u16:[0-9]+|ipv4:[0-9.]+|mac:[0-9A-Fa-f:]+)\}")
_MAC_BITS = (1 << 48) - 1
_U16_BITS = (1 << 16) - 1
_IPV4_BITS = (1 << 32) - 1


def expand_template(template: str, count: int, first: int = 0) -> Iterator[str]:
    """`template` for each index i in first .. first + count - 1, lazily.

    `{i}` is the index, `{u16:N}` the number N + i, `{ipv4:A}` the address A + i, `{mac:M}` the address M + i;
    all but the first wrap round at their width. Raises ValueError for an address that is none.
    """
    pieces = _PLACEHOLDER.split(template)
    texts, fillers = pieces[::2], [_filler(placeholder) for placeholder in pieces[1::2]]
    for index in range(first, first + count):
        line = texts[0]
        for fill, text in zip(fillers, texts[1:], strict=True):
            line += fill(index) + text
        yield line


def _filler(placeholder: str) -> Callable[[int], str]:
    """What stands for `placeholder` at each index; half a million rules are made of these."""
    if placeholder == "i":
        return str
    kind, _, start = placeholder.partition(":")
    if kind == "u16":
        return str((int(start) + index) & _U16_BITS)
    if kind == "ipv4":
        address = int(IPv4Address(start))
        return lambda index: _dotted((address + index) & _IPV4_BITS)
    octets = start.split(":")
    if len(octets) != 6:
        raise ValueError(f"{start}: expected six octets, e.g. 02:00:00:00:00:00")
    mac = int("".join(octet.zfill(2) for octet in octets), 16)
    return lambda index: ":".join(re.findall("..", f"{(mac + index) & _MAC_BITS:012x}"))


def _dotted(address: int) -> str:
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
