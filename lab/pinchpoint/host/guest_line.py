"""The line between the lab and the agent of another host: one JSON object a line, one request at a time.

    request  {"id": 7, "call": "read_bytes", "with": {"path": "/proc/stat", "offset": 0}}
    answer   {"id": 7, "value": "Y3B1..."}  or  {"id": 7, "error": {"kind": "os", "number": 2, ...}}
    credit   +  the agent has taken another PIECE bytes of a request that has not ended

Bytes are base64. A request longer than PIECE goes out piece by piece, each after the credit for the one before it: a
terminal that is full holds back its sender, and the serial line of user-mode Linux was seen not to wake up from that.
Over a carrier that does wake up, such as ssh, a request goes out whole.
"""

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import BenchError, RequirementError

READY: Final = b"ready"  # the agent's first line
CREDIT: Final = b"+"
PIECE: Final = 2048  # bytes; a terminal in raw mode holds 4096 (n_tty.c, N_TTY_BUF_SIZE)
LONGEST: Final = 512 * 1024 * 1024  # bytes of one line: a dump of a million datapath flows, in base64
_CHUNK: Final = 1 << 20
_ENDED: Final = "the other end has closed"
_LOOK_S: Final = 0.5  # how often the other end is looked at while it says nothing
_SHOWN: Final = 60  # bytes of a wrong line that are shown


class LineError(Exception):
    """The line is not usable any more: it was closed, or what came is no answer."""


class LineClosedError(LineError):
    """The other end has closed, or is dead."""


def to_text(data: bytes) -> str:
    """Bytes as they stand in JSON."""
    return base64.b64encode(data).decode()


def to_bytes(text: str) -> bytes:
    """The bytes of such a text. Raises ValueError."""
    return base64.b64decode(text, validate=True)


def answer(number: int, value: Any) -> bytes:
    """An answer, with the end of its line."""
    return json.dumps({"id": number, "value": value}).encode() + b"\n"


def refusal(number: int | None, error: Exception) -> bytes:
    """An answer that carries an exception, with the end of its line."""
    return json.dumps({"id": number, "error": _told(error)}).encode() + b"\n"


def _told(error: Exception) -> dict[str, Any]:
    if isinstance(error, CommandFailed):
        return {"kind": "command", "argv": list(error.argv), "output": error.output}
    if isinstance(error, RequirementError):
        return {"kind": "requirement", "message": error.message, "hint": error.hint}
    if isinstance(error, OSError):
        path = error.filename if isinstance(error.filename, str) else ""
        return {"kind": "os", "number": error.errno or 0, "text": error.strerror or str(error), "path": path}
    return {"kind": "other", "text": f"{type(error).__name__}: {error}"}


def value_of(line: bytes, number: int) -> Any:
    """What an answer to request `number` holds. Raises what it carries, or LineError if it is no such answer."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        raise LineError(f"expected a line of JSON, found {line[:_SHOWN]!r}") from None
    if not isinstance(reply, dict) or reply.get("id") != number or len(reply.keys() & {"value", "error"}) != 1:
        raise LineError(f"expected the answer to request {number}, found {line[:_SHOWN]!r}")
    if "value" in reply:
        return reply["value"]
    raise _raised(reply["error"])


def _raised(told: object) -> Exception:
    match told:
        case {"kind": "command", "argv": [str(), *_] as argv, "output": str() as output}:
            return CommandFailed([str(word) for word in argv], output)
        case {"kind": "requirement", "message": str() as message, "hint": str() | None as hint}:
            return RequirementError(message, hint)
        case {"kind": "os", "number": int() as number, "text": str() as text, "path": str() as path}:
            if not number:
                return TimeoutError(text)  # of a socket; it has no number
            return OSError(number, text, path) if path else OSError(number, text)
        case {"kind": "other", "text": str() as text}:
            return BenchError(f"the agent failed: {text}")
    return LineError(f"expected an error of a known kind, found {str(told)[:_SHOWN]}")


class Line:
    """The lab's end. One that was interrupted within a request is not used again: what comes next would be its rest."""

    def __init__(
        self, connection: socket.socket, piece: int = PIECE, is_dead: Callable[[], bool] = lambda: False
    ) -> None:
        """`piece`: bytes of a request that go out before the agent credits them.

        `is_dead`: whether the other end will never answer, though it has not closed the line.
        """
        self._connection, self._piece, self._is_dead = connection, piece, is_dead
        self._received = bytearray()  # what follows the last line
        self._number = 0
        self._usable = True
        self._turn = threading.Lock()

    def await_ready(self, timeout_s: float) -> bool:
        """Whether the agent says so within that time. Raises LineError if it says anything else, or the line ends."""
        try:
            line = self._hear(time.monotonic() + timeout_s)
        except TimeoutError:
            return False
        if line != READY:
            raise LineError(f"expected {READY!r}, found {line[:_SHOWN]!r}")
        return True

    def ask(self, call: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """The answer to a request. Raises what it carries, or LineError."""
        with self._turn:
            if not self._usable:
                raise LineError("an earlier request was interrupted")
            self._number += 1
            self._usable = False
            request = json.dumps({"id": self._number, "call": call, "with": dict(arguments)}, default=list)
            line = self._exchange(request.encode() + b"\n", time.monotonic() + timeout_s)
            self._usable = True
            return value_of(line, self._number)

    @property
    def is_usable(self) -> bool:
        """Whether nothing is known that ended it. Of one that is being asked, what it was before."""
        return self._usable or self._turn.locked()

    def close(self) -> None:
        """Close it; the other host stays."""
        self._connection.close()
        self._usable = False

    def _exchange(self, data: bytes, deadline: float) -> bytes:
        try:
            for start in range(0, len(data), self._piece):
                if start and (line := self._hear(deadline)) != CREDIT:
                    raise LineError(f"expected {CREDIT!r}, found {line[:_SHOWN]!r}")
                self._wait_until(deadline)
                self._connection.sendall(data[start : start + self._piece])
            return self._hear(deadline)
        except TimeoutError:
            raise LineError("no answer in time") from None
        except ConnectionError:
            raise LineClosedError(_ENDED) from None

    def _hear(self, deadline: float) -> bytes:
        """The next line, without its end. Raises LineError or TimeoutError."""
        looked_at = 0
        while (end := self._received.find(b"\n", looked_at)) < 0:
            looked_at = len(self._received)
            if looked_at > LONGEST:
                raise LineError(f"a line of more than {LONGEST:,} bytes")
            if not (chunk := self._receive(deadline)):
                raise LineClosedError(_ENDED)
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line.rstrip(b"\r")

    def _receive(self, deadline: float) -> bytes:
        """What comes next; nothing where the other end has closed, or is dead. Raises TimeoutError."""
        while True:
            self._wait_until(deadline, at_most_s=_LOOK_S)
            try:
                return self._connection.recv(_CHUNK)
            except ConnectionError:
                return b""
            except TimeoutError:
                if self._is_dead():
                    return b""

    def _wait_until(self, deadline: float, at_most_s: float | None = None) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left if at_most_s is None else min(left, at_most_s))
