"""Flows as streams of one trial.

Flows start together. One that ends before the others has a number of frames, or a rate that falls to nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pinchpoint.engine.protocol import OpenedPort
from pinchpoint.engine.streams import Bursts, Rate, Shape, Size, Steady, Step, StreamRequest, Template
from pinchpoint.model.headers import FCS_BYTES, SHORTEST_BYTES, SIGNATURE_BYTES
from pinchpoint.model.units import wire_bits
from pinchpoint.otg.devices import Endpoint, addressed, find, neighbour
from pinchpoint.otg.fields import LONGEST_S, SPEEDS
from pinchpoint.otg.headers import Header, packet
from pinchpoint.otg.patterns import MAC
from pinchpoint.otg.shape import Problems, WrongError

GAP_BYTES: Final = 12.0  # between any two frames, those of a burst as well
MOST_SIZES: Final = 64
MIXES: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "imix": ((64, 7), (570, 4), (1518, 1)),
    "ipsec_imix": ((90, 5867), (92, 200), (594, 2366), (1418, 1567)),
}
_RATES: Final = {"bps": 1, "kbps": 10**3, "mbps": 10**6, "gbps": 10**9}


@dataclass(frozen=True)
class Planned:
    """A flow ready to be sent."""

    name: str
    tx_port: str
    rx_ports: tuple[str, ...]
    stream: StreamRequest
    mean_bytes: float
    needs_s: float  # how long a trial must be for all of it; infinite: until it is stopped
    seconds: float | None  # after which it ends, if not with a number of frames
    counted: bool  # whether its metrics are asked for
    loss: bool
    latency: bool

    def within(self, duration_s: float) -> StreamRequest:
        """Its stream in a trial of this duration."""
        if self.seconds is None or self.seconds >= duration_s:
            return self.stream
        return msgspec.structs.replace(self.stream, shape=Shape(step=Step(self.seconds, 0.0)))


@dataclass(frozen=True)
class Ports:
    """The configuration's ports as the engine opened them."""

    opened: Mapping[str, OpenedPort]
    ends: Sequence[Endpoint]
    resolved: Mapping[tuple[str, int], int]  # port and gateway -> MAC, where it was asked for


def with_speeds(
    config: Mapping[str, Any], opened: Mapping[str, OpenedPort], problems: Problems
) -> dict[str, OpenedPort]:
    """The ports; one that does not know its speed has that of layer1, if there is one."""
    ports = dict(opened)
    for number, layer in enumerate(config.get("layer1") or ()):
        speed_bps = SPEEDS.get(layer.get("speed") or "")
        for place, name in enumerate(layer.get("port_names") or ()):
            own = opened[name].speed_bps if name in opened else None
            if name not in opened:
                problems.note(f"layer1[{number}].port_names[{place}]", f"{name!r} is no port of this configuration")
            elif speed_bps and own is None:
                ports[name] = msgspec.structs.replace(opened[name], speed_bps=speed_bps)
            elif speed_bps and own != speed_bps:
                problems.warn(f"layer1[{number}].speed", f"ignored: port {name} has a speed of its own, {own} bit/s")
    return ports


def captures(
    config: Mapping[str, Any], opened: Mapping[str, OpenedPort], problems: Problems
) -> dict[str, Mapping[str, Any]]:
    """What the configuration says of captures, by port."""
    by_port: dict[str, Mapping[str, Any]] = {}
    for number, capture in enumerate(config.get("captures") or ()):
        for place, name in enumerate(capture["port_names"]):
            if name not in opened:
                problems.note(f"captures[{number}].port_names[{place}]", f"{name!r} is no port of this configuration")
            by_port[name] = capture
    return by_port


def flows(config: Mapping[str, Any], ports: Ports, problems: Problems) -> list[Planned]:
    """All flows of a configuration that was read; what is wrong is noted."""
    traffic = []
    for number, flow in enumerate(config.get("flows") or ()):
        before = len(problems.lines)
        try:
            planned = _flow(number, flow, ports, problems)
        except WrongError as error:
            problems.note(error.path, error.what)
        else:
            if len(problems.lines) == before:
                traffic.append(planned)
    return traffic


def duration_s(chosen: Sequence[Planned]) -> float:
    """How long a trial of these flows takes."""
    return min(LONGEST_S, max((planned.needs_s for planned in chosen), default=0.0))


def _flow(number: int, flow: Mapping[str, Any], ports: Ports, problems: Problems) -> Planned:
    """One flow; of no use if something was noted. Raises WrongError."""
    path = f"flows[{number}]"
    asked = flow.get("packet") or [{"choice": "ethernet", "ethernet": {}}]
    headers = _without_payload([(header["choice"], header[header["choice"]]) for header in asked], path, problems)
    tx_port, rx_ports, headers = _route(flow["tx_rx"], f"{path}.tx_rx", headers, ports)
    metrics = flow.get("metrics") or {}
    counted = bool(metrics.get("enable"))
    frames = packet(headers, path, problems)
    size, mean = _size(flow.get("size"), f"{path}.size")
    smallest, largest = _bounds(size)
    signed = frames.bytes + FCS_BYTES + SIGNATURE_BYTES
    # Without metrics, too: so ports tell the frames of flows from others.
    stamped = counted or (bool(rx_ports) and "payload" not in flow and smallest >= signed)
    least = max(SHORTEST_BYTES, signed if counted else frames.bytes + FCS_BYTES)
    if smallest < least:
        why = "these headers and the signature of metrics.enable" if counted else "these headers"
        problems.note(f"{path}.size", f"{why} need frames of at least {least} bytes")
    opened = ports.opened[tx_port]
    most = min(ports.opened[name].max_frame_bytes for name in (tx_port, *rx_ports))
    if largest > most:
        problems.note(f"{path}.size", f"port {tx_port} takes frames of at most {most} bytes")
    rate_fps = _rate(flow.get("rate"), f"{path}.rate", mean, opened)
    timing = _timing(flow, path, rate_fps, opened, problems)
    stream = StreamRequest(
        id=number, tx_port=tx_port, rx_port=rx_ports[0] if len(rx_ports) == 1 and stamped else None,
        rx_ports=rx_ports if len(rx_ports) > 1 and stamped else (), rate=Rate(fps=timing.rate_fps), shape=timing.shape,
        size=size, template=Template(layers=tuple(frames.layers)), stamped=stamped,
        wrong_checksums=tuple(sorted(frames.wrong)), seed=next(iter(frames.seeds), 0), flows=frames.flows,
        fields=tuple(frames.fields), tracked_flows=0, limit_frames=timing.frames, together=len(frames.fields) > 1,
    )  # fmt: skip
    return Planned(
        flow["name"], tx_port, rx_ports, stream, mean, timing.needs_s, timing.seconds, counted,
        bool(metrics.get("loss")), bool((metrics.get("latency") or {}).get("enable")),
    )  # fmt: skip


def _without_payload(headers: Sequence[Header], path: str, problems: Problems) -> list[Header]:
    """The headers without the bytes behind them. Raises WrongError for bytes that are elsewhere."""
    kept = [header for header in headers if header[0] != "custom"]
    for number, (name, _) in enumerate(headers):
        if name == "custom":
            place = f"{path}.packet[{number}].custom"
            if number < len(kept) or not kept:
                raise WrongError(place, "expected behind all headers: its bytes are payload")
            problems.warn(place, "ignored: payloads are zeros")
    return kept


_Route = tuple[str, tuple[str, ...], list[Header]]  # the port that sends, those that receive, headers with addresses


def _route(ends: Mapping[str, Any], path: str, headers: list[Header], ports: Ports) -> _Route:
    """Raises WrongError."""
    if ends["choice"] == "device":
        return _between(ends["device"], f"{path}.device", headers, ports)
    port = ends["port"]
    names = port.get("rx_names") or ([port["rx_name"]] if port.get("rx_name") else [])
    for key, name in (("tx_name", port["tx_name"]), *(("rx_names", name) for name in names)):
        if name not in ports.opened:
            raise WrongError(f"{path}.port.{key}", f"{name!r} is no port of this configuration")
    rx_ports = tuple(dict.fromkeys(names))
    # Without devices, the next hop is the port that receives.
    mac = ports.opened[rx_ports[0]].mac if rx_ports else None
    return port["tx_name"], rx_ports, addressed(headers, MAC.convert(mac) if mac else (1 << 48) - 1)


def _between(names: Mapping[str, Any], path: str, headers: list[Header], ports: Ports) -> _Route:
    version = next((int(name[-1]) for name, _ in headers if name in ("ipv4", "ipv6")), None)
    source, target = (_end(names[key], f"{path}.{key}", version, ports) for key in ("tx_names", "rx_names"))
    hop = neighbour(ports.ends, source) or ports.resolved.get((source.port, source.gateway))
    if not source.version:
        hop = target.mac
    if hop is None:
        raise WrongError(source.path, "the gateway did not answer; give its address as value")
    return source.port, (target.port,), addressed(headers, hop, source, target)


def _end(names: Sequence[str], path: str, version: int | None, ports: Ports) -> Endpoint:
    if len(names) != 1:
        raise WrongError(path, f"expected one name, got {len(names)}; write a flow for each")
    if (end := find(ports.ends, names[0], version)) is None:
        raise WrongError(path, f"{names[0]!r} is no device of this configuration")
    return end


def _size(size: Mapping[str, Any] | None, path: str) -> tuple[Size, float]:
    """The sizes of frames, and their mean. Raises WrongError."""
    if size is None:
        return Size(fixed=SHORTEST_BYTES), float(SHORTEST_BYTES)
    length = size[size["choice"]]
    if size["choice"] == "fixed":
        return Size(fixed=length), float(length)
    if size["choice"] == "random":
        if length["min"] > length["max"]:
            raise WrongError(f"{path}.random.min", f"expected at most max, {length['max']}, got {length['min']}")
        return Size(random=(length["min"], length["max"])), (length["min"] + length["max"]) / 2
    pairs = _listed(size, path)
    total = sum(weight for _, weight in pairs)
    return Size(list=pairs), sum(value * weight for value, weight in pairs) / total


def _listed(size: Mapping[str, Any], path: str) -> tuple[tuple[int, int], ...]:
    if size["choice"] == "weight_pairs":
        return _mix(size["weight_pairs"], f"{path}.weight_pairs.custom")
    span = size["increment"]
    sizes = range(span["start"], span["end"] + 1, span["step"])
    if not 1 <= len(sizes) <= MOST_SIZES:
        raise WrongError(f"{path}.increment", f"expected 1 to {MOST_SIZES} sizes, got {len(sizes)}; use a larger step")
    return tuple((value, 1) for value in sizes)


def _mix(mix: Mapping[str, Any], path: str) -> tuple[tuple[int, int], ...]:
    if mix["choice"] == "predefined":
        return MIXES[mix["predefined"]]
    pairs = [(entry["size"], round(entry["weight"] * 1000)) for entry in mix["custom"]]
    if not pairs:
        raise WrongError(path, "expected at least one pair")
    divisor = math.gcd(*(weight for _, weight in pairs))
    pairs = [(value, weight // divisor) for value, weight in pairs]
    total = sum(weight for _, weight in pairs)
    if total > 1 << 16:
        raise WrongError(path, f"the weights repeat after {total} frames, expected at most 65536")
    return tuple(pairs)


def _bounds(size: Size) -> tuple[int, int]:
    """The smallest and the largest size."""
    if isinstance(size.fixed, int):
        return size.fixed, size.fixed
    if isinstance(size.random, tuple):
        return size.random
    pairs = size.list if isinstance(size.list, tuple) else ()
    return min(value for value, _ in pairs), max(value for value, _ in pairs)


def _rate(rate: Mapping[str, Any] | None, path: str, mean: float, port: OpenedPort) -> float:
    """Frames a second of a flow whose frames have `mean` bytes. Raises WrongError."""
    if rate is None:
        return 1000.0
    kind = rate["choice"]
    if kind == "pps":
        return float(rate["pps"])
    if kind in _RATES:
        return float(rate[kind] * _RATES[kind] / wire_bits(mean))
    if port.speed_bps is None:
        raise WrongError(f"{path}.percentage", f"{_unknown_speed(port)}, or pps or bps")
    return float(rate["percentage"]) / 100 * port.speed_bps / wire_bits(mean)


@dataclass(frozen=True)
class _Timing:
    rate_fps: float
    shape: Shape
    frames: int | None
    seconds: float | None
    needs_s: float


def _unknown_speed(port: OpenedPort) -> str:
    return f"the speed of port {port.name} is not known; give it as layer1.speed"


def _timing(flow: Mapping[str, Any], path: str, rate_fps: float, port: OpenedPort, problems: Problems) -> _Timing:
    """Raises WrongError."""
    steady = Shape(steady=Steady())
    duration = flow.get("duration") or {"choice": "continuous", "continuous": {}}
    value = duration[duration["choice"]]
    if duration["choice"] == "continuous":
        return _Timing(rate_fps, steady, None, None, math.inf)
    if duration["choice"] == "fixed_seconds":
        return _Timing(rate_fps, steady, None, value["seconds"], value["seconds"])
    if duration["choice"] == "fixed_packets":
        timing = _Timing(rate_fps, steady, value["packets"], None, (value["packets"] + 0.5) / rate_fps)
    else:
        timing = _bursts(value, f"{path}.duration.burst", rate_fps, port)
        at_line = (flow.get("rate") or {}).get("percentage") == 100.0
        if value["packets"] > 1 and timing.shape != steady and not at_line:
            what = "the frames of a burst leave back to back; the rate and the gap say when the next burst begins"
            problems.warn(f"{path}.rate", what)
    if timing.frames is not None and timing.needs_s > LONGEST_S:
        what = f"takes {timing.needs_s:.0f} s at this rate, expected at most {LONGEST_S:.0f} s"
        raise WrongError(f"{path}.duration", what)
    return timing


def _bursts(burst: Mapping[str, Any], path: str, rate_fps: float, port: OpenedPort) -> _Timing:
    """A burst takes as long as its frames at the rate, and the gap follows. Raises WrongError."""
    packets, bursts = burst["packets"], burst["bursts"]
    gap_s = _gap_s(burst.get("inter_burst_gap") or {"choice": "bytes", "bytes": GAP_BYTES}, path, port)
    period_s = packets / rate_fps + gap_s
    frames = packets * bursts if bursts else None
    needs_s = (bursts + 0.5 / packets) * period_s if bursts else math.inf
    shape = Shape(bursts=Bursts(packets)) if gap_s else Shape(steady=Steady())
    return _Timing(packets / period_s, shape, frames, None, needs_s)


def _gap_s(gap: Mapping[str, Any], path: str, port: OpenedPort) -> float:
    """Between two bursts, beyond what is between any two frames."""
    length, units_s = float(gap[gap["choice"]]), {"nanoseconds": 1e-9, "microseconds": 1e-6}
    if gap["choice"] in units_s:
        return length * units_s[gap["choice"]]
    if port.speed_bps is None and length > GAP_BYTES:
        raise WrongError(f"{path}.inter_burst_gap.bytes", f"{_unknown_speed(port)}, or nanoseconds or microseconds")
    return max(0.0, length - GAP_BYTES) * 8 / port.speed_bps if port.speed_bps else 0.0
