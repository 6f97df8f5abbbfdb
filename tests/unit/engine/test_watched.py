"""An engine that opens connections and prints samples on the way."""

import json
import time
from typing import get_type_hints

import pytest

from pinchpoint.engine.connections import Outage, Sample, Watched
from pinchpoint.model.errors import EngineError


class Printing:
    """A host on which one process prints what it is given."""

    def __init__(self):
        self.printed, self.has_ended = b"", False

    def spawn(self, argv, environment, output, errors):
        return 7

    def ended(self, pid):
        return self.has_ended

    def read_bytes(self, path, offset=0):
        return self.printed[offset:]

    def read(self, path):
        return self.printed.decode() if path.endswith("jsonl") else "no such interface"


def sample(elapsed_s):
    counts = {name: 0 for name, kind in get_type_hints(Sample).items() if kind is int}
    told = {"type": "sample", **counts, "elapsed_s": elapsed_s, "backends": [3, 4], "unknown": 1}
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def test_samples_are_taken_in_as_their_lines_are_complete():
    host = Printing()
    watched = Watched(host, ["engine"], (), "/bench/connect")
    assert watched.look() and watched.samples == [] and watched.began is None
    first, second = b"ready\n" + sample(0.1), sample(0.2)
    host.printed = first + second[:20]
    assert watched.look() and [sample.elapsed_s for sample in watched.samples] == [0.1]
    host.printed, host.has_ended = first + second, True
    assert not watched.look()
    assert [(sample.elapsed_s, sample.backends) for sample in watched.samples] == [(0.1, (3, 4)), (0.2, (3, 4))]


def test_the_beginning_is_the_earliest_that_a_sample_allows():
    host = Printing()
    watched = Watched(host, ["engine"], (), "/bench/connect")
    host.printed = sample(0.1) + sample(5.0) + sample(5.1)
    watched.look()
    assert watched.began == pytest.approx(time.monotonic() - 5.1, abs=1.0)


def test_a_sample_that_cannot_be_read_is_an_error_that_shows_it():
    host = Printing()
    watched = Watched(host, ["engine"], (), "/bench/connect")
    host.printed = b'{"type":"sample","elapsed_s":"soon"}\n'
    with pytest.raises(EngineError, match="soon"):
        watched.look()


def test_an_engine_that_never_was_ready_says_why():
    with pytest.raises(EngineError, match="no such interface"):
        Watched(Printing(), ["engine"], (), "/bench/connect").account()


def test_an_outage_is_a_word_of_the_command_line():
    assert Outage(1, 2.0, 4.5, resets=False).word == "1@2.000s-4.500s"
    assert Outage(1, 2.0, 4.5, resets=True).word == "1@2.000s-4.500s:reset"
