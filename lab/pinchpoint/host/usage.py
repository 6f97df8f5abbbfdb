"""What processes use: memory and processor time (proc(5))."""

from pathlib import Path

from pinchpoint.host.interface import PROC, TICKS_PER_S, Host
from pinchpoint.model.errors import DutError


class Process:
    """A daemon by its pid file. One without a pid file holds no memory and takes no time."""

    def __init__(self, host: Host, name: str, pidfile: str | None) -> None:
        self._host, self._name, self._folder = host, name, ""
        if pidfile is None:
            return
        try:
            self._folder = f"{PROC}/{int(host.read(pidfile))}"
        except (OSError, ValueError) as error:
            raise self._gone(error) from error

    def resident_bytes(self) -> int:
        """Memory that it really holds. Raises DutError if it is gone."""
        return _kib(self._read("status"), "VmRSS") * 1024 if self._folder else 0

    def cpu_s(self) -> float:
        """Processor time of all its threads since it started. Raises DutError if it is gone."""
        if not self._folder:
            return 0.0
        user, system = self._read("stat").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / TICKS_PER_S

    def _read(self, name: str) -> str:
        try:
            return self._host.read(f"{self._folder}/{name}")
        except OSError as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> DutError:
        return DutError(f"{self._name} is gone: {error}", "see its log")


class OwnMemory:
    """The most memory that this process holds from now on (clear_refs, and VmHWM in status)."""

    def __init__(self, folder: str = f"{PROC}/self") -> None:
        self._folder = Path(folder)
        try:
            (self._folder / "clear_refs").write_text("5", encoding="ascii")
            self._anew = True
        except OSError:  # a kernel without CONFIG_PROC_PAGE_MONITOR
            self._anew = False

    def peak_bytes(self) -> int | None:
        """None where the kernel tells only the most since the process began, which may be of an earlier build."""
        if not self._anew:
            return None
        return _kib((self._folder / "status").read_text(encoding="utf-8"), "VmHWM") * 1024 or None


def _kib(status: str, name: str) -> int:
    """A line of `/proc/PID/status`; 0 where it is absent, as of a process that has ended."""
    values = [line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(values[0]) if values else 0
