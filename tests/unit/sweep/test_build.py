"""Which rules are probed, and what their lost frames say about time."""

import msgspec
import pytest

from pinchpoint.engine import protocol
from pinchpoint.model.scenario import Build
from pinchpoint.sweep.build import probes_of
from pinchpoint.sweep.forwarding import Probes, first_taken

FIRST = 0xF0000001  # 240.0.0.1


def build(count, probe_rules, what="flows"):
    return Build(what, "file", count, 1, probe_rules, 0.0)


@pytest.mark.parametrize(
    ("count", "asked", "expected"),
    [(100, 1, (FIRST + 99, 1, 1)), (101, 5, (FIRST, 25, 5)), (3, 10, (FIRST, 1, 3))],
    ids=["the last alone", "first to last", "no more than there are"],
)
def test_probed_rules_are_spread_over_all_and_the_last_is_among_them(count, asked, expected):
    probes = probes_of(build(count, asked))
    assert (probes.first, probes.step, probes.count) == expected
    assert probes.first + probes.step * (probes.count - 1) == FIRST + count - 1


def test_nothing_is_probed_unless_rules_are_to_be():
    assert probes_of(build(10, 0)) is None
    assert probes_of(build(10, 5, "ports")) is None


def test_a_rule_s_time_is_the_number_of_probes_it_did_not_take():
    probes = Probes(FIRST, 1, 4)  # 100 a second each
    flows = protocol.FlowsResult(4, 3, ((0, 300, 250), (1, 300, 200), (3, 300, 0)))
    stream = msgspec.structs.replace(EMPTY, flows=flows)
    taken = first_taken(stream, probes, -0.25)
    assert taken == (pytest.approx(0.25), pytest.approx(0.7525), pytest.approx(-0.245), None)


EMPTY = protocol.StreamResult(
    id=0,
    tx_port="left",
    rx_port="right",
    intended=None,
    offered=0,
    refused=0,
    shortfall=None,
    sent=0,
    bytes_mean=60.0,
    received=0,
    lost=0,
    duplicated=0,
    reordered=0,
    reorder_distance_max=0,
    reorder_histogram=(),
    corrupt=0,
    late=0,
    largest_jump=None,
    latency=None,
    jitter=None,
    flows=None,
)
