"""Addresses and names of hosts replaced, the same one by the same one, so that a run stays readable and repeatable.

IPv4: every network that occurs, a range of addresses included, becomes one of the same size: of 198.18.0.0/15
(RFC 2544, C.2.2), or if it is larger than a /18 one from 11.0.0.0 on. The host part is kept, so that ranges, masks and
the number of addresses are what they were. 0.0.0.0, loopback, multicast and masks stay. IPv6: the same, with networks
of 2001:db8::/32 (RFC 3849), or if it is larger than a /48 of 3fff::/20 (RFC 9637). MAC addresses that a manufacturer
assigned: 02:00:5e:00:00:01 and on. UUIDs, home folders, folders of scenarios, logins and names of the hosts that
benches stand on, and the names that are given: by numbers.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import PurePosixPath
from typing import Any, Final

from pinchpoint.model.errors import InputError
from pinchpoint.model.former import with_sites

Block = tuple[int, int]  # first address and how many, a power of two
_V4: Final = r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)"
_V6: Final = r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?![\w:])"
_MAC: Final = re.compile(r"(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:])")
_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_HOME: Final = re.compile(r"(?<=/home/)[^/\s\"']+")
_SPECIAL: Final = ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "ff00::/8")
_KEPT: Final = [(int(network.network_address), network.num_addresses) for network in map(ip_network, _SPECIAL)]
_FIRST: Final = 1 << 24  # 1.0.0.0: a range that begins lower is of ports
_V6_FIRST: Final = 1 << 32  # lower numbers are addresses of IPv4 (`pinchpoint.model.addresses`)


@dataclass(frozen=True)
class _Family:
    """How addresses are written, and where networks go: those up to `small` to one place, larger ones to another."""

    word: str  # a pattern
    bits: int
    first: int  # address
    small: int  # addresses
    small_to: Block
    large_to: Block
    nobodys: int  # addresses; larger networks identify nobody and stay


_SET: Final = r"({0})(?:\s*-\s*({0})|/(\d{{1,3}})(?!\d))?"
"""An address, with another one behind a dash, or the length of a network."""
_IPV4: Final = _Family(_V4, 32, 0, 1 << 14, (0xC6120000, 1 << 17), (11 << 24, 116 << 24), 1 << 25)
_IPV6: Final = _Family(_V6, 128, _V6_FIRST, 1 << 80, (0x20010DB8 << 96, 1 << 96), (0x3FFF << 112, 1 << 108), 1 << 104)


@dataclass(frozen=True)
class Anonymous:
    """What is replaced by what; made of all files of a run by `found_in`."""

    blocks: Mapping[Block, int]  # a network -> the first address of the one in its place
    words: Mapping[str, str]  # anything else
    names: re.Pattern[str]

    def files(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """The files of a run with all of it replaced; JSON is taken apart first.

        Raises InputError for a file of the run that is not JSON where it should be.
        """
        fresh = {}
        for name, data in files.items():
            values = _json_values(name, data)
            if values is None:
                fresh[name] = self.text(data.decode(errors="replace")).encode()
            else:
                plain = (json.dumps(self._value(value), ensure_ascii=False, separators=(",", ":")) for value in values)
                fresh[name] = "".join(f"{line}\n" for line in plain).encode()
        return fresh

    def text(self, value: str) -> str:
        """A text with all of it replaced."""
        for pattern in (_MAC, _UUID):
            value = pattern.sub(lambda match: self.words.get(match[0].lower(), match[0]), value)
        for family in (_IPV6, _IPV4):
            value = re.sub(family.word, self._address, value)
        return self.names.sub(lambda match: self.words[match[0]], _HOME.sub("user", value))

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(element) for element in value]
        if not isinstance(value, dict):
            return value
        inner = {self.text(key): self._value(element) for key, element in value.items()}
        first = _first_of_range(inner)
        return inner if first is None else {**inner, "first": self._mapped(first)}

    def _address(self, match: re.Match[str]) -> str:
        address = _number(match[0])
        if address is None or (new := self._mapped(address)) == address:
            return match[0]
        return str(IPv6Address(new) if ":" in match[0] else IPv4Address(new))

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
    texts, sets = list[str](), list[tuple[int, int]]()
    for name, data in files.items():
        values = _json_values(name, data)
        if values is None:
            texts.append(data.decode(errors="replace"))
            continue
        for part in _parts(values):
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict) and (first := _first_of_range(part)) is not None:
                sets.append((first, first + part["count"] - 1))
    whole = "\n".join(texts)
    sets += [*_sets(whole, _IPV4), *_sets(whole, _IPV6)]
    v4 = _placed([(first, last) for first, last in sets if first < _V6_FIRST], _IPV4)
    v6 = _placed([(first, last) for first, last in sets if first >= _V6_FIRST], _IPV6)
    hosts = dict.fromkeys(name for name in (*names, *names_of_hosts(files)) if len(name) > 1 and name != "localhost")
    own = {**{name: f"host{number}" for number, name in enumerate(hosts, 1)}, **_folders(files)}
    words = {**_numbered(_MAC, whole, _new_mac), **_numbered(_UUID, whole, _new_uuid), **own}
    longest_first = sorted(own, key=len, reverse=True)
    pattern = "|".join(f"{_edge(name)}{re.escape(name)}(?![A-Za-z0-9])" for name in longest_first)
    return Anonymous({**v4, **v6}, words, re.compile(pattern or "(?!)"))


def _json_values(name: str, data: bytes) -> list[object] | None:
    """The one value of a .json file, or those of a .jsonl file by line; None of a file that is plain text.

    Lines end at LF only: U+2028, U+2029 and U+0085 may stand in JSON strings as they are (RFC 8259 section 7). What
    follows the last LF is what a crash left of a line. An attachment that is not JSON is text. Raises InputError.
    """
    if not name.endswith((".json", ".jsonl")):
        return None
    lines = data.split(b"\n")[:-1] if name.endswith(".jsonl") else [data]
    values = []
    for number, line in enumerate(lines, 1):
        try:
            values.append(json.loads(line))
        except ValueError as error:
            if name.startswith("attachments/"):
                return None
            where = f"{name}, line {number}" if name.endswith(".jsonl") else name
            raise InputError(f"{where}: not JSON: {error}", "pack without --anonymous keeps it as it is") from error
    return values


def _parts(value: object) -> Iterator[object]:
    """A value of JSON and all that is in it, keys included."""
    yield value
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from _parts(element)


def _edge(word: str) -> str:
    return "(?<![A-Za-z0-9])" if word[:1].isalnum() else ""


def _first_of_range(value: Mapping[str, Any]) -> int | None:
    """The first address of a stored range, `{"first": ..., "count": ...}`; None of one of ports, or anything else."""
    if value.keys() != {"first", "count"} or not all(isinstance(item, int) for item in value.values()):
        return None
    first, count = value["first"], value["count"]
    end = 1 << (32 if first < _V6_FIRST else 128)
    return first if first >= _FIRST and count > 0 and first + count <= end else None


def _sets(text: str, family: _Family) -> Iterator[tuple[int, int]]:
    """First and last address of every range, network and single address of a text.

    Of IPv6 ::/96 is left, whose numbers are those of IPv4 (deprecated, RFC 4291 section 2.5.5.1).
    """
    for match in re.finditer(_SET.format(family.word), text):
        first = _number(match[1])
        if first is None or first < family.first:
            continue
        last = first
        if match[2]:
            last = max(first, _number(match[2]) or first)
            if family is _IPV6 and last - first >= family.nobodys:  # two addresses with a dash between them
                yield last, last
                last = first
        elif match[3] and int(match[3]) <= family.bits:
            size = 1 << (family.bits - int(match[3]))
            first -= first % size
            last = first + size - 1
        yield first, last


def _placed(sets: Sequence[tuple[int, int]], family: _Family) -> dict[Block, int]:
    """The networks that hold these sets, 256 addresses each at least, and where each goes.

    The largest first, so that each is aligned.
    """
    blocks = {_network(first, last) for first, last in sets if not _is_kept(first, last, family)}
    largest = [block for block in blocks if not any(_inside(block, other) for other in blocks if other != block)]
    large, small = family.large_to[0], family.small_to[0]
    placed = {}
    for first, count in sorted(largest, key=lambda block: (-block[1], block[0])):
        if count > family.small:
            placed[first, count], large = large, large + count
        else:
            placed[first, count], small = small, small + count
    if large > sum(family.large_to) or small > sum(family.small_to):
        raise InputError("too many networks to give each another one", "pack without --anonymous")
    return placed


def _is_kept(first: int, last: int, family: _Family) -> bool:
    return any(low <= first and last < low + count for low, count in _KEPT) or last - first >= family.nobodys


def _network(first: int, last: int) -> Block:
    size = 256
    while first - first % size + size <= last:
        size *= 2
    return first - first % size, size


def _inside(block: Block, other: Block) -> bool:
    return other[0] <= block[0] and block[0] + block[1] <= other[0] + other[1]


def _number(word: str) -> int | None:
    """Of an address; None of a word that is none, such as a time."""
    if ":" not in word:
        return int.from_bytes(bytes(map(int, word.split("."))))
    try:
        return int(IPv6Address(word))
    except ValueError:
        return None


def _numbered(pattern: re.Pattern[str], text: str, new: Callable[[str, int], str | None]) -> dict[str, str]:
    """Every word of a pattern -> what stands in its place, in the order in which they occur; kept ones are absent."""
    numbered: dict[str, str] = {}
    for word in dict.fromkeys(name.lower() for name in pattern.findall(text)):
        other = new(word, len(numbered) + 1)
        if other is not None:
            numbered[word] = other
    return numbered


def _new_mac(word: str, number: int) -> str | None:
    """None for an address that nobody was assigned: its local bit is set, or it is a group's (IEEE 802)."""
    if int(word[:2], 16) & 3 or set(word) <= set("0:"):
        return None
    return f"02:00:5e:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


def _new_uuid(_: str, number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _folders(files: Mapping[str, bytes]) -> dict[str, str]:
    """The folders of scenario files and captures -> others: where somebody keeps files identifies, too."""
    info = json.loads(files.get("run.json", b"{}"))

    def parents(paths: Iterable[str]) -> list[str]:
        return sorted({str(PurePosixPath(path).parent) for path in paths if path.startswith("/")} - {"/"})

    def numbered(paths: Iterable[str], word: str) -> dict[str, str]:
        return {path: f"/{word}{number if number > 1 else ''}" for number, path in enumerate(parents(paths), 1)}

    programs = dict.fromkeys(parents(info.get("argv", ())[:1]), "/bin")
    return {**programs, **numbered(_captures(info), "captures"), **numbered(info.get("sources", {}), "scenarios")}


def _captures(info: Mapping[str, Any]) -> Iterator[str]:
    """The files that streams replay, by their paths."""
    tables = (table.get("streams") for table in info.get("scenarios", ()) if isinstance(table, dict))
    for stream in (stream for streams in tables if isinstance(streams, list) for stream in streams):
        if isinstance(stream, dict) and isinstance(path := stream.get("pcap"), str):
            yield path


_COMMON: Final = frozenset({"root", "localhost"})  # they identify nobody
_KINDS: Final = frozenset({"kind", "datapath", "measure", "mode"})  # keys whose values are words of Pinchpoint


def names_of_hosts(files: Mapping[str, bytes]) -> list[str]:
    """Names, logins and addresses of the hosts in the scenarios and in their texts; addresses of IP are not names.

    A word that is also a key of a scenario or a kind of device stays, since a scenario could not be read without it.
    """
    info = json.loads(files.get("run.json", b"{}"))
    texts = [table for text in info.get("sources", {}).values() if (table := _table(text))]
    scenarios = info.get("scenarios", ())
    placed = [site for table in scenarios if isinstance(table, dict) for site in with_sites(table)["sites"]]
    remotes = [site["remote"] for site in placed if isinstance(site, dict) and isinstance(site.get("remote"), dict)]
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
    for part in _parts(value):
        if isinstance(part, dict):
            yield from part
            yield from (word for key in _KINDS if isinstance(word := part.get(key), str))
