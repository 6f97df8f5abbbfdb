"""The checks across keys: each notes its problems in the source."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Interface
from math import lcm, prod
from pathlib import Path as FilePath

from pinchpoint.dut.attach import HEADERS
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source, show
from pinchpoint.scenario import measure_keys

# A scenario's name becomes part of trial ids and file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(source: Source, path: str) -> None:
    """The file's name can name trials and files."""
    name = FilePath(path).stem
    if not _NAME.fullmatch(name):
        expected = "expected a file name of up to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        source.problem((), f"{expected}: it becomes the name of trials and files; found {show(name)}")


def check_engine(source: Source, engine: Values, ports: Sequence[Element]) -> None:
    """A CPU without a port would have nothing to do. One is not too many: too few ports are reported elsewhere."""
    cpus = engine.get("cpus", ())
    if len(cpus) > max(1, len(ports)):
        numbers = ", ".join(str(cpu) for cpu in cpus)
        at_most = f"at most {len(ports)}, one CPU for each [[port]]"
        source.problem(("engine", "cpus"), f"expected {at_most}; found {len(cpus)} ({numbers})")


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
            values = f"{search[key]:g} and {search[other]:g}"
            source.problem(("search", key), f"expected {condition} search.{other}, found {values}")

    if 0 not in search.get("loss_ratios", (0,)):
        ratios = ", ".join(f"{ratio:g}" for ratio in search["loss_ratios"])
        source.problem(("search", "loss_ratios"), f"expected 0 (the NDR) among them, found {ratios}")
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
    together = stream.get("together", False)
    counts = [stream[name].count for name in measure_keys.RANGES]
    product = lcm(*counts) if together else prod(counts)
    if "flows" in stream and stream["flows"] > product:
        what = "least common multiple of the lengths" if together else "product"
        expected = f"at most {product:,}, the {what} of the four ranges"
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
