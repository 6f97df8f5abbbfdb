"""Addresses and names of hosts replaced, the same one by the same one, so that a run stays readable and repeatable.

IPv4: every network that occurs, a range of addresses included, becomes one of the same size: of 198.18.0.0/15
(RFC 2544, C.2.2), or if it is larger than a /18 one from 11.0.0.0 on. The host part is kept, so that ranges, masks and
the number of addresses are what they were. 0.0.0.0, loopback, multicast and masks stay. IPv6: an address of
2001:db8::/32 (RFC 3849). MAC addresses that a manufacturer assigned: 02:00:5e:00:00:01 and on. UUIDs, home folders,
folders of scenarios, and the names that are given: by numbers.
"""

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from pinchpoint.model.errors import InputError

_V4: Final = r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)"
_IPV4: Final = re.compile(_V4)
_IPV4_SET: Final = re.compile(rf"({_V4})(?:\s*-\s*({_V4})|/(\d{{1,2}})(?!\d))?")
_IPV6: Final = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?![\w:])")
_MAC: Final = re.compile(r"(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:])")
_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_HOME: Final = re.compile(r"(?<=/home/)[^/\s\"']+")
_KEPT: Final = [ipaddress.ip_network(one) for one in ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3")]
_SMALL: Final = 1 << 14  # addresses; networks up to it come from 198.18.0.0/15
_FIRST: Final = 1 << 24  # 1.0.0.0: a range that begins lower is of ports
Block = tuple[int, int]  # first address and how many, a power of two


@dataclass(frozen=True)
class Anonymous:
    """What is replaced by what; made of all files of a run by `found_in`."""

    blocks: Mapping[Block, int]  # a network -> the first address of the one in its place
    words: Mapping[str, str]  # anything else
    names: re.Pattern[str] | None

    def text(self, value: str) -> str:
        """A text with all of it replaced."""
        for pattern in (_MAC, _UUID, _IPV6):
            value = pattern.sub(lambda found: self.words.get(found[0].lower(), found[0]), value)
        value = _IPV4.sub(lambda found: _shown(self._mapped(_number(found[0]))), value)
        value = _HOME.sub("user", value)
        return self.names.sub(lambda found: self.words[found[0]], value) if self.names else value

    def integers(self, value: object) -> object:
        """A stored range of addresses, `{"first": ..., "count": ...}`, replaced; anything else as it is."""
        if isinstance(value, dict) and (first := _first_of_range(value)) is not None:
            return {**value, "first": self._mapped(first)}
        return value

    def _mapped(self, address: int) -> int:
        for (first, count), new in self.blocks.items():
            if first <= address < first + count:
                return new + address - first
        return address


def found_in(files: Mapping[str, bytes], names: Sequence[str] = ()) -> Anonymous:
    """All that is to be replaced in these files; `names` are further words to replace, such as those of hosts.

    Raises InputError if there are more networks than there is room for.
    """
    texts, ranges = list[str](), list[tuple[int, int]]()
    for name, data in files.items():
        if name.endswith((".json", ".jsonl")):
            for line in data.decode().splitlines():
                _collect(json.loads(line), texts, ranges)
        else:
            texts.append(data.decode(errors="replace"))
    whole = "\n".join(texts)
    words = {
        **_numbered(_MAC, whole, _new_mac),
        **_numbered(_UUID, whole, _new_uuid),
        **_numbered(_IPV6, whole, _new_v6),
    }
    own = _names(names, _folders(files))
    pattern = (
        re.compile(
            "|".join(f"{_edge(one)}{re.escape(one)}(?![A-Za-z0-9])" for one in sorted(own, key=len, reverse=True))
        )
        if own
        else None
    )
    return Anonymous(_blocks([*_sets(whole), *ranges]), {**words, **own}, pattern)


def _edge(word: str) -> str:
    return "(?<![A-Za-z0-9])" if word[:1].isalnum() else ""


def _collect(value: object, texts: list[str], ranges: list[tuple[int, int]]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, list):
        for one in value:
            _collect(one, texts, ranges)
    elif isinstance(value, dict):
        first = _first_of_range(value)
        if first is not None:
            ranges.append((first, first + value["count"] - 1))
        texts.extend(value)
        for one in value.values():
            _collect(one, texts, ranges)


def _first_of_range(value: Mapping[str, Any]) -> int | None:
    """The first address of a stored range; None of a range of ports, or of anything else."""
    if value.keys() != {"first", "count"} or not all(isinstance(one, int) for one in value.values()):
        return None
    first, count = value["first"], value["count"]
    return first if first >= _FIRST and count > 0 and first + count <= 1 << 32 else None


def _sets(text: str) -> Iterator[tuple[int, int]]:
    """First and last address of every range, network and single address of a text."""
    for found in _IPV4_SET.finditer(text):
        first = last = _number(found[1])
        if found[2]:
            last = max(first, _number(found[2]))
        elif found[3] and int(found[3]) <= 32:
            size = 1 << (32 - int(found[3]))
            first -= first % size
            last = first + size - 1
        yield first, last


def _blocks(sets: Iterable[tuple[int, int]]) -> dict[Block, int]:
    """The networks that hold these sets, at least a /24 each, and where each goes."""
    found: set[Block] = set()
    for first, last in sets:
        if not _is_kept(first, last):
            found.add(_network(first, last))
    largest = [one for one in found if not any(_inside(one, other) for other in found if other != one)]
    return _placed(sorted(largest, key=lambda one: (-one[1], one[0])))


def _placed(blocks: Sequence[Block]) -> dict[Block, int]:
    """Large ones from 11.0.0.0, then small ones from 198.18.0.0; the largest first, so that each is aligned."""
    large, small = _number("11.0.0.0"), _number("198.18.0.0")
    found = {}
    for first, count in blocks:
        if count > _SMALL:
            found[first, count], large = large, large + count
        else:
            found[first, count], small = small, small + count
    if large > _number("127.0.0.0") or small > _number("198.20.0.0"):
        raise InputError("too many networks to give each another one", "pack without --anonymous")
    return found


def _is_kept(first: int, last: int) -> bool:
    kept = any(first in _span(one) and last in _span(one) for one in _KEPT)
    return kept or last - first >= 1 << 25  # half the world identifies nobody


def _span(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> range:
    first = int(network.network_address)
    return range(first, first + network.num_addresses)


def _network(first: int, last: int) -> Block:
    size = 256
    while first - first % size + size <= last:
        size *= 2
    return first - first % size, size


def _inside(one: Block, other: Block) -> bool:
    return other[0] <= one[0] and one[0] + one[1] <= other[0] + other[1]


def _number(address: str) -> int:
    a, b, c, d = map(int, address.split("."))
    return a << 24 | b << 16 | c << 8 | d


def _shown(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))


def _numbered(pattern: re.Pattern[str], text: str, new: Any) -> dict[str, str]:
    """Every word of a pattern -> what stands in its place, in the order in which they occur; kept ones are absent."""
    found: dict[str, str] = {}
    for word in dict.fromkeys(one.lower() for one in pattern.findall(text)):
        other = new(word, len(found) + 1)
        if other is not None:
            found[word] = other
    return found


def _new_mac(word: str, number: int) -> str | None:
    """None for one that nobody was assigned: its local bit is set, or it is a group's (IEEE 802)."""
    low = int(word[:2], 16)
    return (
        None
        if low & 3 or set(word) <= set("0:")
        else f"02:00:5e:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
    )


def _new_uuid(_: str, number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _new_v6(word: str, number: int) -> str | None:
    try:
        address = ipaddress.IPv6Address(word)
    except ValueError:
        return None
    if address.is_multicast or address.is_loopback or address.is_unspecified:
        return None
    return f"2001:db8::{number >> 16:x}:{number & 0xFFFF:x}"


def _names(given: Sequence[str], folders: Mapping[str, str]) -> dict[str, str]:
    hosts = dict.fromkeys(one for one in given if len(one) > 1 and one != "localhost")
    return {**{name: f"host{number}" for number, name in enumerate(hosts, 1)}, **folders}


def _folders(files: Mapping[str, bytes]) -> dict[str, str]:
    """The folders of the scenario files -> others: where somebody keeps files identifies, too."""
    info = json.loads(files.get("run.json", b"{}"))
    paths = sorted({str(PurePosixPath(one).parent) for one in info.get("sources", {}) if one.startswith("/")} - {"/"})
    found = {path: f"/scenarios{number if number > 1 else ''}" for number, path in enumerate(paths, 1)}
    programs = {str(PurePosixPath(one).parent) for one in info.get("argv", ())[:1] if one.startswith("/")}
    return {**dict.fromkeys(programs - {"/"}, "/bin"), **found}
