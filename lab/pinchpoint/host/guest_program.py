"""A program in a guest that speaks with the lab over its standard streams, as the engine does.

The line to a guest (`guest_line`) carries one request at a time and has no streams. So the program reads from a named
pipe, which the agent writes, and writes to a file, of which the lab asks for what is new. Each question is work for
the guest's CPUs: the lab asks less and less often, and not at all while it was told that nothing will come.
"""

import os
import secrets
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from typing import ClassVar

from pinchpoint.host.interface import Environment, Host, text_at
from pinchpoint.model.errors import PinchpointError

_FIRST_S, _LONGEST_S, _SLOWER = 0.02, 1.0, 1.5  # between two questions
# After the program's end the shell reads on, or who writes to the pipe would wait for a reader for ever.
_SCRIPT = 'exec 3<>"$0.in"; "$@" <&3 3<&-; echo $? >"$0.status"; exec cat <&3 >/dev/null'


class GuestProgram:
    """What the engine's client uses of a child process, of one in a guest."""

    FOLDER: ClassVar[str] = "/run/guest"  # of a guest: guest_init.sh makes it

    def __init__(self, host: Host, argv: Sequence[str], environment: Environment) -> None:
        """Start it. Raises OSError, CommandFailed, RequirementError, DutError."""
        self._host, self._place = host, f"{self.FOLDER}/program-{secrets.token_hex(4)}"
        host.run(["mkfifo", f"{self._place}.in"])
        words = ("sh", "-c", _SCRIPT, self._place, *argv)
        self.pid = host.spawn(words, environment, f"{self._place}.out", f"{self._place}.errors")
        self._over, self._asked, self._quiet_until = threading.Event(), threading.Event(), 0.0
        reading, self._writing = os.pipe()
        self.stdout = FileIO(reading, "rb")
        self.stdin = _Input(self)
        threading.Thread(target=self._carry, name="output of a guest's program", daemon=True).start()

    def write(self, data: bytes) -> None:
        """Give it a line of text. Raises OSError where it, or its guest, is gone."""
        if self._over.is_set():
            raise BrokenPipeError("the program has ended")
        try:
            self._host.write(f"{self._place}.in", data.decode())
        except PinchpointError as error:
            raise BrokenPipeError(error.message) from error
        self._asked.set()

    def quiet_for(self, seconds: float) -> None:
        """Nothing that anybody waits for will come so soon."""
        self._quiet_until = time.monotonic() + seconds

    def errors(self) -> str:
        """What it wrote to its standard error; empty where its guest is gone."""
        with suppress(PinchpointError):
            return text_at(self._host, f"{self._place}.errors")
        return ""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended, or its guest. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self._status()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("the program in the guest has not ended")
            time.sleep(_FIRST_S)
        self.kill()
        return status

    def kill(self) -> None:
        """End it with all that it has started; one that is gone is no error."""
        self._over.set()
        self._asked.set()
        with suppress(PinchpointError, OSError):
            self._host.signal([-self.pid], signal.SIGKILL)

    def _status(self) -> int | None:
        """Its exit code; None: it runs. Of a guest that is gone, as of a process that was killed."""
        try:
            word = text_at(self._host, f"{self._place}.status").strip()
        except PinchpointError:
            return -signal.SIGKILL
        if not word and self._over.is_set():
            return -signal.SIGKILL
        return int(word) if word.isdigit() else None

    def _carry(self) -> None:
        """Bring what it writes, until it has ended and all is here."""
        offset, pause_s = 0, _FIRST_S
        try:
            while not self._over.is_set():
                has_ended = self._status() is not None
                data = self._host.read_bytes(f"{self._place}.out", offset)
                offset += os.write(self._writing, data) if data else 0
                if has_ended and not data:
                    return
                pause_s = _FIRST_S if data else min(_LONGEST_S, _SLOWER * pause_s)
                if self._asked.wait(max(pause_s, self._quiet_until - time.monotonic())):
                    self._asked.clear()
                    pause_s = _FIRST_S
        except (OSError, PinchpointError):
            return  # the guest is gone, or who read: the end of the output says so
        finally:
            os.close(self._writing)


class _Input:
    """The standard input of a program in a guest."""

    def __init__(self, program: GuestProgram) -> None:
        self._program = program

    def write(self, data: bytes) -> int:
        """Give it a line. Raises OSError."""
        self._program.write(data)
        return len(data)

    def close(self) -> None:
        """Nothing: the program ends when it is told to."""
