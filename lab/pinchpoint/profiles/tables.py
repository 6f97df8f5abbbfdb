"""The streams of a profile as text: a bench, and a [[stream]] table for each."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pinchpoint.model.errors import InputError
from pinchpoint.model.headers import HEADERS as OF_STREAMS
from pinchpoint.model.headers import KEYS
from pinchpoint.profiles.declared import plain
from pinchpoint.profiles.fields import HEADERS, IN_LAYERS
from pinchpoint.profiles.streams import Wanted

_OF_LAYERS: Final = {**KEYS, **IN_LAYERS}
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
        expected = "expected one of them, since the port's speed is unknown"
        raise InputError(f"{title}: percentages and other rates: {expected}")
    rates = [wanted.fps for wanted in streams]
    scale = 1.0 if min(rates) >= LEAST_SHARE and max(rates) <= MOST_SHARE else MOST_SHARE / max(rates)
    if min(rates) * scale < LEAST_SHARE:
        raise InputError(f"{title}: rates of {min(rates):g} and {max(rates):g}: expected within a factor of 1,000,000")
    return [rate * scale for rate in rates]


def _lines(stream: Wanted, left: str, right: str, share: float) -> Iterator[str]:
    yield from (f"# {plain(text)}" for text in (f"{stream.title}: {stream.rate:g} {stream.unit}", *stream.notes))
    size = '"{}-{}"'.format(*stream.sizes) if stream.sizes else str(stream.frame_bytes)
    size = json.dumps(list(map(list, stream.mix))) if stream.mix else size
    yield from ("[[stream]]", f'from = "{left}"', f'to = "{right}"', f"frame_bytes = {size}")
    yield f"share = {share:.10g}"
    if stream.burst > 1:
        yield f"burst_frames = {stream.burst}"
    said = {key: values.toml(key) for key, values in stream.values.items()}
    if stream.flags is not None:
        said["tcp_flags"] = json.dumps(list(stream.flags))
    if stream.kinds:
        yield f"layers = [{', '.join(_layers(stream.kinds, said))}]"
    else:
        yield from (f"{key} = {text}" for key, text in said.items())
    if stream.order:
        yield f"order = {json.dumps([_program(key) if stream.kinds else key for key in stream.order])}"
    yield f"flows = {stream.flows}"
    if stream.together:
        yield "together = true"


def _layers(kinds: Sequence[str], said: Mapping[str, str]) -> Iterator[str]:
    """Every header with its fields, as `layers` has them; `said`: what each key is."""
    seen = Counter[str]()
    for kind in kinds:
        header = HEADERS[kind]
        fields = (
            f"{_OF_LAYERS[base][1]} = {text}"
            for key, text in said.items()
            for base, _, nth in [key.partition("@")]
            if _OF_LAYERS[base][0] == header and int(nth or 0) == seen[kind]
        )
        written = ", ".join(fields)
        yield f"{{{header} = {{{written}}}}}" if written else json.dumps(header)
        seen[kind] += 1


def _program(key: str) -> str:
    """How a field is called where `layers` say the headers."""
    base, _, nth = key.partition("@")
    header, name = _OF_LAYERS[base]
    return f"{OF_STREAMS[header].program or header}" + (f"[{nth}]" if nth else "") + f".{name}"


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
