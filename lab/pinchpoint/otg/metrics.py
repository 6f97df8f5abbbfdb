"""What is answered about flows and ports (models: result/flow.yaml, result/port.yaml).

While flows are transmitting, counts are those of the engine's last sample, at most a fraction of a second old, and
rates are its difference to the one before. Then they are the trial's account; "stopped" means that it is there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pinchpoint.engine.protocol import Result, StreamResult
from pinchpoint.model.units import wire_bits
from pinchpoint.otg.generator import Generator, RefusedError, Trial
from pinchpoint.otg.plan import Planned

_ASKED: Final = {"flow": ("flow_names", "metric_names"), "port": ("port_names", "column_names")}


@dataclass(frozen=True)
class _Seen:
    """What is known of a flow; of each pair, what was sent and what was received."""

    flow: Planned
    transmit: Literal["started", "stopped"] = "stopped"
    frames: tuple[int, int] = (0, 0)
    rates_fps: tuple[float, float] = (0.0, 0.0)
    account: StreamResult | None = None


def answer(generator: Generator, request: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a request that was read: of each flow whose metrics are enabled, or of each port.

    Raises RefusedError.
    """
    kind: str = request["choice"]
    names, columns = (request[kind].get(key) or () for key in _ASKED[kind])
    if (trial := generator.trial) is not None and trial.failure is not None:
        raise RuntimeError(f"the trial ended early: {trial.failure}")
    known = [flow.name for flow in generator.flows] if kind == "flow" else list(generator.opened)
    for name in names:
        if name not in known:
            raise RefusedError([f"{kind}.{kind}_names: {name!r} is no {kind} of the configuration"])
    if kind == "flow":
        flows = [flow for flow in generator.flows if flow.counted and (not names or flow.name in names)]
        metrics = [_flow(_seen(flow, trial)) for flow in flows]
    else:
        metrics = [_port(generator, name, trial) for name in names or known]
    return {"choice": f"{kind}_metrics", f"{kind}_metrics": [_kept(values, columns) for values in metrics]}


def _kept(values: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not columns or key in columns or key == "name"}


def _seen(flow: Planned, trial: Trial | None) -> _Seen:
    """By the trial's account, or its last samples."""
    names = [sent.name for sent in trial.flows] if trial else []
    if trial is None or flow.name not in names:
        return _Seen(flow)
    place = names.index(flow.name)
    if trial.result:
        account = trial.result.streams[place]
        return _Seen(flow, frames=(account.sent, account.received or 0), account=account)
    counts = [(sample.elapsed_s, sample.streams[place]) for sample in trial.samples]
    if not counts:
        return _Seen(flow, "started")
    (before_s, before), (now_s, now) = counts[0], counts[-1]
    span_s = now_s - before_s
    rates = ((now.sent - before.sent) / span_s, (now.received - before.received) / span_s) if span_s > 0 else (0.0, 0.0)
    return _Seen(flow, "started", (now.sent, now.received), rates)


def _flow(seen: _Seen) -> dict[str, Any]:
    flow, account = seen.flow, seen.account
    values: dict[str, Any] = {
        "name": flow.name, "port_tx": flow.tx_port, "port_rx": flow.rx_ports[0] if len(flow.rx_ports) == 1 else "",
        "transmit": seen.transmit,
    }  # fmt: skip
    for way, frames, fps in zip(("tx", "rx"), seen.frames, seen.rates_fps, strict=True):
        values |= {f"frames_{way}": frames, f"bytes_{way}": round(frames * flow.mean_bytes), f"frames_{way}_rate": fps}
        values[f"{way}_l1_rate_bps"] = fps * wire_bits(flow.mean_bytes)
        values |= {f"{way}_rate_bytes": fps * flow.mean_bytes, f"{way}_rate_bps": fps * flow.mean_bytes * 8}
        values |= {f"{way}_rate_kbps": fps * flow.mean_bytes / 125, f"{way}_rate_mbps": fps * flow.mean_bytes / 125_000}
    if account and flow.loss and account.lost is not None and account.sent:
        values["loss"] = account.lost / account.sent * 100
    if account and flow.latency and account.latency is not None and account.latency.count:
        latency = account.latency
        times = {"minimum_ns": latency.min_ns, "maximum_ns": latency.max_ns, "average_ns": latency.mean_ns}
        values["latency"] = {name: float(value) for name, value in times.items()}
    return values


def _port(generator: Generator, name: str, trial: Trial | None) -> dict[str, Any]:
    opened = generator.opened[name]
    flows = [_seen(flow, trial) for flow in (trial.flows if trial else ())]
    sending = [seen for seen in flows if seen.flow.tx_port == name]
    coming = [seen for seen in flows if seen.flow.rx_ports == (name,)]
    values: dict[str, Any] = {
        "name": name, "location": generator.locations[name], "link": "up" if opened.link_up else "down",
        "transmit": sending[0].transmit if sending else "stopped",
    }  # fmt: skip
    for way, passing, which in (("tx", sending, 0), ("rx", coming, 1)):
        counts = [(seen.frames[which], seen.rates_fps[which], seen.flow.mean_bytes) for seen in passing]
        values[f"frames_{way}"] = sum(frames for frames, _, _ in counts)
        values[f"bytes_{way}"] = round(sum(frames * size for frames, _, size in counts))
        values[f"frames_{way}_rate"] = math.fsum(fps for _, fps, _ in counts)
        values[f"bytes_{way}_rate"] = math.fsum(fps * size for _, fps, size in counts)
    is_bare = trial is not None and any(not flow.stream.stamped and name in flow.rx_ports for flow in trial.flows)
    if is_bare:  # its frames cannot be told from others: their number is known at the end, their sizes are not
        for column in ("bytes_rx", "bytes_rx_rate", "frames_rx", "frames_rx_rate"):
            del values[column]
    if trial is not None and trial.result is not None:
        values["frames_tx"], values["frames_rx"] = _at_port(trial.result, name, is_bare=is_bare)
    return values | ({"speed": opened.speed_bps // 10**6} if opened.speed_bps else {})


def _at_port(result: Result, name: str, *, is_bare: bool) -> tuple[int, int]:
    """Frames sent and received by a port: of flows, whose frames carry the signature, or all where one's do not."""
    port = next(port for port in result.ports if port.name == name)
    return port.sent, port.received + (port.foreign if is_bare else 0)
