"""Links by rtnetlink, many with one system call (rtnetlink(7), netlink(7)).

One process a link costs some 5 ms, most of it starting and ending; `ip -batch` reads
answers one by one. Here a socket takes a burst of requests, asks for an answer to the
last one only (the kernel answers failures in any case), and the rest is the kernel's time.

Removing a link makes the kernel wait for all readers on all processors, about 20 ms,
while links that go together wait once: so links that are made together get a group,
and a group is removed by one request (RTM_DELLINK with IFLA_GROUP).
"""

import builtins
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pinchpoint.model.errors import BenchError

NAMESPACES: Final = "/run/netns"  # ip-netns(8)
GROUP_SIZE = 1000  # links removed at once: a third of a second
FIRST_GROUP = 0x70700000  # link groups of this module; iproute2's named ones are small numbers
_LEAVING_GROUP = FIRST_GROUP - 1  # of links about to be removed, which may have been made by others
_BURST = 50  # requests a system call: their answers, were they all errors, fit the socket's buffer
_CLONE_NEWNET = 0x40000000
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port: struct nlmsghdr
_LINK = struct.Struct("=BBHiII")  # family, padding, type, index, flags, change mask: struct ifinfomsg
_ATTRIBUTE = struct.Struct("=HH")  # length, type: struct rtattr
_NEWLINK, _DELLINK, _GETLINK, _ERROR, _DONE = 16, 17, 18, 2, 3
_REQUEST, _ACK, _EXCLUSIVE, _CREATE, _DUMP = 0x1, 0x4, 0x200, 0x400, 0x300
_IFNAME, _LINKINFO, _GROUP, _NET_NS_FD = 3, 18, 27, 28
_KIND, _DATA, _VETH_PEER = 1, 2, 1
_DUMP_INTERRUPTED = 0x10  # NLM_F_DUMP_INTR: links came or went meanwhile
_MOST_DUMPS = 100  # of a namespace that does not keep still
_LARGEST_READ = 1 << 18  # bytes; the kernel fills at most 32 KiB of a dump at a time


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded to four bytes (rtnetlink(7), "Routing attributes")."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, value) of each attribute in `data`; the type without its nesting flags."""
    for (kind,), value in _parts(data, _ATTRIBUTE, "attribute"):
        yield kind & 0x3FFF, value


def messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, sequence, body) of each message that one read gave."""
    for (kind, flags, sequence, _), body in _parts(data, _HEADER, "message"):
        yield kind, flags, sequence, body


def _parts(data: bytes, header: struct.Struct, what: str) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """(what the header says beside the length, the rest) of each part; they begin at multiples of four bytes."""
    place = 0
    while place + header.size <= len(data):
        length, *fields = header.unpack_from(data, place)
        if length < header.size:
            raise ValueError(f"{what} of {length} bytes at {place}")
        yield tuple(fields), data[place + header.size : place + length]
        place += (length + 3) & ~3


def new_veth(name: str, peer: str, peer_namespace: int, group: int) -> bytes:
    """The body of RTM_NEWLINK for a pair; `peer_namespace` is an open descriptor of that namespace."""
    nothing = bytes(_LINK.size)
    far = nothing + attribute(_IFNAME, peer.encode() + b"\0") + attribute(_NET_NS_FD, struct.pack("=I", peer_namespace))
    info = attribute(_KIND, b"veth\0") + attribute(_DATA, attribute(_VETH_PEER, far))
    near = attribute(_IFNAME, name.encode() + b"\0") + attribute(_GROUP, struct.pack("=I", group))
    return nothing + near + attribute(_LINKINFO, info)


@contextmanager
def inside(netns: str | None) -> Iterator[None]:
    """Inside, what this thread opens belongs to the namespace; None is the one it is in."""
    if netns is None:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with _opened("/proc/thread-self/ns/net") as home, _opened(f"{NAMESPACES}/{netns}") as there:
        try:
            _enter(libc, there)
            yield
        finally:
            _enter(libc, home)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(libc: ctypes.CDLL, namespace: int) -> None:
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")


class Links:
    """One rtnetlink socket in a namespace. Close it, or use it in a `with`."""

    def __init__(self, netns: str | None) -> None:
        self._netns = netns or "the host's namespace"
        with inside(netns):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._sequence = 0

    def __enter__(self) -> "Links":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def remove_kind(self, kind: str, names: Collection[str] | None = None) -> int:
        """Remove all links of one kind, e.g. "tun", or those of `names` only, many at once; how many there were.

        One that goes meanwhile, e.g. with the process that made it, is no error.
        """
        indexes = [index for index, name, of in self.list() if of == kind and (names is None or name in names)]
        for first in range(0, len(indexes), GROUP_SIZE):
            part = indexes[first : first + GROUP_SIZE]
            group = attribute(_GROUP, struct.pack("=I", _LEAVING_GROUP))
            bodies = [_LINK.pack(0, 0, 0, index, 0, 0) + group for index in part]
            for place in range(0, len(part), _BURST):
                some = slice(place, place + _BURST)
                with _gone_is_no_error():
                    self.ask(_NEWLINK, 0, bodies[some], [f"link {index}" for index in part[some]])
            self.remove_group(_LEAVING_GROUP)
        return len(indexes)

    def list(self) -> list[tuple[int, str, str]]:
        """(index, name, kind) of every link of the namespace; the kind of a plain device is empty.

        Raises BenchError if links come and go whenever it looks.
        """
        for _ in range(_MOST_DUMPS):
            links, whole = self._dump()
            if whole:
                return links
        told = f"list of links in {self._netns}: interrupted {_MOST_DUMPS} times by links that came or went"
        raise BenchError(told, f"ip -n {self._netns} monitor link shows which")

    def _dump(self) -> "tuple[builtins.list[tuple[int, str, str]], bool]":
        """The links, and whether none came or went meanwhile: one may be missing then."""
        self._sequence += 1
        self._socket.send(_message(_GETLINK, _REQUEST | _DUMP, self._sequence, bytes(_LINK.size)))
        links: list[tuple[int, str, str]] = []
        whole = True
        while True:
            for kind, flags, sequence, body in messages(self._socket.recv(_LARGEST_READ)):
                if sequence != self._sequence:
                    continue
                whole = whole and not flags & _DUMP_INTERRUPTED
                if kind == _DONE:
                    return links, whole
                if kind == _ERROR:
                    raise self._refusal(body, "list of links")
                links.append(_described(body))

    def remove_group(self, group: int) -> None:
        """Remove all links of a group, of which there may be none. Raises BenchError."""
        body = bytes(_LINK.size) + attribute(_GROUP, struct.pack("=I", group))
        with _gone_is_no_error():
            self.ask(_DELLINK, 0, [body], [f"group {group:#x}"])

    def ask(self, kind: int, flags: int, bodies: Sequence[bytes], names: Sequence[str]) -> None:
        """Send a burst of requests. Raises BenchError naming the first that the kernel refused."""
        first = self._sequence + 1
        self._sequence += len(bodies)
        last = self._sequence
        burst = [
            _message(kind, _REQUEST | flags | (_ACK if first + place == last else 0), first + place, body)
            for place, body in enumerate(bodies)
        ]
        self._socket.send(b"".join(burst))
        failure: BenchError | None = None
        while True:
            for answer, _, sequence, body in messages(self._socket.recv(_LARGEST_READ)):
                if answer != _ERROR or not first <= sequence <= last:
                    continue
                if struct.unpack_from("=i", body)[0] != 0 and (failure is None or _is_gone(failure)):
                    failure = self._refusal(body, names[sequence - first])
                if sequence == last:
                    if failure is not None:
                        raise failure
                    return

    def _refusal(self, body: bytes, what: str) -> BenchError:
        number = -struct.unpack_from("=i", body)[0]
        failure = BenchError(f"{what} in {self._netns}: {os.strerror(number)}")
        failure.__cause__ = OSError(number, os.strerror(number))
        return failure


def _is_gone(error: BenchError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENODEV, errno.ENOENT)


@contextmanager
def _gone_is_no_error() -> Iterator[None]:
    try:
        yield
    except BenchError as error:
        if not _is_gone(error):
            raise


def _message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


def _described(body: bytes) -> tuple[int, str, str]:
    facts = dict(attributes(body[_LINK.size :]))
    words = (facts.get(_IFNAME, b""), dict(attributes(facts.get(_LINKINFO, b""))).get(_KIND, b""))
    name, kind = (word.rstrip(b"\0").decode(errors="replace") for word in words)
    return _LINK.unpack_from(body)[3], name, kind


def create_veths(on_made: Callable[[int], None], netns: str, peer_netns: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Pairs of links, `(name in netns, name in peer_netns)`, made in order and down, in groups of GROUP_SIZE.

    `on_made` receives the number of links after every 50; what it raises ends the loop.
    Raises BenchError naming the first pair that the kernel refused.
    """
    with Links(netns) as links, _opened(f"{NAMESPACES}/{peer_netns}") as there:
        for first in range(0, len(pairs), _BURST):
            burst = pairs[first : first + _BURST]
            groups = (FIRST_GROUP + number // GROUP_SIZE for number in range(first, first + len(burst)))
            bodies = [new_veth(*names, there, group) for names, group in zip(burst, groups, strict=True)]
            links.ask(_NEWLINK, _CREATE | _EXCLUSIVE, bodies, [f"veth {name}" for name, _ in burst])
            on_made(first + len(burst))


def remove_groups(on_removed: Callable[[int], None], netns: str, count: int) -> None:
    """Remove `count` links that `create_veths` made, or what is left of them."""
    with Links(netns) as links:
        for group in range(-(-count // GROUP_SIZE)):
            links.remove_group(FIRST_GROUP + group)
            on_removed(min(count, (group + 1) * GROUP_SIZE))


def remove_kind(_: Callable[[int], None], netns: str, kind: str, names: Collection[str]) -> None:
    """`Links.remove_kind` in a namespace; names that are gone already are no error."""
    with Links(netns) as links:
        links.remove_kind(kind, frozenset(names))


def count_links(netns: str) -> int:
    """Links of a namespace, lo included."""
    if not Path(NAMESPACES, netns).exists():
        return 0
    with Links(netns) as links:
        return len(links.list())
