"""A program's log, read piece by piece as it grows."""

from pinchpoint.host.interface import Host


class LogTail:
    """What was written since the log was last read."""

    def __init__(self, host: Host, path: str) -> None:
        self._host, self._path = host, path
        self._read = 0  # bytes

    def more(self) -> str:
        """The whole lines that have come; empty where there is no log yet."""
        try:
            data = self._host.read_bytes(self._path, self._read)
        except OSError:
            return ""
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace")
