"""What is answered about flows and ports (models: result/flow.yaml, result/port.yaml).

While flows are transmitting, counts are those of the engine's last sample, at most a fraction of a second old, and
rates are its difference to the one before. Then they are the trial's account; "stopped" means that it is there.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pinchpoint.engine.protocol import Result, StreamResult
from pinchpoint.otg.generator import Generator, RefusedError, Trial
from pinchpoint.otg.plan import WIRE_BYTES, Planned

Counts = tuple[int, int]  # sent, received
NONE: Final[Counts] = (0, 0)


def flow_metrics(generator: Generator, names: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """One object for each flow whose metrics are enabled. Raises RefusedError."""
    trial = _healthy(generator.trial)
    flows = {flow.name: flow for flow in generator.flows}
    for name in names:
        if name not in flows:
            raise RefusedError([f"flow.flow_names: {name!r} is no flow of the configuration"])
    chosen = [flow for flow in flows.values() if flow.counted and (not names or flow.name in names)]
    return [_kept(_flow(flow, trial), columns, "name") for flow in chosen]


def port_metrics(generator: Generator, names: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """One object for each port. Raises RefusedError."""
    trial = _healthy(generator.trial)
    for name in names:
        if name not in generator.opened:
            raise RefusedError([f"port.port_names: {name!r} is no port of the configuration"])
    chosen = names or tuple(generator.opened)
    return [_kept(_port(generator, name, trial), columns, "name") for name in chosen]


def _healthy(trial: Trial | None) -> Trial | None:
    if trial is not None and trial.failure is not None:
        raise RuntimeError(f"the trial ended early: {trial.failure}")
    return trial


def _kept(values: dict[str, Any], columns: Sequence[str], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not columns or key in columns or key == name}


def _flow(flow: Planned, trial: Trial | None) -> dict[str, Any]:
    place = _place(flow, trial)
    (sent, received), (tx_fps, rx_fps) = _counts(trial, place), _rates(trial, place)
    values: dict[str, Any] = {
        "name": flow.name, "port_tx": flow.tx_port, "port_rx": flow.rx_ports[0] if len(flow.rx_ports) == 1 else "",
        "transmit": "started" if place is not None and trial and trial.transmitting else "stopped",
        "frames_tx": sent, "frames_rx": received,
        "bytes_tx": round(sent * flow.mean_bytes), "bytes_rx": round(received * flow.mean_bytes),
        "frames_tx_rate": tx_fps, "frames_rx_rate": rx_fps,
    }  # fmt: skip
    for way, fps in (("tx", tx_fps), ("rx", rx_fps)):
        values[f"{way}_l1_rate_bps"] = fps * (flow.mean_bytes + WIRE_BYTES) * 8
        values |= {f"{way}_rate_bytes": fps * flow.mean_bytes, f"{way}_rate_bps": fps * flow.mean_bytes * 8}
        values |= {f"{way}_rate_kbps": fps * flow.mean_bytes / 125, f"{way}_rate_mbps": fps * flow.mean_bytes / 125_000}
    account = _account(trial, place)
    if account is not None:
        if flow.loss and account.lost is not None and account.sent:
            values["loss"] = account.lost / account.sent * 100
        if flow.latency and account.latency is not None and account.latency.count:
            latency = account.latency
            times = {"minimum_ns": latency.min_ns, "maximum_ns": latency.max_ns, "average_ns": latency.mean_ns}
            values["latency"] = {name: float(value) for name, value in times.items()}
    return values


def _port(generator: Generator, name: str, trial: Trial | None) -> dict[str, Any]:
    opened = generator.opened[name]
    sending = [flow for flow in (trial.flows if trial else ()) if flow.tx_port == name]
    coming = [flow for flow in (trial.flows if trial else ()) if flow.rx_ports == (name,)]
    sent = sum(_counts(trial, _place(flow, trial))[0] for flow in sending)
    received = sum(_counts(trial, _place(flow, trial))[1] for flow in coming)
    if trial is not None and trial.result is not None:
        sent, received = _at_port(trial.result, name, trial.flows)
    values: dict[str, Any] = {
        "name": name, "location": generator.locations[name], "link": "up" if opened.link_up else "down",
        "frames_tx": sent, "frames_rx": received,
        "bytes_tx": _bytes(sending, trial, 0), "bytes_rx": _bytes(coming, trial, 1),
        "transmit": "started" if sending and trial and trial.transmitting else "stopped",
    }  # fmt: skip
    for way, flows, which in (("tx", sending, 0), ("rx", coming, 1)):
        rates = [(_rates(trial, _place(flow, trial))[which], flow.mean_bytes) for flow in flows]
        values[f"frames_{way}_rate"] = math.fsum(fps for fps, _ in rates)
        values[f"bytes_{way}_rate"] = math.fsum(fps * size for fps, size in rates)
    return values | ({"speed": opened.speed_bps // 10**6} if opened.speed_bps else {})


def _at_port(result: Result, name: str, flows: Sequence[Planned]) -> Counts:
    """Frames sent and received by a port: of flows that carry the signature, or all where one does not."""
    port = next(port for port in result.ports if port.name == name)
    bare = any(not flow.counted and name in flow.rx_ports for flow in flows)
    return port.sent, port.received + (port.foreign if bare else 0)


def _bytes(flows: Sequence[Planned], trial: Trial | None, which: int) -> int:
    return round(sum(_counts(trial, _place(flow, trial))[which] * flow.mean_bytes for flow in flows))


def _place(flow: Planned, trial: Trial | None) -> int | None:
    """Which stream of the trial a flow is; None: it is none of it."""
    names = [flow.name for flow in trial.flows] if trial else []
    return names.index(flow.name) if flow.name in names else None


def _account(trial: Trial | None, place: int | None) -> StreamResult | None:
    return trial.result.streams[place] if trial and trial.result and place is not None else None


def _counts(trial: Trial | None, place: int | None) -> Counts:
    account = _account(trial, place)
    if account is not None:
        return account.sent, account.received or 0
    if trial is None or place is None or not trial.samples:
        return NONE
    counts = trial.samples[-1].streams[place]
    return counts.sent, counts.received


def _rates(trial: Trial | None, place: int | None) -> tuple[float, float]:
    if trial is None or place is None or not trial.transmitting or len(trial.samples) < 2:
        return 0.0, 0.0
    before, now = trial.samples
    span_s = now.elapsed_s - before.elapsed_s
    old, new = before.streams[place], now.streams[place]
    if span_s <= 0:
        return 0.0, 0.0
    return (new.sent - old.sent) / span_s, (new.received - old.received) / span_s


def answer(generator: Generator, request: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a request that was read."""
    if request["choice"] == "flow":
        asked = request["flow"]
        metrics = flow_metrics(generator, asked.get("flow_names") or (), asked.get("metric_names") or ())
        return {"choice": "flow_metrics", "flow_metrics": metrics}
    asked = request["port"]
    metrics = port_metrics(generator, asked.get("port_names") or (), asked.get("column_names") or ())
    return {"choice": "port_metrics", "port_metrics": metrics}
