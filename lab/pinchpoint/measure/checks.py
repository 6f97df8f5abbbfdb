"""Checks across keys that several measures make; each notes its problems in the source."""

from collections.abc import Mapping, Sequence

from pinchpoint.keys.reader import Element
from pinchpoint.keys.source import Source


def needed(source: Source, needs: Mapping[str, int], arrays: Mapping[str, Sequence[Element]]) -> None:
    """There are as many ports, streams or hosts as a measure needs."""
    for name, fewest in needs.items():
        count = len(arrays[name])
        if count < fewest:
            source.problem((name,), f"expected at least {fewest} [[{name}]], found {count or 'none'}")


def one_queue(source: Source, measure: str, arrays: Mapping[str, Sequence[Element]]) -> None:
    """Every port has one queue."""
    for port in arrays["port"]:
        if (queues := port.values.get("queues", 1)) > 1:
            expected = f'1 with measure = "{measure}": of several queues nobody knows when a frame was lost'
            source.mismatch((*port.at, "queues"), expected, queues)
