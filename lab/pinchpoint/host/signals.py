"""SIGINT, SIGTERM and SIGHUP at a moment that leaves nothing half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Inside, these signals are blocked: what is half removed would have to be found again."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def signals_later() -> Iterator[None]:
    """Inside, these signals are noted, and raised anew at the end.

    What strikes while a command is being started would leave it running, unknown to whoever
    undoes its work. They are not blocked: the command would inherit that.
    """
    if threading.current_thread() is not threading.main_thread():  # no handler runs in another one
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number in before:
            signal.signal(number, lambda signalled, _: arrived.append(signalled))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for signalled in arrived:
            signal.raise_signal(signalled)
