"""A guest: a kernel of its own on this machine, asked over a line to its agent (`guest_line`, `agent`)."""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pinchpoint.host.asked import ANSWER_TIMEOUT_S, AskedHost
from pinchpoint.host.guest_line import Line, LineClosedError, LineError
from pinchpoint.host.interface import Environment, Host, text_at
from pinchpoint.model.errors import BenchError, DutError, PinchpointError, RequirementError

NAME: Final = "guest"
MODPROBE: Final = "/run/guest/modprobe"  # of a guest: loads its kernel's modules; guest_init.sh makes it
LINE: Final = "{line}"  # in a guest's command: the file descriptor of its end of the line
# When the first process of a namespace ends, however that ends, the kernel ends the rest.
OWN_NAMESPACE: Final = ("unshare", "--pid", "--fork", "--kill-child")
_LOOK_S = 0.1  # how often a guest that boots is looked at
_MOST_PRINTED = 12  # lines
_PANIC = "Kernel panic"  # kernel/panic.c; what follows is the stack
_ANOTHER = 'pinchpoint doctor says which kernels boot here; guest.kernel = "auto" takes one that does'


class Guest(AskedHost):
    """A guest kernel; before `start` and after `close` it answers nothing."""

    name = NAME

    def __init__(self, machine: Host, line: Line | None = None) -> None:
        """`machine` is the one on which its kernel is a process."""
        self.machine = machine
        self._line = line
        self._log = ""

    @property
    def is_started(self) -> bool:
        """Whether there is a line to it."""
        return self._line is not None

    def start(self, argv: Sequence[str], environment: Environment, log: str) -> int:
        """Start its kernel with what it prints in `log`. Returns the process. Raises RequirementError."""
        ours, theirs = socket.socketpair()
        self._line, self._log = Line(ours, is_dead=lambda: bool(self._panic())), log
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            command = [word.replace(LINE, str(theirs.fileno())) for word in argv]
            return self.machine.spawn(command, environment, log, log)

    def await_ready(self, has_ended: Callable[[], bool], timeout_s: float) -> None:
        """Return once its agent answers.

        Raises RequirementError if its kernel panics or ends, BenchError if it takes longer; both say what it printed.
        """
        assert self._line is not None, "start"
        for _ in range(max(1, round(timeout_s / _LOOK_S))):
            is_gone = has_ended()
            if is_gone or self._panic():
                raise self._unbooted(is_gone)
            try:
                if self._line.await_ready(_LOOK_S):
                    return
            except LineClosedError:
                raise self._unbooted(is_gone=True) from None
            except LineError as error:
                raise self._unbooted(False, f": {error}") from None
        raise self._unbooted(False, f" within {timeout_s:g} s")

    def _unbooted(self, is_gone: bool, why: str = "") -> PinchpointError:
        if panic := self._panic():
            return RequirementError(f"the guest's kernel does not boot here: {panic}{self._printed()}", _ANOTHER)
        if is_gone:
            return RequirementError(f"the guest ended while it booted{self._printed()}", _ANOTHER)
        return BenchError(f"the guest did not boot{why}{self._printed()}")

    def close(self) -> None:
        """Give up the line."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _ask(self, call: str, arguments: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        if self._line is None:
            raise DutError(f"{call}: the guest does not run")
        try:
            return self._line.ask(call, arguments, timeout_s)
        except LineError as error:
            raise self._lost(error) from None

    def _lost(self, error: LineError) -> DutError:
        return DutError(f"the guest does not answer: {self._panic() or error}{self._printed()}")

    def _panic(self) -> str:
        """The line with which its kernel panicked; empty if it did not."""
        return next((line[line.index(_PANIC) :] for line in self._lines() if _PANIC in line), "")

    def _printed(self) -> str:
        """What its kernel printed last, or up to its panic, to be appended to an error."""
        lines = self._lines()
        last = next((number for number, line in enumerate(lines, 1) if _PANIC in line), len(lines))
        return "".join(f"\n  | {line}" for line in lines[max(0, last - _MOST_PRINTED) : last]) or "; it printed nothing"

    def _lines(self) -> list[str]:
        """What its kernel has printed."""
        printed = text_at(self.machine, self._log).splitlines()
        plain = ("".join(filter(str.isprintable, line)).strip() for line in printed)
        return [line for line in plain if line]


class BenchGuest(Guest):
    """A guest that has the whole bench: what is counted there is counted on the bench's own host."""

    name = "the guest"
