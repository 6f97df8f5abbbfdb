"""Work of many processes or links, in a thread beside an agent's answers, and the time that it takes there.

The lab asks meanwhile how far it is, and looks at what is made. Nothing but the standard library may be imported here.
"""

import json
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pinchpoint.host.guest_line import to_bytes, to_text
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.host.netlink import create_veths, remove_groups, remove_kind

_END_S: Final = 10.0  # for work that is stopped to end: a group of links is removed in one go


def pack(arguments: Sequence[object], named: Mapping[str, object]) -> str:
    """What a piece of work is given, as it goes over the line: commands and rules are alike."""
    return to_text(zlib.compress(json.dumps([arguments, named], default=list).encode(), 1))


_WORKS: Final[Sequence[Callable[..., None]]] = (run_many, run_fed, create_veths, remove_groups, remove_kind)
"""The first argument of each hears how far it is, and what that raises ends it."""


class _Stopped(Exception):
    """The lab wants no more of it, or is gone."""


class Job:
    """One piece of work in a thread, timed from its first action to its end."""

    def __init__(self, work: str, packed: str) -> None:
        """`work` is its name among those above, `packed` what `pack` made of its arguments."""
        arguments, named = json.loads(zlib.decompress(to_bytes(packed)))
        (function,) = (known for known in _WORKS if known.__name__ == work)
        self._work = partial(function, self._reach, *arguments, **named)
        self._done, self._seconds, self._is_stopped = 0, 0.0, False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self._work()
        except Exception as error:  # whatever it is, the lab has to hear of it
            self._error = error
        self._seconds = time.monotonic() - began

    def _reach(self, done: int) -> None:
        if self._is_stopped:
            raise _Stopped
        self._done = done

    def state(self) -> tuple[bool, int, float]:
        """Whether it has ended, how much is done, and the seconds that it took. Raises what ended it."""
        if self._thread.is_alive():
            return False, self._done, 0.0
        if self._error is not None:
            raise self._error
        return True, self._done, self._seconds

    def close(self) -> None:
        """End it where it is, with its processes."""
        self._is_stopped = True
        self._thread.join(_END_S)
