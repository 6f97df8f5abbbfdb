"""What runs in a guest: it answers the lab's requests (`guest_line`) by what `local` does on the guest's own kernel.

`python -S -m pinchpoint.host.guest_agent /dev/ttyS0`: the guest sees the lab's files, and needs nothing installed. So
nothing but the standard library may be imported here, however indirectly.
"""

import json
import os
import sys
import tty
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pinchpoint.host.guest_line import CREDIT, PIECE, READY, LineError, answer, refusal, to_bytes, to_text
from pinchpoint.host.interface import Connection, Host, Kept
from pinchpoint.host.local import Local

_AS_THEY_ARE = (
    *("run", "read", "size", "write", "names", "exists", "make_folder", "remove_folder"),
    *("spawn", "ended", "signal", "which", "release"),
    *("remove_file", "modified_s", "keep_to", "bind_memory"),
)


class Agent:
    """Answers requests, one after the other."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._connections: dict[int, Connection] = {}
        self._files: dict[int, Kept] = {}
        self._calls: Mapping[str, Callable[..., Any]] = {
            **{name: getattr(host, name) for name in _AS_THEY_ARE},
            "read_bytes": lambda path, offset: to_text(host.read_bytes(path, offset)),
            "cpus": lambda: sorted(host.cpus()),
            "connect": self._connect,
            "send": lambda connection, data: self._connections[connection].sendall(to_bytes(data)),
            "receive": self._receive,
            "close": lambda connection: self._connections.pop(connection).close(),
            "start_file": lambda path, unborn: self._keep(host.start_file(path, unborn)),
            "take_file": lambda path: self._keep(host.take_file(path)),
            "hold": lambda path, holder, token: self._keep(host.hold(path, holder, token)),
            "append": lambda file, data: self._files[file].append(to_bytes(data)),
            "remove": lambda file: self._files.pop(file).remove(),
            "leave": lambda file: self._files.pop(file).close(),
            **self.more(),
        }

    def more(self) -> Mapping[str, Callable[..., Any]]:
        """Calls that only some agents answer."""
        return {}

    def answer(self, line: bytes) -> bytes:
        """The answer to one request; of a line that is none, an error without a number."""
        try:
            asked = json.loads(line)
            number, call, arguments = asked["id"], self._calls[asked["call"]], dict(asked["with"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            return refusal(None, LineError(f"no request: {type(error).__name__}: {error}"))
        try:
            return answer(number, call(**arguments))
        except Exception as error:  # whatever it is, the lab has to hear of it
            return refusal(number, error)

    def _keep(self, file: Kept | None) -> int | None:
        if file is None:
            return None
        number = max(self._files, default=0) + 1
        self._files[number] = file
        return number

    def _connect(self, path: str, packets: bool) -> int:
        number = max(self._connections, default=0) + 1
        self._connections[number] = self._host.connect(path, packets=packets)
        return number

    def _receive(self, connection: int, most: int, timeout_s: float | None) -> str:
        stream = self._connections[connection]
        stream.settimeout(timeout_s)
        return to_text(stream.recv(most))


def requests(descriptor: int) -> Iterator[bytes]:
    """The lines that arrive, until the other end closes; a credit goes back for every PIECE bytes of one."""
    line, since_credit = bytearray(), 0
    while chunk := os.read(descriptor, PIECE):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield bytes(line + part)
            line, since_credit = bytearray(), 0
        line += rest
        since_credit += len(rest)
        if since_credit >= PIECE:
            put(descriptor, CREDIT + b"\n")
            since_credit -= PIECE


def put(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def main(path: str) -> None:
    """Answer what comes over a terminal, or another device, until its other end closes."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    if os.isatty(descriptor):
        tty.setraw(descriptor)
    serve(descriptor, Agent(Local()))


def serve(descriptor: int, agent: Agent) -> None:
    """Say that the agent is ready, and answer until the other end closes."""
    put(descriptor, READY + b"\n")
    for line in requests(descriptor):
        put(descriptor, agent.answer(line))


if __name__ == "__main__":
    main(sys.argv[1])
