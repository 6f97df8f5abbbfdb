"""Addresses and names of hosts replaced, the same one by the same one, so that a run stays readable and repeatable.

IPv4: every network that occurs, a range of addresses included, becomes one of the same size: of 198.18.0.0/15
(RFC 2544, C.2.2), or if it is larger than a /18 one from 11.0.0.0 on. The host part is kept, so that ranges, masks and
the number of addresses are what they were. 0.0.0.0, loopback, multicast and masks stay. IPv6: the same, with networks
of 2001:db8::/32 (RFC 3849), or if it is larger than a /48 of 3fff::/20 (RFC 9637). MAC addresses that a manufacturer
assigned: 02:00:5e:00:00:01 and on. UUIDs, home folders, folders of scenarios, logins and names of the hosts that
benches stand on, and the names that are given: by numbers.
"""

import ipaddress
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any, Final

from pinchpoint.model.errors import InputError
from pinchpoint.store.texts import json_values

_V4: Final = r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)"
_IPV4: Final = re.compile(_V4)
_IPV4_SET: Final = re.compile(rf"({_V4})(?:\s*-\s*({_V4})|/(\d{{1,2}})(?!\d))?")
_V6: Final = r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?![\w:])"
_IPV6: Final = re.compile(_V6)
_IPV6_SET: Final = re.compile(rf"({_V6})(?:\s*-\s*({_V6})|/(\d{{1,3}})(?!\d))?")
_MAC: Final = re.compile(r"(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:])")
_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_HOME: Final = re.compile(r"(?<=/home/)[^/\s\"']+")
_KEPT: Final = [ipaddress.ip_network(network) for network in ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "ff00::/8")]
_FIRST: Final = 1 << 24  # 1.0.0.0: a range that begins lower is of ports
_V6_FIRST: Final = 1 << 32  # lower numbers are addresses of IPv4 (`pinchpoint.model.addresses`)
Block = tuple[int, int]  # first address and how many, a power of two


@dataclass(frozen=True)
class _Room:
    """Where the networks of a family go: up to `small` addresses to one place, larger ones to another."""

    small: int  # addresses
    small_to: Block
    large_to: Block
    nobodys: int  # addresses; larger networks identify nobody and stay


_V4_ROOM: Final = _Room(1 << 14, (0xC6120000, 1 << 17), (11 << 24, 116 << 24), 1 << 25)
_V6_ROOM: Final = _Room(1 << 80, (0x20010DB8 << 96, 1 << 96), (0x3FFF << 112, 1 << 108), 1 << 104)


@dataclass(frozen=True)
class Anonymous:
    """What is replaced by what; made of all files of a run by `found_in`."""

    blocks: Mapping[Block, int]  # a network -> the first address of the one in its place
    words: Mapping[str, str]  # anything else
    names: re.Pattern[str] | None

    def text(self, value: str) -> str:
        """A text with all of it replaced."""
        for pattern in (_MAC, _UUID):
            value = pattern.sub(lambda match: self.words.get(match[0].lower(), match[0]), value)
        value = _IPV6.sub(lambda match: self._mapped_v6(match[0]), value)
        value = _IPV4.sub(lambda match: _shown(self._mapped(_number(match[0]))), value)
        value = _HOME.sub("user", value)
        return self.names.sub(lambda match: self.words[match[0]], value) if self.names else value

    def integers(self, value: object) -> object:
        """A stored range of addresses, `{"first": ..., "count": ...}`, replaced; anything else as it is."""
        if isinstance(value, dict) and (first := _first_of_range(value)) is not None:
            return {**value, "first": self._mapped(first)}
        return value

    def _mapped_v6(self, word: str) -> str:
        address = _number_v6(word)
        if address is None or (new := self._mapped(address)) == address:
            return word
        return str(ipaddress.IPv6Address(new))

    def _mapped(self, address: int) -> int:
        for (first, count), new in self.blocks.items():
            if first <= address < first + count:
                return new + address - first
        return address


def found_in(files: Mapping[str, bytes], names: Sequence[str] = ()) -> Anonymous:
    """All that is to be replaced in these files; `names` are further words to replace, such as those of hosts.

    The hosts that the scenarios name are among them without being given. Raises InputError if there are more networks
    than there is room for, or if a file of the run is not JSON where it should be.
    """
    texts, ranges = list[str](), list[tuple[int, int]]()
    for name, data in files.items():
        values = json_values(name, data)
        if values is None:
            texts.append(data.decode(errors="replace"))
        else:
            _collect(values, texts, ranges)
    whole = "\n".join(texts)
    words = {
        **_numbered(_MAC, whole, _new_mac),
        **_numbered(_UUID, whole, _new_uuid),
    }
    own = _names([*names, *names_of_hosts(files)], _folders(files))
    pattern = (
        re.compile(
            "|".join(f"{_edge(name)}{re.escape(name)}(?![A-Za-z0-9])" for name in sorted(own, key=len, reverse=True))
        )
        if own
        else None
    )
    blocks = [*_sets(whole), *_sets_v6(whole), *ranges]
    v4 = _blocks((block for block in blocks if block[0] < _V6_FIRST), _V4_ROOM)
    v6 = _blocks((block for block in blocks if block[0] >= _V6_FIRST), _V6_ROOM)
    return Anonymous({**v4, **v6}, {**words, **own}, pattern)


def _edge(word: str) -> str:
    return "(?<![A-Za-z0-9])" if word[:1].isalnum() else ""


def _collect(value: object, texts: list[str], ranges: list[tuple[int, int]]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, list):
        for item in value:
            _collect(item, texts, ranges)
    elif isinstance(value, dict):
        first = _first_of_range(value)
        if first is not None:
            ranges.append((first, first + value["count"] - 1))
        texts.extend(value)
        for item in value.values():
            _collect(item, texts, ranges)


def _first_of_range(value: Mapping[str, Any]) -> int | None:
    """The first address of a stored range; None of a range of ports, or of anything else."""
    if value.keys() != {"first", "count"} or not all(isinstance(item, int) for item in value.values()):
        return None
    first, count = value["first"], value["count"]
    end = 1 << (32 if first < _V6_FIRST else 128)
    return first if first >= _FIRST and count > 0 and first + count <= end else None


def _sets(text: str) -> Iterator[tuple[int, int]]:
    """First and last address of every range, network and single address of a text."""
    for match in _IPV4_SET.finditer(text):
        first = last = _number(match[1])
        if match[2]:
            last = max(first, _number(match[2]))
        elif match[3] and int(match[3]) <= 32:
            size = 1 << (32 - int(match[3]))
            first -= first % size
            last = first + size - 1
        yield first, last


def _sets_v6(text: str) -> Iterator[tuple[int, int]]:
    """The same of IPv6; ::/96 is left, whose numbers are those of IPv4 (deprecated, RFC 4291 section 2.5.5.1)."""
    for match in _IPV6_SET.finditer(text):
        first = _number_v6(match[1])
        if first is None or first < _V6_FIRST:
            continue
        last = first
        if match[2]:
            last = max(first, _number_v6(match[2]) or first)
            if last - first >= _V6_ROOM.nobodys:  # two addresses with a dash between them
                yield last, last
                last = first
        elif match[3] and int(match[3]) <= 128:
            size = 1 << (128 - int(match[3]))
            first -= first % size
            last = first + size - 1
        yield first, last


def _blocks(sets: Iterable[tuple[int, int]], room: _Room) -> dict[Block, int]:
    """The networks that hold these sets, 256 addresses each at least, and where each goes."""
    blocks: set[Block] = set()
    for first, last in sets:
        if not _is_kept(first, last, room):
            blocks.add(_network(first, last))
    largest = [block for block in blocks if not any(_inside(block, other) for other in blocks if other != block)]
    return _placed(sorted(largest, key=lambda block: (-block[1], block[0])), room)


def _placed(blocks: Sequence[Block], room: _Room) -> dict[Block, int]:
    """Each to its place; the largest first, so that each is aligned."""
    large, small = room.large_to[0], room.small_to[0]
    placed = {}
    for first, count in blocks:
        if count > room.small:
            placed[first, count], large = large, large + count
        else:
            placed[first, count], small = small, small + count
    if large > sum(room.large_to) or small > sum(room.small_to):
        raise InputError("too many networks to give each another one", "pack without --anonymous")
    return placed


def _is_kept(first: int, last: int, room: _Room) -> bool:
    kept = any(low <= first and last < low + count for low, count in map(_span, _KEPT))
    return kept or last - first >= room.nobodys


def _span(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> Block:
    return int(network.network_address), network.num_addresses


def _network(first: int, last: int) -> Block:
    size = 256
    while first - first % size + size <= last:
        size *= 2
    return first - first % size, size


def _inside(block: Block, other: Block) -> bool:
    return other[0] <= block[0] and block[0] + block[1] <= other[0] + other[1]


def _number(address: str) -> int:
    a, b, c, d = map(int, address.split("."))
    return a << 24 | b << 16 | c << 8 | d


def _number_v6(word: str) -> int | None:
    """None of a word that is no address, such as a time."""
    try:
        return int(ipaddress.IPv6Address(word))
    except ValueError:
        return None


def _shown(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))


def _numbered(pattern: re.Pattern[str], text: str, new: Any) -> dict[str, str]:
    """Every word of a pattern -> what stands in its place, in the order in which they occur; kept ones are absent."""
    numbered: dict[str, str] = {}
    for word in dict.fromkeys(name.lower() for name in pattern.findall(text)):
        other = new(word, len(numbered) + 1)
        if other is not None:
            numbered[word] = other
    return numbered


def _new_mac(word: str, number: int) -> str | None:
    """None for an address that nobody was assigned: its local bit is set, or it is a group's (IEEE 802)."""
    low = int(word[:2], 16)
    return (
        None
        if low & 3 or set(word) <= set("0:")
        else f"02:00:5e:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
    )


def _new_uuid(_: str, number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _names(names: Sequence[str], folders: Mapping[str, str]) -> dict[str, str]:
    hosts = dict.fromkeys(name for name in names if len(name) > 1 and name != "localhost")
    return {**{name: f"host{number}" for number, name in enumerate(hosts, 1)}, **folders}


def _folders(files: Mapping[str, bytes]) -> dict[str, str]:
    """The folders of the scenario files -> others: where somebody keeps files identifies, too."""
    info = json.loads(files.get("run.json", b"{}"))
    paths = sorted(
        {str(PurePosixPath(path).parent) for path in info.get("sources", {}) if path.startswith("/")} - {"/"}
    )
    folders = {path: f"/scenarios{number if number > 1 else ''}" for number, path in enumerate(paths, 1)}
    programs = {str(PurePosixPath(path).parent) for path in info.get("argv", ())[:1] if path.startswith("/")}
    return {**dict.fromkeys(programs - {"/"}, "/bin"), **folders}


_COMMON: Final = frozenset({"root", "localhost"})  # they identify nobody
_KINDS: Final = frozenset({"kind", "datapath", "measure", "mode"})  # keys whose values are words of Pinchpoint


def names_of_hosts(files: Mapping[str, bytes]) -> list[str]:
    """Names, logins and addresses of the hosts in the scenarios and in their texts; addresses of IP are not names.

    A word that is also a key of a scenario or a kind of device stays, since a scenario could not be read without it.
    """
    info = json.loads(files.get("run.json", b"{}"))
    texts = [table for text in info.get("sources", {}).values() if (table := _table(text))]
    scenarios = info.get("scenarios", ())
    placed = [part for table in scenarios if isinstance(table, dict) for part in (table, *table.get("engines", ()))]
    remotes = [part["remote"] for part in placed if isinstance(part, dict) and isinstance(part.get("remote"), dict)]
    words = [word for host in remotes for word in _words(str(host.get("name", "")), host)]
    for table in texts:
        hosts = table.get("host")
        for name, host in hosts.items() if isinstance(hosts, dict) else ():
            words += _words(name, host if isinstance(host, dict) else {})
        words += _of_machines(table.get("machine"))
    plain = [{**table, "host": (), "machine": ()} for table in texts]
    kept = {*_COMMON, *_vocabulary([*scenarios, *plain]), *info}
    return [word for word in dict.fromkeys(words) if word not in kept]


def _table(text: str) -> dict[str, Any]:
    with suppress(tomllib.TOMLDecodeError):
        return tomllib.loads(text)
    return {}


def _of_machines(machines: object) -> Iterator[str]:
    """Of the machines of a campaign file, also of the hosts of sites; their names there are those of scenarios."""
    for machine in machines if isinstance(machines, list) else ():
        if isinstance(machine, dict):
            yield from _words(str(machine.get("name", "")), machine)
            hosts = machine.get("hosts")
            for name, address in hosts.items() if isinstance(hosts, dict) else ():
                yield from _words(name, {"address": address})


def _words(name: str, remote: Mapping[str, Any]) -> Iterator[str]:
    """Of `[ssh://][login@]host[:port]`, as ssh(1) takes it: the login, the host and its first label."""
    login, _, host = str(remote.get("address", "")).removeprefix("ssh://").rpartition("@")
    bare, _, port = host.rpartition(":")
    if port.isdecimal() and ":" not in bare:
        host = bare
    for word in (name, login, host, host.partition(".")[0]):
        if word and not word.isdecimal() and not _is_ip(word):
            yield word


def _is_ip(word: str) -> bool:
    with suppress(ValueError):
        ip_address(word.strip("[]"))
        return True
    return False


def _vocabulary(value: object) -> Iterator[str]:
    """Every key, and the values of those that have words of Pinchpoint."""
    if isinstance(value, list):
        for item in value:
            yield from _vocabulary(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key in _KINDS and isinstance(item, str):
                yield item
            yield from _vocabulary(item)
