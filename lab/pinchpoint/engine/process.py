"""The real engine: a process that speaks JSON lines on its stdin and stdout.

It is a child, on another host by ssh, or runs in a guest (`guest_program`). It ends when its stdin does, or with its
guest, so a lab that is killed leaves no engine behind.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, ParamSpec, TypedDict, TypeVar, Unpack

import msgspec

from pinchpoint.engine import protocol
from pinchpoint.engine.connections import SPARE_S, ConnectionsRequest, ConnectionsResult, ConnectionsSample
from pinchpoint.engine.instrument import EngineResult, Heard, TrialRequest
from pinchpoint.engine.sockets import SocketsRequest, SocketsSample
from pinchpoint.engine.trials import engine_result, run_message, sample_of
from pinchpoint.host.guest import Guest
from pinchpoint.host.guest_program import GuestProgram
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.host.priority import session_preferred
from pinchpoint.host.ssh import Ssh
from pinchpoint.model.errors import (
    EngineError,
    HostLostError,
    LinkDownError,
    NoHugepagesError,
    NoLibrariesError,
    PinchpointError,
    RequirementError,
)

MAX_LINE_BYTES = 64 * 1024 * 1024
SAME_WHEEL = "install the lab and the engine from the same wheel"
LOADER_FAILED = 127  # ld.so(8): a shared library is missing
LIBRARIES = ("librte-meta-net", "librte-meta-mempool")  # Debian's: all of DPDK that the engine loads, its drivers too
GRACE_S = 5.0  # after a request's own time, before the engine counts as hung
LOOK_S = 1.0  # at most, asleep while a trial runs: so late it is noticed that it was stopped or given up
_HELD_BYTES = 32 * 1024  # half of what a pipe holds (pipe(7)): an engine that finds it full waits
_SAMPLE_BYTES, _STREAM_BYTES = 320, 64  # the longest line of a sample, and more for each stream
_HELLO_S, _HELLO_IN_GUEST_S = 30.0, 120.0  # to load its libraries; an emulated processor takes its time
_LOG_LINES = 12
_SEE_LOG = "see engine.log in the run folder"
_SAID_IN_THE_LOG: Final[tuple[protocol.ErrorCode, ...]] = ("port_open", "no_memory")
_KINDS: Final[Mapping[str, type[EngineError]]] = {"link_down": LinkDownError, "no_memory": NoHugepagesError}
EXPLAIN_MEMORY = "--log-level=lib.eal:debug"  # only at this level does DPDK say why it did not get a page
Progress = protocol.Sample | SocketsSample | ConnectionsSample
OnProgress = Callable[[Progress], None]
_P = ParamSpec("_P")
_T = TypeVar("_T")


def find_engine(host: Host) -> str:
    """The engine installed beside this Python, else the one on PATH; for a host by ssh, the same there."""
    beside = Path(sys.executable).parent / "pinchpoint-engine"
    program = str(beside) if beside.exists() else shutil.which("pinchpoint-engine")
    if program is None:
        raise RequirementError("pinchpoint-engine: not installed", "pip install pinchpoint, or `make` in a checkout")
    return host.engine(program) if isinstance(host, Ssh) else program


def no_libraries(host: Host, program: str) -> NoLibrariesError:
    """What ld.so(8) says of a program that it cannot load, and what provides the library."""
    said = ""
    try:
        host.run([program, "--version"], timeout_s=GRACE_S)
    except CommandFailed as error:
        said = error.output.partition("\n")[0].rpartition("shared libraries: ")[2]
    message = f"the engine's libraries cannot be loaded: {said}" if said else "the engine's libraries cannot be loaded"
    provided = f"apt-get install {' '.join(LIBRARIES)} (of the Debian release that the wheel was built on)"
    return NoLibrariesError(message, f"{provided}; or build the wheel on this system: pip install .")


def _pass_over(sample: Progress) -> None:
    """A trial's samples are progress for people and no account."""
    if not isinstance(sample, protocol.Sample):
        raise EngineError(f"the engine sent a {type(sample).__name__} while no workload was running")


def _told(heard: Heard | None) -> OnProgress:
    """What hands on a trial's samples in the lab's own terms."""

    def told(sample: Progress) -> None:
        _pass_over(sample)
        if heard is not None and isinstance(sample, protocol.Sample):
            heard(sample_of(sample))

    return told


def named(where: str, do: Callable[_P, _T], *args: _P.args, **options: _P.kwargs) -> _T:
    """Do it; an error says where."""
    try:
        return do(*args, **options)
    except PinchpointError as error:
        error.add_note(where)
        raise


class _NoAnswerError(EngineError):
    """The engine runs, and its answer did not come in time."""


class Start(TypedDict, total=False):
    """How an engine is started; None, or left out: as it is installed, in this process's environment, without a log."""

    command: Sequence[str] | None
    environment: Mapping[str, str] | None  # added to this process's own
    log: Path | None  # takes the engine's stderr


class EngineProcess:
    """One engine process: its start, its lines, its end. What it is asked for is up to those who build on this."""

    _BYE = msgspec.json.encode(protocol.LabBye()) + b"\n"

    def __init__(self, host: Host, **start: Unpack[Start]) -> None:
        """It is to run on `host`."""
        self._host = host
        self._command = list(start.get("command") or [find_engine(host)])
        self._environment = dict(start.get("environment") or {})
        self._log_path = start.get("log")
        self._process: subprocess.Popen[bytes] | GuestProgram | None = None
        self._buffer = bytearray()
        self._may_be_late = False  # whether what was asked last may find no trial that it is for
        self._asleep_until_s, self._asleep_s = 0.0, 0.0  # on the monotonic clock; at a stretch

    @property
    def pid(self) -> int | None:
        """The engine's process id while it runs."""
        return self._process.pid if self._process else None

    def greet(self) -> protocol.EngineHello:
        """Start the engine and learn what it can do."""
        self._start()
        timeout_s = _HELLO_IN_GUEST_S if isinstance(self._host, Guest) else _HELLO_S
        return self._ask(protocol.LabHello(), protocol.EngineHello, timeout_s)

    def agree(self) -> protocol.EngineHello:
        """The same, and see that both speak one version."""
        hello = self.greet()
        if hello.protocol != protocol.PROTOCOL_VERSION:
            versions = f"the engine speaks protocol {hello.protocol}, this lab {protocol.PROTOCOL_VERSION}"
            raise EngineError(versions, SAME_WHEEL)
        return hello

    def stop(self) -> None:
        """Ask the engine to end the running trial; its result still comes."""
        if self._process is not None:
            self._may_be_late, self._asleep_until_s = True, 0.0
            self._send(protocol.Stop())

    def close(self) -> None:
        """Say bye, then make sure."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):  # it is gone already, which is what was wanted
            if process.stdin:
                process.stdin.write(self._BYE)
                process.stdin.close()
        try:
            process.wait(timeout=GRACE_S)
        except (subprocess.TimeoutExpired, TimeoutError):
            process.kill()
            process.wait()
        if isinstance(process, GuestProgram) and self._log_path:
            with self._log_path.open("a", encoding="utf-8") as log:
                log.write(process.errors())
        if process.stdout:
            process.stdout.close()
        self._buffer.clear()

    def _start(self) -> None:
        self._process = self._in_guest(self._host) if isinstance(self._host, Guest) else self._child()
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._readable, self._gone = select.poll(), select.poll()
        self._readable.register(self._process.stdout, select.POLLIN)
        self._gone.register(self._process.stdout, 0)  # its end alone, which is always told (poll(2))
        self._asleep_until_s = 0.0

    def _in_guest(self, guest: Guest) -> GuestProgram:
        try:
            return GuestProgram(guest, self._command, tuple(self._environment.items()))
        except OSError as error:
            raise EngineError(f"{self._command[0]}: {error.strerror}", "pinchpoint doctor") from error

    def _child(self) -> subprocess.Popen[bytes]:
        log = self._log_path.open("ab") if self._log_path else None
        command, environment = self._command, self._environment
        if isinstance(self._host, Ssh):
            command, environment = self._host.reached(command, environment), {}
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log if log else subprocess.DEVNULL,
                env={**os.environ, **environment},
                bufsize=0,
                # Ctrl-C reaches the lab, which then stops the trial in order. A session of its own would weigh no more
                # than the lab's with all that the user runs there (sched(7), autogroup).
                process_group=0,
            )
        except OSError as error:
            raise EngineError(f"{self._command[0]}: {error.strerror}", "pinchpoint doctor") from error
        finally:
            if log:
                log.close()

    def _send(self, message: protocol.FromLab) -> None:
        if isinstance(self._process, GuestProgram):
            self._process.quiet_for(_silent_s(message))
        self._write(msgspec.json.encode(message))

    def _write(self, line: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
        except OSError as error:
            raise self._died() from error

    def _ask(self, message: protocol.FromLab, answer: type[_T], timeout_s: float, heard: OnProgress = _pass_over) -> _T:
        """Send, then read until the answer comes; `heard` gets the samples before it."""
        self._send(message)
        return self._answer(answer, timeout_s, heard)

    def _answer(self, answer: type[_T], timeout_s: float, heard: OnProgress = _pass_over) -> _T:
        deadline = time.monotonic() + timeout_s + GRACE_S
        while True:
            line = self._read_line(deadline)
            try:
                received = msgspec.json.decode(line, type=protocol.FromEngine)
            except msgspec.DecodeError as error:
                raise EngineError(f"the engine sent an invalid message: {error}: {line[:200]!r}", SAME_WHEEL) from error
            if isinstance(received, answer):
                return received
            if isinstance(received, protocol.Error):
                if self._may_be_late and received.code == "state":
                    continue  # the trial had ended, or not begun, when `go` or `stop` came
                raise self._refusal(received)
            if not isinstance(received, Progress):
                told = f"the engine sent {type(received).__name__} where {answer.__name__} was expected"
                raise EngineError(told, SAME_WHEEL)
            heard(received)

    def _refusal(self, error: protocol.Error) -> PinchpointError:
        """What an `error` of the engine is to the user."""
        return _KINDS.get(error.code, EngineError)(f"engine: {error.message}{self._said(error.code)}", error.hint)

    def _said(self, code: protocol.ErrorCode) -> str:
        """The end of the engine's log where that, and only that, has the reason: a driver's own words."""
        if code not in _SAID_IN_THE_LOG or self._log_path is None:
            return ""
        with suppress(OSError):
            lines = self._log_path.read_text(errors="replace").splitlines()[-_LOG_LINES:]
            return "".join(f"\n  | {line}" for line in lines)
        return ""

    def _read_line(self, deadline: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        while (end := self._buffer.find(b"\n")) < 0:
            if (asleep_s := min(self._asleep_until_s - time.monotonic(), self._asleep_s)) > 0:
                self._gone.poll(asleep_s * 1e3)
            if not self._readable.poll(max(0.0, deadline - time.monotonic()) * 1e3):
                raise _NoAnswerError("the engine did not answer in time and was terminated", _SEE_LOG)
            chunk = self._process.stdout.read(1 << 20)
            if chunk == b"":
                raise self._died()
            self._buffer += chunk or b""
            if len(self._buffer) > MAX_LINE_BYTES:
                raise EngineError(f"the engine sent a line longer than {MAX_LINE_BYTES} bytes")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _died(self) -> PinchpointError:
        if isinstance(self._host, Ssh) and self._host.is_lost():
            return HostLostError(f"{self._host.name} was lost while its engine ran", f"ssh {self._host.name} true")
        assert self._process is not None
        try:
            code = self._process.wait(timeout=1.0)
        except (subprocess.TimeoutExpired, TimeoutError):
            return EngineError("the engine closed its output but did not exit")
        if code == LOADER_FAILED:
            return no_libraries(self._host, self._command[0])
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        return EngineError(f"the engine {how}", _SEE_LOG)


def _silent_s(message: protocol.FromLab) -> float:
    """Seconds after a message for which nobody waits for an answer: samples are progress for people.

    A server alone says at once where it listens.
    """
    if isinstance(message, SocketsRequest):
        return 0.0 if message.client is None else message.warm_up_s + message.duration_s
    if isinstance(message, ConnectionsRequest):
        return message.count / message.rate_cps + message.hold_s if message.sample_interval_s is None else 0.0
    return message.duration_s if isinstance(message, protocol.Run) and message.on_go is not True else 0.0


class ProcessInstrument(EngineProcess):
    """One engine process with its ports open."""

    def __init__(self, request: protocol.Open, host: Host, **start: Unpack[Start]) -> None:
        super().__init__(host, **start)
        self._request = request
        self.ports: tuple[protocol.OpenedPort, ...] = ()  # as the engine got them
        self._held: tuple[int, ...] = ()  # processes that the running trial stops by turns

    def open(self) -> Mapping[str, str]:
        """Start the engine, say hello, open the ports and wait for their links.

        Another DPDK program may take free hugepages for a moment, more than it keeps. A process can initialise DPDK
        only once, so a second engine is started; its log has DPDK's reason should that one fail too.
        """
        try:
            return self._open(self._request)
        except NoHugepagesError:
            self.close()
            eal_args = (*self._request.eal_args, EXPLAIN_MEMORY)
            return self._open(msgspec.structs.replace(self._request, eal_args=eal_args))

    def _open(self, request: protocol.Open) -> Mapping[str, str]:
        hello = self.agree()
        self._require_backends(hello)
        opened = self._ask(request, protocol.Opened, timeout_s=self._request.link_timeout_s + 30.0)
        self.ports = opened.ports
        facts = {"engine": hello.engine}
        facts |= {f"backend {b.name}": b.detail for b in hello.backends if b.available and b.detail}
        facts |= {f"port {p.name}": _port_fact(p) for p in opened.ports}
        return facts

    def run(self, request: TrialRequest, heard: Heard | None = None) -> EngineResult:
        """One trial, drain and cache-line probes included."""
        self._held = tuple(pid for group in (request.slices and request.slices.hold) or () for pid in group)
        with session_preferred():
            message = run_message(request)
            self.begin(message)
            if not request.live:
                self.let_run(message, message.duration_s + message.drain_s)
            result = self.finish(message, heard)
        self._held = ()  # the engine has continued them
        return result

    def begin(self, message: protocol.Run) -> None:
        """Begin a trial; if it waits for `go`, return once it receives. See `finish`."""
        self._send(message)
        if message.on_go is True:
            self._answer(protocol.Begun, self._request.link_timeout_s + message.quiet_within_s)
            self._may_be_late = False

    def go(self) -> None:
        """Have the trial send that `begin` began and that waits for it."""
        self._may_be_late = True
        self._send(protocol.Go())

    def let_run(self, message: protocol.Run, for_s: float) -> None:
        """Have the next reader sleep while the trial that begins now runs, unless the engine ends.

        Reading each sample as it comes takes a core that measures for half a millisecond. They wait in the pipe.
        """
        samples = _HELD_BYTES // (_SAMPLE_BYTES + _STREAM_BYTES * len(message.streams))
        self._asleep_s = min(LOOK_S, samples * (message.sample_interval_s or LOOK_S))
        self._asleep_until_s = time.monotonic() + for_s

    def await_sent(self, message: protocol.Run, heard: Heard | None = None) -> None:
        """Return once it has sent everything, if it is not over before; it receives until `stop`."""
        self._answer(protocol.Sent, self._longest_s(message), _told(heard))

    def finish(self, message: protocol.Run, heard: Heard | None = None) -> EngineResult:
        """The account of the trial that `begin` began, once it has ended; if it waits for `stop`, after that."""
        waits = message.on_go is True
        ended = msgspec.structs.replace(message, duration_s=0.0) if waits else message
        result = self._answer(protocol.Result, self._longest_s(ended), _told(heard))
        self._asleep_until_s = 0.0
        # One that waits is always told to stop. That it had ended by itself, it answers before the next `Begun`.
        self._may_be_late = self._may_be_late and waits
        if result.trial != message.trial:
            raise EngineError(f"the engine answered for trial {result.trial} instead of {message.trial}")
        return engine_result(result, self._request.workers, self._speeds())

    def _longest_s(self, message: protocol.Run) -> float:
        """Of the trial; links that have gone down are waited for first."""
        before_s = self._request.link_timeout_s + message.quiet_within_s
        return before_s + message.duration_s + protocol.LONGEST_DRAIN * message.drain_s

    def _speeds(self) -> dict[str, int]:
        """Of the links that can be full: a virtual device's speed is a constant of its driver."""
        nics = {port.name for port in self._request.ports if port.backend == "dpdk"}
        return {port.name: port.speed_bps for port in self.ports if port.name in nics and port.speed_bps}

    def close(self) -> None:
        """End the engine. What a trial without a result may have left stopped is continued."""
        super().close()
        held, self._held = self._held, ()
        if held:
            with suppress(PermissionError, HostLostError):
                self._host.signal(held, signal.SIGCONT)

    def transmit(self, message: protocol.Run, heard: OnProgress = _pass_over) -> protocol.Result:
        """One trial put together by the caller, for streams that no scenario has; `heard` gets its samples."""
        with session_preferred():
            return self._ask(message, protocol.Result, self._longest_s(message), heard)

    def connect(
        self, request: ConnectionsRequest, lasting_s: float, heard: OnProgress = _pass_over
    ) -> ConnectionsResult:
        """One load of connections, which lasts no longer; `heard` gets its samples. Raises EngineError."""
        with session_preferred():
            try:
                result = self._ask(request, ConnectionsResult, request.lead_s + lasting_s + SPARE_S, heard)
            except _NoAnswerError as late:
                self.stop()
                result = self._answer(ConnectionsResult, GRACE_S, heard)
                if result.client is not None:  # else nobody says where the service is, which its account tells
                    begun, open_still = result.client.opened, result.client.unfinished
                    told = f"{begun:,} of {request.count:,} connections were opened, {open_still:,} had not ended"
                    raise EngineError(f"load {request.trial} did not end in time: {told}", _SEE_LOG) from late
        self._may_be_late = False
        if result.status == "aborted":
            raise EngineError(f"the engine opened no more connections: {result.reason}", _SEE_LOG)
        return result

    def _require_backends(self, hello: protocol.EngineHello) -> None:
        backends = {backend.name: backend for backend in hello.backends}
        for port in self._request.ports:
            backend = backends.get(port.backend)
            if backend is None:
                hint = "build it with --features dpdk" if port.backend == "dpdk" else None
                raise EngineError(f"this engine was built without the backend {port.backend!r}", hint)
            if not backend.available:
                raise RequirementError(f"engine backend {port.backend}: {backend.why}", backend.hint)


def _port_fact(port: protocol.OpenedPort) -> str:
    queues = f", {port.queues} queues" if port.queues > 1 else ""
    speed = "" if port.speed_bps is None else f", {port.speed_bps / 1e9:g} Gbit/s"
    return f"{port.mode}, rings {port.rx_ring}/{port.tx_ring}{queues}{speed}"


def backends(host: Host) -> tuple[protocol.Backend, ...]:
    """What the installed engine can open on a host. Raises EngineError or RequirementError."""
    return _introduction(host).backends


def version(host: Host) -> str:
    """The installed engine's. Raises EngineError or RequirementError."""
    return _introduction(host).engine


def _introduction(host: Host) -> protocol.EngineHello:
    with closing(EngineProcess(host)) as engine:
        return engine.greet()
