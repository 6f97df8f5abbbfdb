"""A program that is the device: how it is configured and started, what it answers at its Unix socket, what it logs."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.resource import Daemon
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import Environment, Host
from pinchpoint.model.errors import DutError
from pinchpoint.model.scenario import Scenario

START_TIMEOUT_S = 20.0  # hugepages are taken and cleared; more of them take longer

_TIMEOUT_S = 5.0
_AT_ONCE = 65_536
_MOST_BYTES = 16 << 20  # of an answer
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,8}")


def braced(head: str, *lines: str) -> list[str]:
    """A block of a configuration."""
    return [f"{head} {{", *(f"  {line}" for line in lines), "}"]


def detached(
    places: Places,
    name: str,
    log: str,
    argv: Sequence[str],
    *,
    netns: str | None = None,
    cpus: tuple[int, ...] | None = None,
    environment: Environment = (),
) -> Daemon:
    """A program that stays in the foreground, as a daemon; what it prints goes to `log`."""
    pidfile = places.pidfile(name)
    start = ("start-stop-daemon", "--start", "--background", "--make-pidfile", "--pidfile", pidfile)
    command = (*start, "--output", log, "--startas", "/usr/bin/env", "--", *argv)
    return Daemon(name, command, pidfile, log, places.bench_id, netns, cpus, (*places.environment, *environment))


def control_cpu(scenario: Scenario, asked: int | None) -> int:
    """Where the threads of a DPDK program run that move no frames: the CPU asked for, else the engine's first."""
    return scenario.engine.cpus[0] if asked is None else asked


def await_start(
    daemon: Daemon, host: Host, is_ready: Callable[[], bool], lacking: str, within_s: float = START_TIMEOUT_S
) -> None:
    """Return once it is ready. Raises DutError with what is `lacking`; where it has ended, with the end of its log."""
    deadline = time.monotonic() + within_s
    while True:
        with suppress(DutError):
            if is_ready():
                return
        daemon_pid(daemon, host)
        if time.monotonic() > deadline:
            raise DutError(f"{lacking} after {within_s:g} s", f"see {daemon.log}")
        time.sleep(0.02)


def answer(host: Host, path: str, question: str) -> str:
    """What comes until the program closes the connection. Raises DutError if it does not answer."""
    received = bytearray()
    try:
        with closing(host.connect(path)) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(question.encode())
            while part := connection.recv(_AT_ONCE):
                received += part
                if len(received) > _MOST_BYTES:
                    raise DutError(f"the answer at {path} has more than {_MOST_BYTES:,} bytes")
    except OSError as error:
        raise DutError(f"nobody answers at {path}: {error}", "see the program's log") from error
    return received.decode(errors="replace")


def get(host: Host, path: str, target: str) -> str:
    """The body that an HTTP server at a Unix socket returns. Raises DutError if it does not, or is not OK."""
    return body(exchange(host, path, target), f"{path}{target}")


def exchange(host: Host, path: str, target: str) -> str:
    """The whole answer of an HTTP server at a Unix socket. Raises DutError if there is none.

    HTTP/1.1 with `Connection: close`, since some servers do not speak HTTP/1.0 (RFC 9112).
    """
    return answer(host, path, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")


def body(said: str, place: str) -> str:
    """The body of an HTTP answer with the status 200. Raises DutError, which names `place`."""
    head, _, rest = said.partition("\r\n\r\n")
    lines = head.split("\r\n")
    if lines[0].split(" ")[1:2] != ["200"]:
        raise DutError(f"{place} answers {lines[0][:100]!r}, not 200")
    coding = [line.partition(":")[2].strip().lower() for line in lines if line.lower().startswith("transfer-encoding:")]
    return _joined(rest, place) if coding == ["chunked"] else rest


def _joined(rest: str, place: str) -> str:
    """The chunks of a body (RFC 9112, section 7.1), in whose text every byte is a character."""
    chunks: list[str] = []
    at = 0
    while (end := rest.find("\r\n", at)) >= 0:
        size = rest[at:end].partition(";")[0].strip()
        length = int(size, 16) if _HEXADECIMAL.fullmatch(size) else -1
        if length == 0:
            return "".join(chunks)
        if length < 0 or end + 2 + length > len(rest):
            break
        chunks.append(rest[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
    raise DutError(f"{place} answers with chunks that do not fit together: {rest[at : at + 20]!r}")


def kept_log(host: Host, name: str, path: str) -> tuple[str, str] | None:
    """A log under the name by which it is kept; None where there is none."""
    with suppress(OSError):
        return name, host.read(path)
    return None


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
