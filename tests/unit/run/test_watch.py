"""What readings of a running device say together."""

import pytest

from pinchpoint.dut.device import Attached
from pinchpoint.dut.registry import device
from pinchpoint.model.causes import Sign
from pinchpoint.model.errors import InputError
from pinchpoint.model.hops import DropKind
from pinchpoint.model.watch import Reading, RecordHead
from pinchpoint.observe.snapshot import Snapshot
from pinchpoint.report.observed import watch_view
from pinchpoint.run.watch import readings, watched
from pinchpoint.store.codec import SCHEMA

OVS = device("ovs")


def head(variant="dpdk"):
    return RecordHead(SCHEMA, "ovs", variant, "/run/x", ("left", "right"), "here", "")


def reading(elapsed_s=1.0, went_back=(), **more):
    counted = {
        "ovs/port/left/rx_pkts": 1000,
        "ovs/port/right/tx_pkts": 600,
        "ovs/port/right/tx_drop": 300,
        "ovs/port/right/ovs_tx_mtu_exceeded_drops": 300,
        "ovs/pmd/core1/packets_received": 1000,
        "ovs/pmd/core1/packet_recirculations": 1000,
        "ovs/pmd/core1/processing_cycles": 990_000,
        "ovs/pmd/core1/idle_cycles": 10_000,
        **more,
    }
    return Reading(
        0.0, elapsed_s, counted, {"elapsed_s/pmd": elapsed_s, "ovs/rxq/core1/left/0/enabled": 1.0}, went_back
    )


def test_the_path_has_what_each_place_counted_and_lost():
    view = watched(OVS, head(), [reading(), reading()])
    assert view.seconds == 2.0
    assert [hop.name for hop in view.hops] == ["switch receives", "datapath", "switch sends"]
    assert (view.hops[0].frames_in, view.hops[2].frames_in, view.hops[2].frames_out) == (2000, 1800, 1200)
    (drop,) = view.hops[2].drops
    assert (drop.frames, drop.kind) == (600, DropKind.MTU)


def test_causes_are_those_of_a_bench():
    view = watched(OVS, head(), [reading()])
    assert [suspicion.cause for suspicion in view.suspicions] == ["mtu", "recirculation"]
    assert view.signs[Sign.PASSES] == 2.0


def test_a_counter_that_went_back_makes_its_place_unknown_and_is_named():
    view = watched(OVS, head(), [reading(went_back=("ovs/port/left/rx_pkts",))])
    assert view.hops[0].frames_in is None
    assert any("went back" in line for line in watch_view(view).figures)


def test_an_unknown_variant_is_refused():
    with pytest.raises(InputError, match="no datapath 'warp'"):
        watched(OVS, head("warp"), [reading()])
    with pytest.raises(InputError, match="cannot be watched"):
        watched(device("wire"), head(), [reading()])


def test_the_view_lists_every_drop_once_and_rates_a_second():
    view = watch_view(watched(OVS, head(), [reading(ovs_more=1, **{"ovs/port/right/ovs_tx_qos_drops": 0})]))
    columns = {column.key: [cell.text for cell in column.cells] for column in view.path.columns}
    assert columns["place"] == ["switch receives", "datapath", "switch sends"]
    assert columns["drop"] == ["", "", "300 pps"]
    assert columns["reason"][-1] == "larger than the MTU of right"
    assert any(line.startswith("likely: frames larger") for line in view.causes)


def test_nothing_known_is_absent_and_never_zero():
    view = watch_view(watched(OVS, head(), [Reading(0.0, 1.0, {}, {})]))
    assert {cell.text for column in view.path.columns[1:3] for cell in column.cells} == {"-"}


class Counting:
    """A collector whose counter grows by one each time."""

    name = "counting"
    count = 0

    def can_run(self):
        return None

    def snapshot(self):
        self.count += 1
        return Snapshot(float(self.count), {"x": self.count})


def test_readings_follow_each_other_until_it_is_over():
    attached = Attached("p", "dpdk", (), (Counting(),), {}, lambda: None)
    slept, clock = [], iter(range(100))
    made = readings(attached, 2.0, lambda: len(slept) == 3, lambda: float(next(clock)), slept.append)
    assert [reading.differences for reading in made] == [{"x": 1}] * 3
    assert len(slept) == 3
