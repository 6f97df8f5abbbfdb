"""Which rules are probed, and what their lost frames say about time."""

import msgspec
import pytest
from engine_accounts import EMPTY, result, worker

from pinchpoint.engine import protocol
from pinchpoint.measure.build.run import Build, OwnMemory, probes_of
from pinchpoint.measure.traffic import Probes, carried, first_taken

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


def test_steady_traffic_is_counted_without_the_probes():
    steady = msgspec.structs.replace(EMPTY, offered=1000, received=900, largest_jump=protocol.Jump(50, 1.0))
    probes = msgspec.structs.replace(EMPTY, offered=400, received=0)
    counts = carried(result([steady, probes], missed=7), 1, ring=64)
    assert (counts.offered, counts.lost, counts.missed) == (1000, 100, 7)
    assert counts.longest_gap_s == pytest.approx(0.5)


def test_nothing_received_has_no_longest_gap_and_nothing_offered_no_loss():
    assert carried(result([msgspec.structs.replace(EMPTY, offered=1000)]), 1, ring=64).longest_gap_s is None
    assert carried(result([EMPTY], duration_s=0.0), 1, ring=64).loss is None


@pytest.mark.parametrize(("gap_max_s", "expected_s"), [(0.5, 0.0), (0.7, 2.0)])
def test_gaps_of_the_engine_count_where_its_rings_cannot_absorb_the_longest(gap_max_s, expected_s):
    steady = msgspec.structs.replace(EMPTY, offered=1000, received=900)
    counts = carried(result([steady], workers=[worker(round(gap_max_s * 1e9), 2_000_000_000)]), 1, ring=64)
    assert counts.engine_gaps_s == expected_s


def test_the_peak_of_memory_is_of_the_time_since_it_was_asked_for():
    earlier = bytearray(64 << 20)
    earlier[:: 1 << 12] = b"1" * len(earlier[:: 1 << 12])
    before = OwnMemory()
    larger = before.peak_bytes()
    del earlier
    now = OwnMemory().peak_bytes()
    if larger is None:
        assert now is None
    else:
        assert now < larger - (32 << 20)


def test_a_kernel_that_cannot_count_anew_gives_no_peak(tmp_path):
    (tmp_path / "clear_refs").mkdir()
    (tmp_path / "status").write_text("VmHWM:\t 100 kB\n")
    assert OwnMemory(str(tmp_path)).peak_bytes() is None
