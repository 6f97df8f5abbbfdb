"""Clients of the daemons' sockets, which speak JSON-RPC 1.0: the control socket, and the database (RFC 7047).

A connection of our own instead of one ovs-appctl process per command saves some 5 ms each, eight commands on either
side of a trial. Commands: ovs-vswitchd(8), "RUNTIME MANAGEMENT COMMANDS".
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError

MAX_REPLY_BYTES = 256 * 1024 * 1024  # a dump of a million datapath flows
_ANSWER_S = 0.2  # how long a stop may have to wait
Operation = dict[str, Any]


class UnixctlError(DutError):
    """The daemon answered with an error, in its own words."""


class _Stream:
    """JSON objects one after the other. Everything raises OSError; what comes and is no object, ValueError."""

    def __init__(self, host: Host, path: str, timeout_s: float) -> None:
        self._connection, self._timeout_s = host.connect(path), timeout_s
        self._received = bytearray()

    def close(self) -> None:
        self._connection.close()

    def send(self, message: Mapping[str, object]) -> None:
        """However long it is."""
        self._connection.settimeout(None)
        self._connection.sendall(json.dumps(message).encode())
        self._connection.settimeout(self._timeout_s)

    def receive(self, on_wait: Callable[[], None] | None = None) -> dict[str, Any]:
        """The next object. Where nothing comes in time, `on_wait` is called; without it that is an error."""
        while (message := self._whole()) is None:
            try:
                chunk = self._connection.recv(1 << 20)
            except TimeoutError:
                if on_wait is None:
                    raise
                on_wait()
                continue
            if not chunk:
                raise ValueError("connection closed")
            self._received += chunk
            if len(self._received) > MAX_REPLY_BYTES:
                raise ValueError(f"reply longer than {MAX_REPLY_BYTES} bytes")
        if not isinstance(message, dict):
            raise ValueError("reply is not an object")
        return message

    def _whole(self) -> Any:
        """The first object of what came; None: more is to come. There is no other framing than an object's own end."""
        if not self._received[-16:].rstrip().endswith(b"}"):
            return None
        text = self._received.decode().lstrip()
        try:
            message, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            return None  # a brace inside it
        self._received = bytearray(text[end:].encode())
        return message


class Unixctl:
    """One connection to a control socket; reconnects by itself after an error."""

    def __init__(self, host: Host, path: str, timeout_s: float = 10.0) -> None:
        self.path = path
        self._host, self._timeout_s = host, timeout_s
        self._stream: _Stream | None = None
        self._id = 0

    def call(self, command: str, *arguments: str) -> str:
        """The command's output. Raises UnixctlError if it was refused, DutError if nobody answers."""
        self._id += 1
        try:
            if self._stream is None:
                self._stream = _Stream(self._host, self.path, self._timeout_s)
            self._stream.send({"id": self._id, "method": command, "params": list(arguments)})
            reply = self._stream.receive()
        except (OSError, ValueError) as error:
            self.close()
            raise DutError(f"{self.path}: no answer to {command}: {error}", "see ovs-vswitchd's log") from error
        if reply.get("error") is not None:
            said = str(reply["error"]).strip()  # dpctl's commands begin with their own name
            raise UnixctlError(said if said.startswith(f"{command}:") else f"{command}: {said}")
        return str(reply.get("result", ""))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class Ovsdb:
    """One connection to an ovsdb-server, by its Unix socket. Close it, or use it in a `with`."""

    def __init__(self, host: Host, path: str) -> None:
        self._path = path.removeprefix("unix:")
        self._id = 0
        try:
            self._stream = _Stream(host, self._path, _ANSWER_S)
        except OSError as error:
            raise DutError(f"{self._path}: {error.strerror}", "see ovsdb-server's log") from error

    def __enter__(self) -> "Ovsdb":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def transact(self, operations: Sequence[Operation], on_wait: Callable[[], None] = lambda: None) -> list[Any]:
        """The results of one transaction (RFC 7047, 4.1.3). Raises DutError naming what was refused.

        `on_wait` is called while there is no answer; what it raises ends the waiting.
        """
        self._id += 1
        try:
            self._stream.send({"method": "transact", "params": ["Open_vSwitch", *operations], "id": self._id})
            while (answer := self._stream.receive(on_wait)).get("id") != self._id:
                if answer.get("method") == "echo":  # the server asks whether we live (RFC 7047, 4.1.11)
                    self._stream.send({"id": answer["id"], "result": [], "error": None})
        except (OSError, ValueError) as error:
            raise DutError(f"{self._path}: no answer to a transaction: {error}", "see ovsdb-server's log") from error
        results = answer.get("result")
        if answer.get("error") or not isinstance(results, list):
            raise DutError(f"the database refused a transaction: {answer.get('error')}")
        for result in results:
            if isinstance(result, dict) and "error" in result:
                raise DutError(f"the database refused a transaction: {result['error']}: {result.get('details', '')}")
        return results


def selected(table: str, *columns: str) -> Operation:
    """The operation that gives these columns of every row (RFC 7047, 5.2.2)."""
    return {"op": "select", "table": table, "where": [], "columns": list(columns)}
