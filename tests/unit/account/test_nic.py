"""What NICs count, by the names that their drivers have for it; and who is responsible for what they drop."""

from dataclasses import replace

import pytest
from trials import engine_result, port, stream_counts

from pinchpoint.account import ledger
from pinchpoint.dut.ovs.hops import graph
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.model.hops import DropKind
from pinchpoint.model.units import wire_bits

# Names as the drivers of DPDK 22.11 list them; values made up.
DRIVERS = {
    "e1000": ({"rx_missed_errors": 3, "rx_crc_errors": 2, "rx_errors": 4, "rx_xoff_packets": 5, "tx_xoff_packets": 6},
              (0, 4, 0, 5)),
    "i40e and ice": ({"rx_crc_errors": 2, "rx_errors": 2, "rx_xoff_packets": 7, "rx_xon_packets": 9, "rx_q0_bytes": 1},
                     (0, 2, 0, 7)),
    "ixgbe": ({"rx_flow_control_xoff_packets": 8, "rx_xoff_packets": 8, "rx_mbuf_allocation_errors": 1},
              (1, 0, 0, 8)),
    "bnxt": ({"rx_pause_frames": 2, "tx_pause_frames": 1, "rx_pfc_ena_frames_pri0": 40},
             (0, 0, 0, 2)),
    "mlx5": ({"rx_phy_discard_packets": 11, "rx_phy_crc_errors": 1, "rx_out_of_buffer": 12, "rx_phy_packets": 99},
             (0, 1, 11, 0)),
    "mlx5 by ethtool": ({"rx_discards_phy": 11, "rx_crc_errors_phy": 1, "rx_pause_ctrl_phy": 4, "tx_discards_phy": 50},
                        (0, 1, 11, 4)),
    "virtio and vmxnet3": ({"rx_good_packets": 5, "rx_q0_size_64_packets": 5, "rx_missed_errors": 0},
                           (0, 0, 0, 0)),
    "hostile": ({"": 1, "rx_xoff_packets_": 9, "XRX_XOFF_PACKETS": 9, "rx_crc_errors\n": 7, "rx_errors": -1},
                (0, 0, 0, 0)),
}  # fmt: skip
PORTS = ("left", "right")
BETWEEN_NICS = graph(Datapath.DPDK, frozenset(PORTS), frozenset(PORTS))


@pytest.mark.parametrize("driver", DRIVERS)
def test_each_drivers_names_mean_the_same(driver):
    stats, meant = DRIVERS[driver]
    counters = (ledger.NO_BUFFERS, ledger.DAMAGED, ledger.DISCARDED, ledger.PAUSES)
    assert tuple(ledger.nic_count(stats, names) for names in counters) == meant


def sent(tx_share=0.5, rx_share=0.1, stats=None, refused=10):
    """1,000 frames for the NIC `left`, of which its transmit queue refused some."""
    left = replace(
        port("left", 1000 - refused, refused, 0),
        speed_bps=10**9,
        tx_share=tx_share,
        rx_share=rx_share,
        stats=stats or {},
    )
    return engine_result([stream_counts(offered=1000, refused=refused, received=1000 - refused)],
                         [left, port("right", 0, 0, 1000 - refused)])  # fmt: skip


def only_drop(engine, seen=None):
    account = ledger.build(engine, seen or {}, PORTS, BETWEEN_NICS)
    assert account.unexplained == 0
    (drop,) = [drop for hop in account.hops for drop in hop.drops]
    return drop.name, drop.frames, drop.limits, drop.kind


def test_what_a_full_link_refuses_is_the_wires():
    assert only_drop(sent(tx_share=0.995)) == ("the link of left is full", 10, "wire", DropKind.TRANSMIT_RING)


def test_what_a_link_with_room_refuses_is_the_engines():
    name = "transmit queue of the engine's NIC left full"
    assert only_drop(sent(tx_share=0.8, rx_share=0.999)) == (name, 10, "engine", DropKind.TRANSMIT_RING)


def test_what_a_nic_refuses_that_was_asked_to_wait_is_the_devices():
    name = "the device's NIC asked left to wait (pause frames)"
    assert only_drop(sent(stats={"rx_xoff_packets": 3})) == (name, 10, "dut", DropKind.RECEIVE_RING)


def received(stats, rx_missed=0, lost=0):
    right = replace(
        port("right", 0, 0, 1000 - lost, rx_missed), speed_bps=10**9, tx_share=0.0, rx_share=0.1, stats=stats
    )
    return engine_result([stream_counts(offered=1000, received=1000 - lost)], [port("left", 1000), right])


@pytest.mark.parametrize(
    ("stats", "missed", "drop"),
    [
        ({}, 7, ("engine missed on right", 7, "engine", DropKind.TRANSMIT_RING)),
        (
            {"rx_mbuf_allocation_errors": 90},
            7,
            ("engine out of buffers to receive on right", 7, "engine", DropKind.BUFFERS),
        ),
        ({"rx_errors": 7}, 0, ("damaged on the way to the engine's NIC right", 7, "wire", DropKind.MALFORMED)),
        (
            {"rx_discards_phy": 7},
            0,
            ("the engine's NIC right had no room before its queues", 7, "engine", DropKind.TRANSMIT_RING),
        ),
    ],
)
def test_what_the_engines_nic_lost_is_named_with_who_is_responsible(stats, missed, drop):
    assert only_drop(received(stats, missed, lost=7)) == drop


def test_the_switchs_nic_names_what_it_lost_once():
    seen = {
        "ovs/port/left/rx_pkts": 970,
        "ovs/port/left/rx_drop": 30,
        "ovs/port/left/rx_errs": 0,
        "ovs/port/left/rx_missed_errors": 28,
        "ovs/port/left/rx_mbuf_allocation_errors": 2,
        "ovs/pmd/core1/packets_received": 970,
        "ovs/port/right/tx_pkts": 970,
        "ovs/port/right/tx_drop": 0,
    }
    engine = engine_result([stream_counts(offered=1000, received=970)], [port("left", 1000), port("right", 0, 0, 970)])
    account = ledger.build(engine, seen, PORTS, BETWEEN_NICS)
    assert account.unexplained == 0
    assert {drop.name: (drop.frames, drop.kind) for hop in account.hops for drop in hop.drops} == {
        "receive queues of the NIC left full": (28, DropKind.RECEIVE_RING),
        "no buffer on left": (2, DropKind.BUFFERS),
    }
    assert account.hops[1].frames_in == 1000


def test_what_a_nic_drops_for_no_reason_that_it_names_does_not_hide_behind_damaged_frames():
    seen = {
        "ovs/port/left/rx_pkts": 966,
        "ovs/port/left/rx_drop": 30,
        "ovs/port/left/rx_errs": 4,
        "ovs/port/left/rx_missed_errors": 20,
        "ovs/pmd/core1/packets_received": 966,
        "ovs/port/right/tx_pkts": 966,
        "ovs/port/right/tx_drop": 0,
    }
    engine = engine_result([stream_counts(offered=1000, received=966)], [port("left", 1000), port("right", 0, 0, 966)])
    account = ledger.build(engine, seen, PORTS, BETWEEN_NICS)
    assert account.unexplained == 0
    assert {drop.name: (drop.frames, drop.port) for hop in account.hops for drop in hop.drops} == {
        "receive queues of the NIC left full": (20, "left"),
        "damaged on the way to left": (4, "left"),
        "left dropped on receive": (10, "left"),
    }


MIXED = graph(Datapath.DPDK, frozenset({"left"}), frozenset(PORTS))


def test_beside_a_nic_a_vhost_user_port_keeps_its_own_words_and_counters():
    seen = {
        "ovs/port/left/rx_pkts": 960,
        "ovs/port/left/rx_drop": 28,
        "ovs/port/left/rx_errs": 2,
        "ovs/port/left/rx_missed_errors": 28,
        "ovs/port/left/tx_pkts": 470,
        "ovs/port/left/tx_drop": 20,
        "ovs/port/left/ovs_tx_failure_drops": 20,
        "ovs/port/right/rx_pkts": 490,
        "ovs/port/right/rx_drop": 5,
        "ovs/port/right/rx_errs": 4,
        "ovs/port/right/tx_pkts": 950,
        "ovs/port/right/tx_drop": 10,
        "ovs/port/right/ovs_tx_failure_drops": 10,
        "ovs/pmd/core1/packets_received": 1450,
    }
    ends = [port("left", 990, 10, 470), port("right", 495, 5, 950)]
    streams = [
        stream_counts(offered=1000, refused=10, received=950),
        stream_counts(offered=500, refused=5, received=470),
    ]
    account = ledger.build(engine_result(streams, ends), seen, PORTS, MIXED)
    assert {drop.name: (drop.frames, drop.limits) for hop in account.hops for drop in hop.drops} == {
        "transmit queue of the engine's NIC left full": (10, "engine"),
        "receive ring of right full": (5, "dut"),
        "right dropped on receive": (5, "dut"),
        "receive queues of the NIC left full": (28, "dut"),
        "damaged on the way to left": (2, "wire"),
        "transmit queues of the NIC left full": (20, "dut"),
        "transmit ring of right full": (10, "engine"),
    }
    assert [hop.name for hop in account.hops] == [
        "engine sends",
        "switch receives",
        "datapath",
        "switch sends",
        "engine receives",
    ]
    (received,) = [hop for hop in account.hops if hop.name == "switch receives"]
    assert received.frames_in == 990 + 495
    assert account.unexplained == 0


def test_a_count_that_one_kind_of_port_lacks_leaves_the_place_unknown():
    account = ledger.build(sent(), {"ovs/port/left/rx_pkts": 990}, PORTS, MIXED)
    assert account.hops[1].frames_in is None
    only_left = ledger.build(sent(), {"ovs/port/left/rx_pkts": 990}, ("left",), MIXED)
    assert only_left.hops[1].frames_in == 990


@pytest.mark.parametrize(
    ("speed_bps", "frame_bytes", "fps"),
    [(10e9, 64, 14_880_952), (1e9, 64, 1_488_095), (10e9, 1518, 812_743), (100e9, 64, 148_809_523)],
)
def test_line_rates_are_those_of_rfc_2544(speed_bps, frame_bytes, fps):
    assert int(speed_bps / wire_bits(frame_bytes)) == fps
