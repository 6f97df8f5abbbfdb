"""The checks across keys: each notes its problems in the source."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface
from math import prod
from pathlib import Path as FilePath

from pinchpoint.dut.attach import HEADERS
from pinchpoint.dut.device import Keys, made_by
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source, show
from pinchpoint.scenario import measure_keys
from pinchpoint.scenario.measure_keys import SOCKETS_MEASURES

# A scenario's name becomes part of trial ids and file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(source: Source, path: str) -> None:
    """The file's name can name trials and files."""
    name = FilePath(path).stem
    if not _NAME.fullmatch(name):
        expected = "expected a file name of up to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        source.problem((), f"{expected}: it becomes the name of trials and files; found {show(name)}")


def check_needs(source: Source, measure: str | None, build: Values, arrays: Mapping[str, Sequence[Element]]) -> None:
    """The tables that the measure needs are there."""
    sends = (
        measure in ("rates", "load", "soak", "recovery", "blocked", "burst", "loss_curve")
        or build.get("load_fps", 0) > 0
        or build.get("probe_rules", 0) > 0
    )
    needed = [("port", 2), ("stream", 1)] if sends else [("host", 2)] if measure in SOCKETS_MEASURES else []
    for name, fewest in needed:
        found = len(arrays[name])
        if found < fewest:
            source.problem((name,), f"expected at least {fewest} [[{name}]], found {found or 'none'}")


def check_engine(source: Source, engine: Values, ports: Sequence[Element]) -> None:
    """A CPU without a port would have nothing to do. One is not too many: too few ports are reported elsewhere."""
    cpus = engine.get("cpus", ())
    if len(cpus) > max(1, len(ports)):
        found = ", ".join(str(cpu) for cpu in cpus)
        at_most = f"at most {len(ports)}, one CPU for each [[port]]"
        source.problem(("engine", "cpus"), f"expected {at_most}; found {len(cpus)} ({found})")


def check_burst(source: Source, measure: str | None, arrays: Mapping[str, Sequence[Element]]) -> None:
    """One stream from one queue: frames of several would not come back to back, but side by side."""
    if measure in ("soak", "recovery"):
        for port in arrays["port"]:
            if (queues := port.values.get("queues", 1)) > 1:
                expected = f'1 with measure = "{measure}": of several queues nobody knows when a frame was lost'
                source.mismatch((*port.at, "queues"), expected, queues)
    if measure != "burst":
        return
    if len(arrays["stream"]) > 1:
        source.problem(("stream",), f'expected one [[stream]] with measure = "burst", found {len(arrays["stream"])}')
    senders = {stream.values.get("tx_port") for stream in arrays["stream"]}
    for port in arrays["port"]:
        queues = port.values.get("queues", 1)
        if port.values.get("name") in senders and queues > 1:
            source.mismatch((*port.at, "queues"), "1 where a burst is sent: one core sends it", queues)


def check_streams(source: Source, streams: Sequence[Element], ports: Sequence[Element], most_bytes: int) -> None:
    """Streams join ports that are there, with frames that they take and five-tuples that the ranges make."""
    names = [port.values["name"] for port in ports if "name" in port.values]
    for element in streams:
        at, stream = element.at, element.values
        for key, field in (("from", "tx_port"), ("to", "rx_port")):
            if field in stream and stream[field] not in names:
                expected = f"the name of a [[port]] ({', '.join(names) or 'there is none'})"
                source.mismatch((*at, key), expected, stream[field])
        if "tx_port" in stream and stream.get("rx_port") == stream["tx_port"]:
            source.problem((*at, "to"), f'expected a port other than "from", found "{stream["tx_port"]}" in both')
        if stream.get("frame_bytes", 0) > most_bytes:
            expected = f"at most {most_bytes:,} (MTU {most_bytes - HEADERS})"
            source.mismatch((*at, "frame_bytes"), expected, stream["frame_bytes"])
        _check_flows(source, stream, at)


def check_search(source: Source, search: Values) -> None:
    """The goals of the search fit each other."""

    def wrong(key: str, condition: str, other: str, holds: bool) -> None:
        if not holds:
            found = f"{search[key]:g} and {search[other]:g}"
            source.problem(("search", key), f"expected {condition} search.{other}, found {found}")

    if 0 not in search.get("loss_ratios", (0,)):
        found = ", ".join(f"{ratio:g}" for ratio in search["loss_ratios"])
        source.problem(("search", "loss_ratios"), f"expected 0 (the NDR) among them, found {found}")
    if {"min_load_fps", "max_load_fps"} <= search.keys():
        lower_first = search["min_load_fps"] < search["max_load_fps"]
        wrong("max_load_fps", "more than", "min_load_fps", lower_first)
    if {"trial_duration_s", "initial_trial_duration_s"} <= search.keys():
        rough_first = search["initial_trial_duration_s"] <= search["trial_duration_s"]
        wrong("initial_trial_duration_s", "at most", "trial_duration_s", rough_first)
    if {"trial_duration_s", "duration_sum_s"} <= search.keys():
        enough = search["duration_sum_s"] >= search["trial_duration_s"]
        wrong("duration_sum_s", "at least", "trial_duration_s", enough)
    if {"preceding_targets", "initial_trial_duration_s", "duration_sum_s"} <= search.keys():
        direct = search["initial_trial_duration_s"] >= search["duration_sum_s"]
        if search["preceding_targets"] == 0 and not direct:
            source.problem(
                ("search", "preceding_targets"),
                "expected 1 or more where initial_trial_duration_s is below duration_sum_s, found 0",
            )


def _check_flows(source: Source, stream: Values, at: Path) -> None:
    """Fill in the default and compare with the product of the ranges."""
    if not all(name in stream for name in measure_keys.RANGES):
        return
    product = prod(stream[name].count for name in measure_keys.RANGES)
    if "flows" in stream and stream["flows"] > product:
        expected = f"at most {product:,}, the product of the four ranges"
        source.mismatch((*at, "flows"), expected, stream["flows"])
    if "flows" not in stream and product > measure_keys.MOST_FLOWS:
        source.problem(
            (*at, "flows"),
            f"missing; the ranges make {product:,} five-tuples, more than the {measure_keys.MOST_FLOWS:,} of a cycle",
        )
    stream.setdefault("flows", product)


def check_hosts(source: Source, hosts: Sequence[Element]) -> None:
    """Hosts share one subnet, so that they reach each other, and no address."""
    seen: dict[str, None] = {}
    subnet = None
    for host in hosts:
        address, at = host.values.get("address"), (*host.at, "address")
        if not address:
            continue
        interface = IPv4Interface(address)
        subnet = subnet or interface.network
        if interface.network != subnet:
            source.mismatch(at, f"an address in {subnet} as the first host has", address)
        if str(interface.ip) in seen:
            source.problem(at, f'expected a unique address, found "{address}" again')
        seen[str(interface.ip)] = None


def check_sockets(source: Source, sockets: Values, hosts: Sequence[Element], measure: str | None) -> None:
    """Client and server are two hosts. Fills in the defaults that depend on the measure."""
    names = [host.values["name"] for host in hosts if "name" in host.values]
    for key in ("client", "server"):
        if key in sockets and sockets[key] not in names:
            expected = f"the name of a [[host]] ({', '.join(names) or 'there is none'})"
            source.mismatch(("sockets", key), expected, sockets[key])
    if "client" in sockets and sockets["client"] == sockets.get("server"):
        source.problem(("sockets", "server"), f'expected a host other than the client, found "{sockets["client"]}"')
    is_stream = measure == "bandwidth"
    if is_stream and sockets.get("response_bytes"):
        source.mismatch(("sockets", "response_bytes"), "0 with bandwidth", sockets["response_bytes"])
    if is_stream and sockets.get("rate_tps") is not None:
        source.mismatch(("sockets", "rate_tps"), "none with bandwidth", sockets["rate_tps"])
    sockets.setdefault("request_bytes", 131_072 if is_stream else 1)
    sockets.setdefault("response_bytes", 0 if is_stream else 1)
    if not is_stream and sockets["response_bytes"] == 0:
        source.mismatch(("sockets", "response_bytes"), f"1 or more with {measure}", 0)


def check_build(source: Source, build: Values, keys: Keys) -> None:
    """The method is one by which the thing can be made."""
    made = made_by(keys).get(build.get("what", ""))
    methods = made.methods if made else ()
    if methods and "method" in build and build["method"] not in methods:
        expected = " or ".join(f'"{method}"' for method in methods) + f" for {build['what']}"
        source.mismatch(("build", "method"), expected, build["method"])
    if build.get("what") in ("ports", "veths") and build.get("probe_rules"):
        source.mismatch(("build", "probe_rules"), f"0 for {build['what']}", build["probe_rules"])


def check_over_time(source: Source, tables: Mapping[str, Values]) -> None:
    """Windows fit their time, and what happens to the DUT can happen to one of this kind."""
    soak, blocked = tables["soak"], tables["blocked"]
    if {"window_s", "duration_s"} <= soak.keys() and soak["window_s"] > soak["duration_s"]:
        found = f"{soak['window_s']:g} and {soak['duration_s']:g}"
        source.problem(("soak", "window_s"), f"expected at most soak.duration_s, found {found}")
    action = blocked.get("action")
    if action == "settings" and not blocked.get("settings", True):
        source.problem(("blocked", "settings"), 'missing; with action = "settings" it says what to set')
    if action and action != "settings" and blocked.get("settings"):
        source.problem(("blocked", "settings"), f'expected none where the action is "{action}"')
