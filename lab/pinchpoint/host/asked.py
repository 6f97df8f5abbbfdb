"""A host that is asked over a line: each call is a request to its agent (`guest_line`, `agent`)."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from inspect import signature
from typing import Annotated, Any, Final

import msgspec

from pinchpoint.host.guest_line import LineError, to_text
from pinchpoint.host.interface import OPERATIONS, Host
from pinchpoint.model.errors import PinchpointError

Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1 << 53)]
ANSWER_TIMEOUT_S = 60.0  # of an agent whose one CPU may be busy with frames


class _Held:
    """What an agent holds, by its number there: to the agent of a later connection that is something else."""

    def __init__(self, host: "AskedHost", number: int) -> None:
        self._host, self._number = host, number
        self._made_on = host.connection

    def _ask(self, call: str, arguments: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        if self._host.connection != self._made_on:
            raise self._host._lost(LineError("the connection on which this was opened has ended"))
        return self._host._ask(call, {"held": self._number, **arguments}, timeout_s)

    def close(self) -> None:
        """Give it up. A second call is no error, nor is a host that has gone: it has ended with its agent."""
        if self._host.is_started and self._host.connection == self._made_on:
            with suppress(PinchpointError):
                self._ask("close", {})


class _AgentsConnection(_Held):
    """A connection that the agent holds."""

    _timeout_s: float | None = ANSWER_TIMEOUT_S

    def sendall(self, data: bytes, /) -> None:
        """Send all. Raises OSError."""
        self._ask("send", {"data": to_text(data)})

    def recv(self, most: int, /) -> bytes:
        """What has arrived, at most `most` bytes; none: the other end is closed. Raises OSError, TimeoutError."""
        longest_s = ANSWER_TIMEOUT_S + (ANSWER_TIMEOUT_S if self._timeout_s is None else self._timeout_s)
        answer = self._ask("receive", {"most": most, "timeout_s": self._timeout_s}, longest_s)
        data: bytes = self._host._checked(bytes, answer)
        return data

    def settimeout(self, seconds: float | None, /) -> None:
        """How long `recv` may wait; None: as long as for any answer."""
        self._timeout_s = seconds


class _AgentsFile(_Held):
    """A locked file that the agent holds."""

    def append(self, data: bytes) -> None:
        """Write all of it through to the disk, or nothing. Raises OSError."""
        self._ask("append", {"data": to_text(data)})

    def remove(self) -> None:
        """Delete the file and give up the lock. Raises OSError."""
        self._ask("remove", {})


class AgentsJob(_Held):
    """Work that the agent does beside its answers (`many`); to close it ends it where it is, with its processes."""

    def state(self) -> tuple[bool, int, float]:
        """Whether it has ended, how much is done, and the seconds that it took there. Raises what ended it."""
        state: tuple[bool, int, float] = self._host._checked(tuple[bool, int, float], self._ask("state", {}))
        return state


class AskedHost(Host):
    """What every carrier of the line has in common; it says how a request is put, and what a lost line is.

    Every operation of a host is a request (see below): none is this machine's.
    """

    @property
    def is_started(self) -> bool:
        """Whether there is a line to it."""
        raise NotImplementedError

    @property
    def connection(self) -> int:
        """The number of its connection: each one that is made has a higher one, and an agent of its own."""
        return 0

    def _ask(self, call: str, arguments: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        raise NotImplementedError

    def _lost(self, error: LineError) -> PinchpointError:
        raise NotImplementedError

    def _checked(self, kind: Any, value: object) -> Any:
        """An answer of that type."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._lost(LineError(f"expected another answer: {error}")) from None


# Where the type of the answer is not the operation's: that type, and what stands for what the agent holds by a number.
_ANSWERS: Final[Mapping[str, tuple[Any, Callable[[AskedHost, int], _Held] | None]]] = {
    "modified_s": (Seconds, None), "children_s": (Seconds, None), "connect": (int, _AgentsConnection),
    "start_file": (int, _AgentsFile), "take_file": (int | None, _AgentsFile), "hold": (int, _AgentsFile),
}  # fmt: skip


def _asked(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A host's operation as a request: its name and its arguments go over the line, and the answer is of its type."""
    name, parameters = operation.__name__, signature(operation)
    kind, held = _ANSWERS.get(name, (operation.__annotations__["return"] or type(None), None))

    @wraps(operation)
    def ask(host: AskedHost, /, *args: Any, **named: Any) -> Any:
        bound = parameters.bind(host, *args, **named)
        bound.apply_defaults()
        arguments = {word: value for word, value in bound.arguments.items() if word != "self"}
        timeout_s = arguments.get("timeout_s", 0.0) + ANSWER_TIMEOUT_S
        answer = host._checked(kind, host._ask(name, arguments, timeout_s))
        return answer if held is None or answer is None else held(host, answer)

    return ask


for _name in OPERATIONS:
    setattr(AskedHost, _name, _asked(getattr(Host, _name)))
