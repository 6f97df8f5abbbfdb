"""A client for the control socket of Open vSwitch daemons (ovs-vswitchd(8), "RUNTIME MANAGEMENT COMMANDS").

The socket speaks JSON-RPC 1.0. A connection of our own instead of one ovs-appctl
process per command saves some 5 ms each, eight commands on either side of a trial.
"""

import json

from pinchpoint.host.interface import Connection, Host
from pinchpoint.model.errors import DutError

MAX_REPLY_BYTES = 256 * 1024 * 1024  # a dump of a million datapath flows


class UnixctlError(DutError):
    """The daemon answered with an error, in its own words."""


class Unixctl:
    """One connection; reconnects by itself after an error."""

    def __init__(self, host: Host, path: str, timeout_s: float = 10.0) -> None:
        self.path = path
        self._host = host
        self._timeout_s = timeout_s
        self._socket: Connection | None = None
        self._id = 0

    def call(self, command: str, *arguments: str) -> str:
        """The command's output. Raises UnixctlError if it was refused, DutError if nobody answers."""
        self._id += 1
        request = {"id": self._id, "method": command, "params": list(arguments)}
        try:
            if self._socket is None:
                self._socket = self._host.connect(self.path)
                self._socket.settimeout(self._timeout_s)
            self._socket.sendall(json.dumps(request).encode())
            reply = _read_object(self._socket)
        except (OSError, ValueError) as error:
            self.close()
            raise DutError(f"{self.path}: no answer to {command}: {error}", "see ovs-vswitchd's log") from error
        if reply.get("error") is not None:
            said = str(reply["error"]).strip()  # dpctl's commands begin with their own name
            raise UnixctlError(said if said.startswith(f"{command}:") else f"{command}: {said}")
        return str(reply.get("result", ""))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _read_object(connection: Connection) -> dict[str, object]:
    """One JSON object; the stream has no other framing than the object's own end."""
    received = bytearray()
    while chunk := connection.recv(1 << 20):
        received += chunk
        if len(received) > MAX_REPLY_BYTES:
            raise ValueError(f"reply longer than {MAX_REPLY_BYTES} bytes")
        if not chunk.rstrip().endswith(b"}"):
            continue
        try:
            reply = json.loads(received)
        except ValueError:
            continue  # a brace inside a string: more is to come
        if isinstance(reply, dict):
            return reply
        raise ValueError("reply is not an object")
    raise ValueError("connection closed")
