"""Which process writes to a run folder: it holds a lock, and the kernel says whose.

A POSIX record lock (fcntl(2), F_SETLK) ends with its process, whatever ends it, and F_GETLK names the holder. So
a stale file never points at another process, and a run folder from elsewhere cannot name a victim for a signal.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = "running.lock"
_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Inside, `owner(folder)` is this process. A folder that takes no file has no owner; its run goes on."""
    path = folder / _NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def owner(folder: Path) -> int | None:
    """The process that measures into the folder; None if none does, or if it is of another process namespace."""
    try:
        descriptor = os.open(folder / _NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None
