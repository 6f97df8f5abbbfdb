"""Rule templates: one line repeated over a range of indices."""

import re
from collections.abc import Iterator
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
    for index in range(first, first + count):
        yield "".join(piece if n % 2 == 0 else _fill(piece, index) for n, piece in enumerate(pieces))


def _fill(placeholder: str, index: int) -> str:
    if placeholder == "i":
        return str(index)
    kind, _, start = placeholder.partition(":")
    if kind == "u16":
        return str((int(start) + index) & _U16_BITS)
    if kind == "ipv4":
        return str(IPv4Address((int(IPv4Address(start)) + index) & _IPV4_BITS))
    octets = start.split(":")
    if len(octets) != 6:
        raise ValueError(f"{start}: expected six octets, e.g. 02:00:00:00:00:00")
    value = (int("".join(octet.zfill(2) for octet in octets), 16) + index) & _MAC_BITS
    return ":".join(f"{value:012x}"[n : n + 2] for n in range(0, 12, 2))
