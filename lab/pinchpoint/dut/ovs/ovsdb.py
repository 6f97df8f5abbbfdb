"""The database's own protocol (RFC 7047), as far as one large transaction needs it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError

_ANSWER_S = 0.2  # how long a stop may have to wait
Operation = dict[str, Any]


class Ovsdb:
    """One connection to an ovsdb-server, by its Unix socket. Close it, or use it in a `with`."""

    def __init__(self, host: Host, path: str) -> None:
        self._path = path.removeprefix("unix:")
        self._buffer = ""
        self._id = 0
        try:
            self._socket = host.connect(self._path)
        except OSError as error:
            raise DutError(f"{self._path}: {error.strerror}", "see ovsdb-server's log") from error
        self._socket.settimeout(_ANSWER_S)

    def __enter__(self) -> "Ovsdb":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def transact(self, operations: Sequence[Operation], on_wait: Callable[[], None]) -> list[Any]:
        """The results of one transaction (RFC 7047, 4.1.3). Raises DutError naming what was refused.

        `on_wait` is called while there is no answer; what it raises ends the waiting.
        """
        self._id += 1
        request = {"method": "transact", "params": ["Open_vSwitch", *operations], "id": self._id}
        try:
            self._socket.settimeout(None)
            self._socket.sendall(json.dumps(request).encode())
            self._socket.settimeout(_ANSWER_S)
            answer = self._answer(on_wait)
        except (OSError, ValueError) as error:
            raise DutError(f"{self._path}: no answer to a transaction: {error}", "see ovsdb-server's log") from error
        results = answer.get("result")
        if answer.get("error") or not isinstance(results, list):
            raise DutError(f"the database refused a transaction: {answer.get('error')}")
        for result in results:
            if isinstance(result, dict) and "error" in result:
                raise DutError(f"the database refused a transaction: {result['error']}: {result.get('details', '')}")
        return results

    def _answer(self, on_wait: Callable[[], None]) -> dict[str, Any]:
        while True:
            message = self._message(on_wait)
            if message.get("method") == "echo":  # the server asks whether we live (RFC 7047, 4.1.11)
                self._socket.sendall(json.dumps({"id": message["id"], "result": [], "error": None}).encode())
            elif message.get("id") == self._id:
                return message

    def _message(self, on_wait: Callable[[], None]) -> dict[str, Any]:
        """The next JSON object; the stream has no other framing than the object's own end."""
        while True:
            if self._buffer.rstrip().endswith("}"):
                try:
                    message, end = json.JSONDecoder().raw_decode(self._buffer)
                except ValueError:
                    pass  # a brace inside it: more is to come
                else:
                    self._buffer = self._buffer[end:].lstrip()
                    return dict(message)
            try:
                chunk = self._socket.recv(1 << 20)
            except TimeoutError:
                on_wait()
                continue
            if not chunk:
                raise ValueError("connection closed")
            self._buffer += chunk.decode()
