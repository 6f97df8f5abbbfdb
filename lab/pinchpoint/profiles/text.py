"""Streams of a profile as [[stream]] tables."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Range
from pinchpoint.profiles.declared import plain
from pinchpoint.profiles.streams import Wanted

KEYS: Final = ("ipv4_src", "ipv4_dst", "udp_src", "udp_dst")
LEAST_SHARE, MOST_SHARE = 0.001, 1000.0  # of a [[stream]]
BENCH: Final = """\
# No device yet: the ports are joined. Put a device here, or import with --bench SCENARIO.
[dut]
kind = "wire"

[[port]]
name = "{left}"

[[port]]
name = "{right}"
"""
_HEADER: Final = re.compile(r"\s*\[\[?\s*([\w-]+)[^\]]*\]")


def scenario(title: str, bench: str, streams: Sequence[tuple[Wanted, str, str]]) -> str:
    """A whole scenario: a bench's text without its streams, and these, each with the ports that it goes from and to.

    Raises InputError if there is none, or if their rates have no common measure.
    """
    if not streams:
        raise InputError(f"{title}: it has no stream")
    shares = _shares(title, [stream for stream, _, _ in streams])
    tables = ["\n".join(_lines(*ends, share)) + "\n" for ends, share in zip(streams, shares, strict=True)]
    return "\n".join((_without_streams(bench).rstrip("\n") + "\n", *tables))


def _shares(title: str, streams: Sequence[Wanted]) -> list[float]:
    units = {wanted.unit == "percentage" for wanted in streams}
    if len(units) > 1:
        raise InputError(
            f"{title}: percentages and other rates: expected one of them, since the port's speed is unknown"
        )
    rates = [wanted.fps for wanted in streams]
    scale = 1.0 if min(rates) >= LEAST_SHARE and max(rates) <= MOST_SHARE else MOST_SHARE / max(rates)
    if min(rates) * scale < LEAST_SHARE:
        raise InputError(f"{title}: rates of {min(rates):g} and {max(rates):g}: expected within a factor of 1,000,000")
    return [rate * scale for rate in rates]


def _lines(stream: Wanted, left: str, right: str, share: float) -> Iterator[str]:
    yield from (f"# {plain(text)}" for text in (f"{stream.title}: {stream.rate:g} {stream.unit}", *stream.notes))
    yield from ("[[stream]]", f'from = "{left}"', f'to = "{right}"', f"frame_bytes = {stream.frame_bytes}")
    yield f"share = {share:.10g}"
    yield from (f"{key} = {json.dumps(value)}" for key, value in stream.macs.items())
    for key in KEYS:
        yield f"{key} = {_range(key, stream.spans[key])}"
    if stream.order:
        yield f"order = {json.dumps(list(stream.order))}"
    yield f"flows = {stream.flows}"
    if stream.together:
        yield "together = true"


def _range(key: str, span: Range) -> str:
    if key.startswith("ipv4"):
        return f'"{span.as_addresses()}"'
    return f'"{span.first}-{span.last}"' if span.count > 1 else str(span.first)


def _without_streams(bench: str) -> str:
    """The text without its [[stream]] tables, and without the comments that stand directly above them."""
    blocks, names = [list[str]()], [""]  # one for each table, with the comments above it
    for line in bench.splitlines():
        if header := _HEADER.match(line):
            blocks.append(_comment_above(blocks[-1]))
            names.append(header[1])
        blocks[-1].append(line)
    kept = [line for name, block in zip(names, blocks, strict=True) if name != "stream" for line in block]
    return "\n".join(kept) + "\n"


def _comment_above(lines: list[str]) -> list[str]:
    """Takes the comment and empty lines away that a text ends with."""
    comment: list[str] = []
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        comment.insert(0, lines.pop())
    return comment
