"""Files that are locked as long as their owner lives (flock(2)): journals, and the lock of a machine."""

import errno
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_EVICTED_TIMEOUT_S = 60.0  # for the holder of the same token to undo its bench


class LockedFile:
    """An open file under an exclusive lock, which ends with this process at the latest."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = Path(path)
        self._descriptor: int | None = descriptor

    @classmethod
    def start(cls, path: str, unborn: str) -> "LockedFile":
        """A new file; nobody sees it by its name before it is locked. Raises OSError, also where it exists."""
        new = Path(unborn)
        new.parent.mkdir(mode=0o700, exist_ok=True)
        with _opened(new, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Unlike rename(2), link(2) fails if the name is taken.
                os.link(new, path)
            finally:
                new.unlink(missing_ok=True)
            return cls(path, descriptor)

    @classmethod
    def take(cls, path: str) -> "LockedFile | None":
        """A dead owner's file; None while its owner lives.

        A torn last line is cut off, so that what is appended next stands on a line of its own.
        Raises FileNotFoundError if the owner has removed it meanwhile, OSError if it cannot be written.
        """
        try:
            with _opened(path, os.O_WRONLY | os.O_APPEND) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_nlink == 0:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                os.ftruncate(descriptor, Path(path).read_bytes().rfind(b"\n") + 1)
                return cls(path, descriptor)
        except BlockingIOError:
            return None

    @classmethod
    def hold(cls, path: str, holder: str, token: str) -> "LockedFile":
        """A lock in the name of `holder`; its file stays. Who holds it with the same token is ended first.

        Raises BlockingIOError naming another holder, OSError.
        """
        Path(path).parent.mkdir(mode=0o700, exist_ok=True)
        with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
            _lock(descriptor, path, token)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"holder": holder, "token": token, "pid": os.getpid()}).encode(), 0)
            return cls(path, descriptor)

    def append(self, data: bytes) -> None:
        """Write all of it through to the disk, or nothing. Raises OSError."""
        descriptor = self._open()
        end = os.fstat(descriptor).st_size
        try:
            while data:  # a disk that fills up takes a part first
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise

    def remove(self) -> None:
        """Delete the file and give up the lock. Raises OSError."""
        try:
            self.path.unlink(missing_ok=True)
        finally:
            self.close()

    def close(self) -> None:
        """Give up the lock and leave the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
        return self._descriptor


@contextmanager
def _opened(path: str | Path, flags: int) -> Iterator[int]:
    """An open file, which is closed again only where what follows fails."""
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _lock(descriptor: int, path: str, token: str) -> None:
    """Raises BlockingIOError with the words of who holds it."""
    deadline = time.monotonic() + _EVICTED_TIMEOUT_S
    while True:
        with suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder = _holder(path)
        if not token or holder.get("token") != token or time.monotonic() > deadline:
            raise BlockingIOError(errno.EAGAIN, str(holder.get("holder") or "an unnamed run"), path)
        with suppress(ProcessLookupError):
            os.kill(int(str(holder["pid"])), signal.SIGTERM)
        time.sleep(0.1)


def _holder(path: str) -> dict[str, object]:
    try:
        holder = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) and isinstance(holder.get("pid"), int) else {}
