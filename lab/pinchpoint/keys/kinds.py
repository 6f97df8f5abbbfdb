"""What a scenario's values may be: each kind reads one TOML value or refuses it.

A Kind knows the words that tell the user what was expected, so that the parser,
its errors and docs/scenario.md say the same; and the JSON Schema by which editors see it while one types.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from typing import Any

from pinchpoint.model import addresses
from pinchpoint.model.addresses import is_destination
from pinchpoint.model.scenario import Range

Schema = Mapping[str, Any]
"""JSON Schema (2020-12), of keywords that mean the same in draft 7, which editors for TOML know."""


class MismatchError(Exception):
    """A value is not of its kind; the message, if any, replaces the kind's `expected`."""


@dataclass(frozen=True)
class Kind:
    """How one value is read. `read` returns the model's value or raises MismatchError."""

    expected: str
    read: Callable[[Any], Any]
    words: tuple[str, ...] = ()  # all that there are, of a kind that is one of a few
    schema: Schema = field(default_factory=dict)  # of all that `read` takes, maybe of more; empty: of anything


LONGEST_TEXT = 200
LONGEST_RULE = 4096
LONGEST_PATH = 1024
MOST_ELEMENTS = 64
HIGHEST_CPU = 4095
_MOST_ADDRESSES = 1 << 32
_HEX = "[0-9A-Fa-f]"
_IPV4 = "[0-9.]+"
_IP = "[0-9A-Fa-f:.]+"
_PORT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,9}")
_CONFIG_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SIZES: Mapping[str, int] = {"B": 1, "kB": 1000, "KiB": 1 << 10, "MB": 1_000_000, "MiB": 1 << 20}
_SIZE = re.compile(f"([0-9]{{1,9}}) ?({'|'.join(_SIZES)})")
_UDP_RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")


def check(condition: bool) -> None:
    """Raises MismatchError, reported as what the kind expects, unless the condition holds."""
    if not condition:
        raise MismatchError


def is_plain(text: str) -> bool:
    """True if a text has no control characters and no half surrogates."""
    return text.isprintable()


def full(pattern: str | re.Pattern[str]) -> Schema:
    """The schema of texts that are a full match of the pattern, which must mean the same in ECMA-262."""
    return {"type": "string", "pattern": f"^(?:{pattern if isinstance(pattern, str) else pattern.pattern})$"}


def values(expected: str, holds: Callable[[Any], bool], **schema: Any) -> Kind:
    """A value of which `holds` is true, as it is."""

    def read(value: Any) -> Any:
        check(holds(value))
        return value

    return Kind(expected, read, schema=schema)


def texts(expected: str, holds: Callable[[str], bool], **schema: Any) -> Kind:
    """A text of which `holds` is true; `schema` says more than that it is a text."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and holds(value))
        return str(value)

    return Kind(expected, read, schema={"type": "string", **schema})


def matching(pattern: str | re.Pattern[str], expected: str) -> Kind:
    """A text that is a full match of the pattern."""
    return texts(expected, lambda value: re.fullmatch(pattern, value) is not None, **full(pattern))


def in_lower_case(pattern: str, expected: str) -> Kind:
    """A text that is a full match of the pattern, in lower case whatever it is written in."""
    kind = matching(pattern, expected)
    return replace(kind, read=lambda value: kind.read(value).lower())


def listed(expected: str, element: Kind, most: int = MOST_ELEMENTS, *, may_be_empty: bool = False) -> Kind:
    """A list of different elements of one kind."""

    def read(value: Any) -> tuple[Any, ...]:
        check(isinstance(value, list) and len(value) <= most and (may_be_empty or bool(value)))
        elements = tuple(element.read(item) for item in value)
        check(len(set(elements)) == len(elements))
        return elements

    fewest = 0 if may_be_empty else 1
    schema = {"type": "array", "items": element.schema, "minItems": fewest, "maxItems": most, "uniqueItems": True}
    return Kind(expected, read, schema=schema)


def text(longest: int = LONGEST_TEXT) -> Kind:
    """One line of text."""
    expected = f"one line of text, at most {longest:,} characters"
    return texts(expected, lambda value: is_plain(value) and len(value) <= longest, maxLength=longest)


def absolute_path() -> Kind:
    """The path of a file, from the root."""

    def holds(value: str) -> bool:
        return is_plain(value) and len(value) <= LONGEST_PATH and re.fullmatch("/[^ ]*[^ /]", value) is not None

    return texts("the absolute path of a file, without blanks", holds)


def lines() -> Kind:
    """Text of several lines; what stands in them is judged elsewhere."""
    return texts("text of one or several lines", lambda value: True)


def word(*choices: str) -> Kind:
    """One of a few words, as it stands among them: members of an enumeration are read as such."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and value in choices)
        return choices[choices.index(value)]

    expected, written = " or ".join(f'"{choice}"' for choice in choices), [str(choice) for choice in choices]
    return Kind(expected, read, choices, {"type": "string", "enum": written})


def boolean() -> Kind:
    """`true` or `false`, as TOML writes them."""
    return values("true or false", lambda value: isinstance(value, bool), type="boolean")


def nothing() -> Kind:
    """A table without keys: there is nothing to set."""
    expected = "an empty table: a device of this kind has no settings that may change while it runs"
    return values(expected, lambda value: value == {}, type="object", maxProperties=0)


def shares() -> Kind:
    """Different shares of a whole, from 0 to below 1, in rising order."""
    kind = numbers(0, 1, below=True)
    return replace(kind, expected=f"{kind.expected} (0.5 % is 0.005)")


def integer(low: int, high: int) -> Kind:
    """A whole number from `low` to `high`."""
    expected = f"a whole number from {low:,} to {high:,}"
    limits = {"type": "integer", "minimum": low, "maximum": high}
    return values(expected, lambda value: _is_whole(value) and low <= value <= high, **limits)


def size(low: int, high: int) -> Kind:
    """Bytes from `low` to `high`; read as their number."""

    def read(value: Any) -> int:
        text = _SIZE.fullmatch(value) if isinstance(value, str) else None
        count = int(text[1]) * _SIZES[text[2]] if text else value
        check(_is_whole(count) and low <= count <= high)
        return int(count)

    units = f'or with a unit ({", ".join(_SIZES)}): "64 KiB"'
    whole = integer(low, high)
    return Kind(f"{whole.expected}, {units}", read, schema={"anyOf": [whole.schema, full(_SIZE)]})


def power_of_two(low: int, high: int) -> Kind:
    """A power of two from `low` to `high`."""
    expected = f"a power of two from {low:,} to {high:,}"
    powers = [power for bit in range(high.bit_length()) if low <= (power := 1 << bit)]
    return values(expected, lambda value: _is_whole(value) and value in powers, enum=powers)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def number(low: float, high: float, *, below: bool = False) -> Kind:
    """A number from `low` to `high`, or to just `below` it."""

    def read(value: Any) -> float:
        check(isinstance(value, int | float) and not isinstance(value, bool))
        check(low <= value <= high and not (below and value == high))
        return float(value)

    expected = f"a number from {_plain(low)} to {'below ' if below else ''}{_plain(high)}"
    schema = {"type": "number", "minimum": low, "exclusiveMaximum" if below else "maximum": high}
    return Kind(expected, read, schema=schema)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def numbers(low: float, high: float, *, below: bool = False, may_be_empty: bool = False) -> Kind:
    """Different numbers; returned in rising order."""
    kind = number(low, high, below=below)
    different = listed("", kind, may_be_empty=may_be_empty)
    expected = f"a list of different numbers, each {kind.expected.removeprefix('a number ')}"
    return Kind(expected, lambda value: tuple(sorted(different.read(value))), schema=different.schema)


def cpus() -> Kind:
    """A list of CPU numbers."""
    return listed("a list of CPU numbers", integer(0, HIGHEST_CPU))


ALL = "all"


def cpus_or_all() -> Kind:
    """A list of CPU numbers, or a word for every CPU there is, which is read as none."""
    kind = cpus()
    schema = {"anyOf": [kind.schema, {"const": ALL}]}
    return Kind(f'{kind.expected} or "{ALL}"', lambda value: () if value == ALL else kind.read(value), schema=schema)


def _name(expected: str, reserved: Mapping[str, str]) -> Kind:
    """A name that fits into that of an interface; of those `reserved`, each is refused with what it asks for."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and _PORT_NAME.fullmatch(value) is not None)
        if value in reserved:
            raise MismatchError(reserved[value])
        return str(value)

    told = f"{expected}1 to 10 letters, digits or -, the first one a letter"
    return Kind(told, read, schema=full(_PORT_NAME))


def port_name() -> Kind:
    """The name of a port, short enough to be part of an interface name."""
    taken = dict.fromkeys(("lo", "br0"), "a different name: this one belongs to an interface that the bench creates")
    return _name("", {"i": 'a name other than "i", which stands for the index in rule series', **taken})


def interface_name() -> Kind:
    """The name of a network interface, as the kernel allows it (dev_valid_name)."""
    no_blank_slash_or_colon = r"(?!\.{1,2}$)[!-.0-9;-~]{1,15}"
    return matching(no_blank_slash_or_colon, "the name of a network interface, at most 15 characters")


def machine_name() -> Kind:
    """The name of a host among those of the file."""
    return matching(r"[A-Za-z0-9_-]{1,32}", "the NAME of a [host.NAME]")


def kernel_release() -> Kind:
    """A kernel's release (uname(2)), or the beginning of it. A number would not tell 6.1 from 6.10."""
    return matching(r"[0-9]+\.[0-9]+([.+~-][A-Za-z0-9.+~-]{1,40})?", 'a release in quotes, like "6.12" or "6.12.95"')


def destination() -> Kind:
    """A destination of ssh(1); one that begins with - would be an option."""
    return texts("HOST, USER@HOST or ssh://[USER@]HOST[:PORT]", is_destination)


def bridge_name(*others: str) -> Kind:
    """The name of a bridge, or one of the `others`, which stand for a bridge."""
    reserved = {"lo", *{"last", "next", "previous"}.difference(others)}
    return _name("the name of a bridge: ", dict.fromkeys(reserved, "a different name: this one is reserved"))


_PREFIX_LENGTH = re.compile(r"[1-9]|[12][0-9]|30")


def affinity() -> Kind:
    """Which CPU polls which receive queue, as text; which queues and CPUs there are is judged elsewhere."""
    pair = "[0-9]{1,2}:[0-9]{1,4}"
    return matching(f"({pair}(,{pair})*)?", '"queue:cpu,queue:cpu,...", or "" to let the switch decide')


def pci_address() -> Kind:
    """A PCI address with its domain, in lower case."""
    return in_lower_case(rf"{_HEX}{{4,8}}:{_HEX}{{2}}:[0-1]{_HEX}\.[0-7]", "a PCI address like 0000:01:00.0")


def interface_address() -> Kind:
    """An IPv4 address with the length of its prefix, that a host of the prefix may have."""

    def read(value: Any) -> str:
        check(isinstance(value, str))
        address, _, length = value.partition("/")
        check(_PREFIX_LENGTH.fullmatch(length) is not None)
        number, hosts = ipv4_address(address), (1 << (32 - int(length))) - 1
        check(number & hosts not in (0, hosts))
        return str(value)

    expected = 'the address of a host with its prefix\'s length from 1 to 30, like "192.168.7.1/24"'
    return Kind(expected, read, schema=full(f"{_IPV4}/(?:{_PREFIX_LENGTH.pattern})"))


def mac() -> Kind:
    """A unicast Ethernet address, in lower case."""
    pattern = f"{_HEX}[02468ACEace](:{_HEX}{{2}}){{5}}"
    return in_lower_case(pattern, "a unicast Ethernet address like 02:00:00:00:00:01")


def ipv4_address(value: Any) -> int:
    """An IPv4 address as a number. Raises MismatchError."""
    check(isinstance(value, str))
    try:
        return int(IPv4Address(value))
    except AddressValueError:
        raise MismatchError from None


def ipv4() -> Kind:
    """An IPv4 address, kept in its canonical spelling."""
    return Kind('"a.b.c.d"', lambda value: addresses.shown(ipv4_address(value)), schema=full(_IPV4))


def ip_address(value: Any) -> int:
    """An address of either family as a number. Raises MismatchError.

    What IPv6 has below 2^48 is no address on a wire: unspecified, loopback, IPv4-mapped (RFC 4291 section 2.5).
    """
    check(isinstance(value, str) and "%" not in value)
    if ":" not in value:
        return ipv4_address(value)
    try:
        number = int(IPv6Address(value))
    except AddressValueError:
        raise MismatchError from None
    check(number >> 48 != 0)
    return number


def ip() -> Kind:
    """One IPv4 or IPv6 address, in its usual form."""
    expected = '"a.b.c.d" or an IPv6 address like "fd00::1"'
    return Kind(expected, lambda value: addresses.shown(ip_address(value)), schema=full(_IP))


def ip_range() -> Kind:
    """One IPv4 or IPv6 address or a range of them."""

    def read(value: Any) -> Range:
        first, dash, last = str(value).partition("-")
        check(not dash or addresses.is_v6(first) == addresses.is_v6(last))
        span = _range_of(value, ip_address)
        check(span.count <= _MOST_ADDRESSES)
        return span

    forms = '"a.b.c.d", "a.b.c.d/24", "a.b.c.d-e.f.g.h"'
    expected = f'{forms} or the same of IPv6, like "fd00::1-fd00::ff", at most 2^32 of them'
    return Kind(expected, read, schema=full(f"{_IP}(?:[-/]{_IP})?"))


def _range_of(value: Any, number_of: Callable[[str], int]) -> Range:
    """An address, a prefix or a range of addresses, each as `number_of` reads it."""
    check(isinstance(value, str))
    if "/" in value:
        return _prefix(value, number_of)
    first, dash, last = value.partition("-")
    low = number_of(first)
    return _range(low, number_of(last) if dash else low)


def ipv4_range() -> Kind:
    """One IPv4 address or a range of them."""

    def read(value: Any) -> Range:
        check(isinstance(value, str) and not addresses.is_v6(value))
        return _range_of(value, ipv4_address)

    expected = '"a.b.c.d", "a.b.c.d/24" or "a.b.c.d-e.f.g.h", the last not below the first'
    return Kind(expected, read, schema=full(f"{_IPV4}(?:[-/]{_IPV4})?"))


def _prefix(value: str, number_of: Callable[[str], int]) -> Range:
    """All addresses of a prefix, the first and the last one included."""
    try:
        network = ip_network(value)
    except ValueError:
        raise MismatchError('"a.b.c.d/24" without bits set behind the prefix') from None
    return Range(number_of(str(network.network_address)), network.num_addresses)


def udp_range() -> Kind:
    """One UDP port or a range of them."""
    element = integer(0, 65535)

    def read(value: Any) -> Range:
        if not isinstance(value, str):
            return Range(element.read(value), 1)
        bounds = _UDP_RANGE.fullmatch(value)
        if not bounds:
            raise MismatchError
        return _range(element.read(int(bounds[1])), element.read(int(bounds[2])))

    expected = 'a port from 0 to 65535 or a range "a-b", the last not below the first'
    return Kind(expected, read, schema={**element.schema, **full(_UDP_RANGE), "type": ["integer", "string"]})


def _range(first: int, last: int) -> Range:
    check(first <= last)
    return Range(first, last - first + 1)


def config(reserved: Mapping[str, str]) -> Kind:
    """A table of settings, each value turned into the text that the switch reads.

    `reserved`: keys that are refused, each with what to do instead.
    """

    def read(value: Any) -> dict[str, str]:
        check(isinstance(value, dict) and len(value) <= MOST_ELEMENTS)
        for key in value:
            if key in reserved:
                raise MismatchError(f"no {key} ({reserved[key]})")
        check(all(map(_CONFIG_KEY.fullmatch, value)))
        return {key: _config_value(setting) for key, setting in value.items()}

    schema = {
        "type": "object",
        "maxProperties": MOST_ELEMENTS,
        "propertyNames": {**full(_CONFIG_KEY), "not": {"enum": list(reserved)}},
        "additionalProperties": {"type": ["string", "integer", "boolean"], "maxLength": LONGEST_TEXT},
    }
    return Kind("a table of texts, whole numbers and true or false", read, schema=schema)


def _config_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        check(abs(value) < 2**63)
        return str(value)
    check(isinstance(value, str) and is_plain(value) and len(value) <= LONGEST_TEXT)
    return str(value)
