"""The ports that scripts may name, and the trial under way. One configuration and one trial at a time."""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pinchpoint.engine import protocol
from pinchpoint.engine.process import ProcessInstrument, Progress
from pinchpoint.engine.protocol import BackendName
from pinchpoint.engine.trials import run_of
from pinchpoint.host import interfaces
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import InputError, PinchpointError
from pinchpoint.otg import captures, fields, plan
from pinchpoint.otg.devices import Endpoint, answered, answers, endpoints, find, neighbour, questions
from pinchpoint.otg.plan import Planned
from pinchpoint.otg.shape import Kind, Problems

RING: Final = 4096
LINK_TIMEOUT_S: Final = 5.0
DRAIN_S: Final = 0.3
SAMPLE_S: Final = 0.2
STOP_AGAIN_S: Final = 0.2
ENDING_S: Final = 2.0  # for the drain after the last frame, and the account
STOPPED_WITHIN_S: Final = 30.0
EPOCHS: Final = 255
VIRTUAL: Final = ("--in-memory", "--no-pci", "--single-file-segments", "-m", "256")
KERNEL: Final = ("af_packet", "af_xdp")
BACKENDS: Final[tuple[BackendName, ...]] = ("mem", "af_packet", "af_xdp", "dpdk")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
EXPECTED: Final = "expected [LOCATION=][BACKEND:]DEVICE[@NETNS], as in veth0@ns1, eth1=af_xdp:veth0 or mem:pair"


@dataclass(frozen=True)
class Place:
    """What the engine opens."""

    backend: BackendName
    device: str
    netns: str | None


def allowed(words: Sequence[str]) -> Mapping[str, Place]:
    """The places by the location that a script writes. Raises InputError."""
    places: dict[str, Place] = {}
    for word in words:
        alias, place = _parsed(word)
        if alias in places:
            what = f"PORT {word}: the location {alias!r} is given twice"
            raise InputError(what, "give each port a location of its own")
        places[alias] = place
    return places


def require_devices(places: Mapping[str, Place], host: Host) -> None:
    """Raises InputError if the interface of a port is not there."""
    for place in places.values():
        name, namespace = place.device.partition(",")[0], place.netns
        if place.backend in KERNEL and not interfaces.exists(host, name, namespace):
            where = f"namespace {namespace}" if namespace else "this machine"
            raise InputError(f"PORT {place.device}: {where} has no interface {name}", "ip -br link lists them")


def _parsed(word: str) -> tuple[str, Place]:
    alias, equals, rest = word.partition("=")
    if not equals or re.match(rf"({'|'.join(BACKENDS)}):", word):
        # Options of a device have an equals sign too: what begins with a backend has no alias.
        alias, rest = word, word
    backend: BackendName = next((backend for backend in BACKENDS if rest.startswith(f"{backend}:")), "af_packet")
    device = rest.removeprefix(f"{backend}:")
    netns = None
    if backend in KERNEL and "@" in device:
        device, _, netns = device.rpartition("@")
    if not alias or not device or not word.isprintable() or (netns is not None and not _NAMESPACE.fullmatch(netns)):
        raise InputError(f"PORT {word!r}: {EXPECTED}")
    return alias, Place(backend, device, netns)


class RefusedError(Exception):
    """A body that cannot be done, or is not taken; `lines` say why, each with the path of its field.

    `status` is that of the answer (HTTP).
    """

    def __init__(self, lines: Sequence[str], status: int = 400) -> None:
        super().__init__("; ".join(lines))
        self.lines, self.status = tuple(lines), status


@dataclass
class Trial:
    """One transmission: what is sent, what is known so far, and its account."""

    flows: Sequence[Planned]
    begun: threading.Event = field(default_factory=threading.Event)
    samples: tuple[protocol.Sample, ...] = ()  # the last two
    result: protocol.Result | None = None
    failure: str | None = None

    def heard(self, sample: Progress) -> None:
        """Progress from the engine."""
        if isinstance(sample, protocol.Sample):
            self.samples = (*self.samples[-1:], sample)
            self.begun.set()

    @property
    def transmitting(self) -> bool:
        """Whether it still sends, or waits for what is on the way."""
        return self.result is None and self.failure is None


class Generator:
    """What scripts drive. Every method may be called from any thread; each is done before the next begins."""

    def __init__(self, places: Mapping[str, Place], core: int, folder: Path, host: Host) -> None:
        """`places` are the ports that scripts may name, by location; `folder` takes the engine's log."""
        self._places, self._core, self._folder, self._host = places, core, folder, host
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(1, "otg-trial")
        self._engine: ProcessInstrument | None = None
        self._running: Future[None] | None = None
        self._epoch = 0
        self.config: Mapping[str, Any] = {}  # as it was sent
        self.locations: Mapping[str, str] = {}
        self.opened: Mapping[str, protocol.OpenedPort] = {}
        self.flows: Sequence[Planned] = ()
        self.trial: Trial | None = None
        self._captures: Mapping[str, Mapping[str, Any]] = {}  # of the configuration, by port
        self._watched: frozenset[str] = frozenset()  # ports whose frames the next transmission keeps
        self._kept: frozenset[str] = frozenset()  # ports whose frames the last one kept

    def configure(self, body: Any) -> Sequence[str]:
        """Take a configuration: stop, open its ports, resolve gateways, plan its flows; returns warnings.

        After a refusal there is no configuration, and no port is open. Raises RefusedError.
        """
        problems = Problems()
        config = fields.CONFIG.read(body, "", problems)
        _raise(problems)
        _check_names(config, problems)
        _raise(problems)
        with self._lock:
            self._reset()
            try:
                self._take(config, problems)
                _raise(problems)
            except BaseException:
                self._reset()
                raise
            self.config = body
        return tuple(problems.warnings)

    def transmit(self, state: str, names: Sequence[str]) -> None:
        """Start or stop flows: all, or those named. Raises RefusedError."""
        with self._lock:
            unknown = sorted(set(names) - {flow.name for flow in self.flows})
            if unknown:
                what = f"{unknown[0]!r} is no flow of the configuration"
                raise RefusedError([f"traffic.flow_transmit.flow_names: {what}"])
            if state == "start":
                self._start([flow for flow in self.flows if not names or flow.name in names])
            else:
                self._stop(names)

    def watch(self, state: str, names: Sequence[str]) -> None:
        """Start or stop to capture at ports: all, or those named; from the next start of flows. Raises RefusedError."""
        with self._lock:
            if unknown := sorted(set(names) - set(self.opened)):
                raise RefusedError([f"port.capture.port_names: {unknown[0]!r} is no port of the configuration"])
            if state == "start" and self.trial is not None and self.trial.transmitting:
                raise RefusedError(["port.capture.state: flows are transmitting; start the capture before them"])
            chosen = frozenset(names or self.opened)
            self._watched = self._watched | chosen if state == "start" else self._watched - chosen

    def captured(self, name: str) -> bytes:
        """The file of what a port received in the last transmission. Raises RefusedError.

        Scripts ask once they have counted the last frame: flows that are about to end are waited for.
        """
        if (running := self._running) is not None:
            wait([running], ENDING_S)
        with self._lock:
            trial = self.trial
            if name not in self.opened:
                raise RefusedError([f"port_name: {name!r} is no port of the configuration"])
            if trial is not None and trial.transmitting:
                raise RefusedError(["port_name: flows are transmitting; stop them first"])
            if trial is None or trial.result is None or name not in self._kept:
                what = (
                    f"nothing was captured at {name!r}; start a capture (/control/state, port.capture) before the flows"
                )
                raise RefusedError([f"port_name: {what}"])
            if trial.result.capture is not None and trial.result.capture.error:
                raise RuntimeError(f"the capture could not be written: {trial.result.capture.error}")
            asked = self._captures.get(name, {})
            form, most_bytes = asked.get("format", "pcap"), asked.get("packet_size", captures.LARGEST)
            return captures.of_port(self._capture.read_bytes(), list(self.opened).index(name), form, most_bytes)

    def close(self) -> None:
        """Stop and close all ports."""
        with self._lock:
            self._reset()
        self._threads.shutdown()

    def _reset(self) -> None:
        self._end()
        if self._engine is not None:
            self._engine.close()
        self._engine = self.trial = None
        self.config, self.locations, self.opened, self.flows = {}, {}, {}, ()
        self._captures, self._watched, self._kept = {}, frozenset(), frozenset()

    @property
    def _capture(self) -> Path:
        """Where the frames of the last transmission are, if a capture was started."""
        return self._folder / "capture.pcapng"

    def _take(self, config: Mapping[str, Any], problems: Problems) -> None:
        ports = config.get("ports") or []
        for number, port in enumerate(ports):
            if port["location"] not in self._places:
                known = ", ".join(self._places)
                what = f"{port['location']!r} is not allowed, expected one of {known}: name it to `pinchpoint otg`"
                problems.note(f"ports[{number}].location", what)
        ends = endpoints(config.get("devices") or (), [port["name"] for port in ports], problems)
        _raise(problems)
        self.locations = {port["name"]: port["location"] for port in ports}
        if ports:
            self._open(ends)
        self.opened = plan.with_speeds(config, self.opened, problems)
        self._captures = plan.captures(config, self.opened, problems)
        _raise(problems)
        resolved = self._resolve(config, ends)
        self.flows = plan.flows(config, plan.Ports(self.opened, ends, resolved), problems)

    def _open(self, ends: Sequence[Endpoint]) -> None:
        places = {name: self._places[location] for name, location in self.locations.items()}
        requests = tuple(
            protocol.PortRequest(name, place.backend, place.device, place.netns, RING, RING, answers(ends, name))
            for name, place in places.items()
        )
        devices = [request.device for request in requests if request.backend == "dpdk"]
        virtual = bool(devices) and all(device.startswith("net_") for device in devices)
        worker = protocol.WorkerRequest(self._core, tuple(self.locations))
        eal_args = VIRTUAL if virtual else VIRTUAL[:1] if devices else ()
        request = protocol.Open(workers=(worker,), eal_args=eal_args, ports=requests, link_timeout_s=LINK_TIMEOUT_S)
        self._engine = ProcessInstrument(request, self._host, log=self._folder / "engine.log")
        try:
            self._engine.open()
        except PinchpointError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise RefusedError([f"ports: {error.message}{hint}"]) from error
        self.opened = {port.name: port for port in self._engine.ports}

    def _resolve(self, config: Mapping[str, Any], ends: Sequence[Endpoint]) -> Mapping[tuple[str, int], int]:
        """Gateways of sending devices that only the network knows."""
        used = [flow["tx_rx"]["device"] for flow in config.get("flows") or () if flow["tx_rx"]["choice"] == "device"]
        asked: dict[tuple[str, int], Endpoint] = {}
        for name in (name for flow in used for name in flow["tx_names"]):
            end = find(ends, name, 4)
            if end is not None and end.version == 4 and neighbour(ends, end) is None:
                asked[end.port, end.gateway] = end
        if not asked or self._engine is None:
            return {}
        file = self._folder / "arp.pcapng"
        file.unlink(missing_ok=True)
        try:
            self._engine.transmit(questions(tuple(asked.values()), str(file), self._next_epoch()))
            macs = answered(file.read_bytes())
        finally:
            file.unlink(missing_ok=True)
        return {key: macs[key[1]] for key in asked if key[1] in macs}

    def _start(self, chosen: Sequence[Planned]) -> None:
        if self.trial is not None and self.trial.transmitting:
            raise RefusedError(["traffic.flow_transmit.state: flows are transmitting; stop them first"])
        if not chosen or self._engine is None:
            raise RefusedError(["traffic.flow_transmit.state: the configuration has no flows"])
        duration_s = plan.duration_s(chosen)
        streams, epoch = [planned.within(duration_s) for planned in chosen], self._next_epoch()
        message = run_of(f"otg-{epoch}", epoch, duration_s, DRAIN_S, streams)
        self._kept = self._watched
        self._capture.unlink(missing_ok=True)
        capture = protocol.CaptureRequest(str(self._capture), captures.MOST_FRAMES) if self._kept else None
        message = msgspec.structs.replace(message, sample_interval_s=SAMPLE_S, capture=capture)
        self.trial = Trial(chosen)
        self._running = self._threads.submit(_carry_out, self._engine, message, self.trial)

    def _stop(self, names: Sequence[str]) -> None:
        trial = self.trial
        if trial is None or not trial.transmitting:
            return
        others = [flow.name for flow in trial.flows if names and flow.name not in names]
        if others:
            what = f"flows end together: name {', '.join(map(repr, others[:5]))} as well, or no flow at all"
            raise RefusedError([f"traffic.flow_transmit.flow_names: {what}"])
        self._end()

    def _end(self) -> None:
        """End the trial under way; returns when its account is there, or the engine was closed."""
        running, trial = self._running, self.trial
        if running is None or trial is None or self._engine is None:
            return
        deadline = time.monotonic() + STOPPED_WITHIN_S
        while not running.done() and time.monotonic() < deadline:
            # The engine takes a stop only while a trial runs.
            if trial.begun.wait(STOP_AGAIN_S):
                with suppress(PinchpointError):
                    self._engine.stop()
            with suppress(TimeoutError):
                running.result(STOP_AGAIN_S)
        if not running.done():
            self._engine.close()
        self._running = None

    def _next_epoch(self) -> int:
        self._epoch = self._epoch % EPOCHS + 1
        return self._epoch


def _carry_out(engine: ProcessInstrument, message: protocol.Run, trial: Trial) -> None:
    try:
        result = engine.transmit(message, trial.heard)
    except PinchpointError as error:
        trial.failure = error.message
        return
    if result.status == "aborted":
        trial.failure = result.reason or "the trial was aborted"
    trial.result = result


def _check_names(config: Mapping[str, Any], problems: Problems) -> None:
    for key, member in (("ports", "name"), ("flows", "name"), ("devices", "name"), ("ports", "location")):
        seen: set[str] = set()
        for number, item in enumerate(config.get(key) or ()):
            if item[member] in seen:
                problems.note(f"{key}[{number}].{member}", f"{item[member]!r} is given twice")
            seen.add(item[member])


def read(kind: Kind, body: Any) -> Any:
    """What a body says. Raises RefusedError."""
    problems = Problems()
    values = kind.read(body, "", problems)
    _raise(problems)
    return values


def _raise(problems: Problems) -> None:
    if problems.lines:
        raise RefusedError(problems.lines)
