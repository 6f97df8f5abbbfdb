"""Addresses of either family as text and as numbers (RFC 4291, RFC 5952). An IPv6 address here is above 2^32.

And templates of rules: one line repeated over a range of addresses, ports or indices.
"""

import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, summarize_address_range

_PLACEHOLDER = re.compile(r"\{(i|u16:[0-9]+|ipv4:[0-9.]+|mac:[0-9A-Fa-f:]+)\}")
_DESTINATION = re.compile(r"(?!-)[A-Za-z0-9._:/@%\[\]-]{1,255}")
_MAC_BITS = (1 << 48) - 1
_U16_BITS = (1 << 16) - 1
_IPV4_BITS = (1 << 32) - 1


def is_v6(address: str) -> bool:
    """Whether an address is one of IPv6."""
    return ":" in address


def is_destination(text: str) -> bool:
    """Whether a text can be a destination of ssh(1): HOST, USER@HOST or a URI. One that begins with - is an option."""
    return _DESTINATION.fullmatch(text) is not None


def number(address: str) -> int:
    """An address as a number. Raises ValueError where it is none."""
    return int(ip_address(address))


def shown(address: int) -> str:
    """A number as an address: one of IPv4 where it fits in 32 bits."""
    return str(_address(address))


def end(address: str, port: int) -> str:
    """An address and a port, as command lines have them: `10.0.0.1:80`, `[fd00::1]:80` (RFC 3986 section 3.2.2)."""
    return f"{bracketed(address)}:{port}"


def bracketed(address: str) -> str:
    """An address where a port might follow: one of IPv6 stands in brackets."""
    return f"[{address}]" if is_v6(address) else address


def alone(address: str) -> str:
    """The prefix of one address."""
    return f"{address}/{128 if is_v6(address) else 32}"


def prefixes(first: int, last: int) -> Iterator[str]:
    """The fewest prefixes that hold these addresses of one family and no other."""
    low, high = _address(first), _address(last)
    networks: Iterator[IPv4Network | IPv6Network]
    if isinstance(low, IPv4Address) and isinstance(high, IPv4Address):
        networks = summarize_address_range(low, high)
    else:
        networks = summarize_address_range(IPv6Address(first), IPv6Address(last))
    return (str(network) for network in networks)


def _address(value: int) -> IPv4Address | IPv6Address:
    return IPv6Address(value) if value > _IPV4_BITS else IPv4Address(value)


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
        number = int(start)
        return lambda index: str((number + index) & _U16_BITS)
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
