"""Addresses of either family as text and as numbers (RFC 4291, RFC 5952). An IPv6 address here is above 2^32."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, summarize_address_range

_IPV4_BITS = 32


def is_v6(address: str) -> bool:
    """Whether an address is one of IPv6."""
    return ":" in address


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
    return IPv6Address(value) if value >> _IPV4_BITS else IPv4Address(value)
