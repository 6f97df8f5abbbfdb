"""The account of a trial: every frame at a named place, or unexplained."""

from dataclasses import replace

from trials import engine_result, port, stream_counts

from pinchpoint.account import ledger
from pinchpoint.dut.ovs.hops import graph
from pinchpoint.dut.ovs.spec import Datapath

PORTS = ("left", "right")
SEEN = {
    "ovs/port/left/rx_pkts": 990,
    "ovs/port/left/rx_drop": 0,
    "ovs/port/right/tx_pkts": 960,
    "ovs/port/right/tx_drop": 30,
    "ovs/port/right/ovs_tx_failure_drops": 30,
    "ovs/pmd/core1/packets_received": 990,
    "ovs/pmd/main/packets_received": 0,
}


def lossy_engine():
    """1,000 offered, 10 refused by the left ring, 30 lost inside, 960 received."""
    return engine_result(
        streams=[stream_counts(offered=1000, refused=10, received=960)],
        ports=[port("left", sent=990, refused=10), port("right", received=960)],
    )


def hop(account, name):
    return next(hop for hop in account.hops if hop.name == name)


def test_a_trial_with_named_drops_closes():
    account = ledger.build(lossy_engine(), SEEN, PORTS, graph(Datapath.DPDK))
    assert (account.offered, account.received, account.dropped, account.unexplained) == (1000, 960, 40, 0)
    drops = {drop.name: (drop.frames, drop.limits) for hop in account.hops for drop in hop.drops}
    assert drops == {"receive ring of left full": (10, "dut"), "transmit ring of right full": (30, "engine")}


def test_a_full_transmit_queue_of_a_nic_is_the_engines_and_not_the_switchs():
    def refused(*nics):
        account = ledger.build(lossy_engine(), SEEN, PORTS, graph(Datapath.DPDK, frozenset(nics), frozenset(PORTS)))
        return {drop.name: (drop.frames, drop.limits) for drop in hop(account, "engine sends").drops}

    assert refused("left", "right") == {"transmit queue of the engine's NIC left full": (10, "engine")}
    assert refused() == {"receive ring of left full": (10, "dut")}


def test_frames_that_the_engine_had_no_buffer_for_are_the_engines():
    def drops(no_buffers):
        starved = replace(port("left", sent=990, refused=10), stats={"engine_tx_no_buffers": no_buffers})
        engine = replace(lossy_engine(), ports=(starved, port("right", received=960)))
        account = ledger.build(engine, SEEN, PORTS, graph(Datapath.DPDK))
        assert account.unexplained == 0
        return {drop.name: (drop.frames, drop.limits) for drop in hop(account, "engine sends").drops}

    assert drops(10) == {"engine out of buffers for left": (10, "engine")}
    assert drops(4) == {
        "engine out of buffers for left": (4, "engine"),
        "receive ring of left full": (6, "dut"),
    }
    # An unpaced frame without a buffer is offered again: it is no loss.
    assert drops(500) == {"engine out of buffers for left": (10, "engine")}


def test_what_an_ingress_policer_drops_is_the_rules_and_was_received():
    seen = SEEN | {"ovs/port/left/rx_drop": 300, "ovs/port/left/ovs_rx_qos_drops": 300}
    seen |= {"ovs/pmd/core1/packets_received": 690, "ovs/port/right/tx_pkts": 660}
    engine = engine_result(
        streams=[stream_counts(offered=1000, refused=10, received=660)],
        ports=[port("left", sent=990, refused=10), port("right", received=660)],
    )
    account = ledger.build(engine, seen, PORTS, graph(Datapath.DPDK))
    receives = hop(account, "switch receives")
    assert (receives.frames_in, receives.frames_out, account.unexplained) == (990, 690, 0)
    assert [(drop.name, drop.frames, drop.limits) for drop in receives.drops] == [
        ("ingress policer of left", 300, "rules")
    ]


def copied(received, duplicated, policed):
    """1,000 frames that leave twice; the policer behind drops some copies."""
    seen = {
        "ovs/port/left/rx_pkts": 1000,
        "ovs/port/left/rx_drop": 0,
        "ovs/pmd/core1/packets_received": 1000,
        "ovs/port/right/tx_pkts": 2000 - policed,
        "ovs/port/right/tx_drop": policed,
        "ovs/port/right/ovs_tx_qos_drops": policed,
    }
    counts = replace(stream_counts(offered=1000, received=received), duplicated=duplicated)
    ends = [port("left", sent=1000), port("right", received=received + duplicated)]
    return ledger.build(engine_result([counts], ends), seen, PORTS, graph(Datapath.DPDK))


def test_drops_of_copies_cost_no_more_frames_than_there_were_copies():
    # 300 frames lose both copies, 200 lose one: 800 drops for 300 frames and 500 copies.
    account = copied(received=700, duplicated=500, policed=800)
    assert (account.dropped, account.copies, account.unexplained) == (800, 500, 0)
    assert copied(received=700, duplicated=500, policed=1200).unexplained < 0, "more drops than frames and copies"


def test_frames_lost_without_a_name_stay_unexplained_where_the_device_copies():
    assert copied(received=700, duplicated=700, policed=0).unexplained == 300


def test_frames_that_were_not_countable_on_arrival_are_unexplained():
    uncounted = replace(stream_counts(offered=100, received=100), rx_port=None, received=None, lost=None)
    account = ledger.build(engine_result(streams=[uncounted]), {}, PORTS, graph(Datapath.DPDK))
    assert (account.offered, account.unexplained) == (100, 100)


def test_both_directions_and_a_third_port_each_have_their_own_drops_and_the_account_closes():
    """1,000 from left to right, 500 back, 200 from third to right; each loses some at a place of its own."""
    engine = engine_result(
        streams=[
            stream_counts(offered=1000, refused=10, received=960),
            stream_counts(offered=500, refused=0, received=493),
            stream_counts(offered=200, refused=5, received=195),
        ],
        ports=[port("left", 990, 10, 493), port("right", 500, 0, 1155), port("third", 195, 5, 0)],
    )
    seen = {
        "ovs/port/left/rx_pkts": 990,
        "ovs/port/right/rx_pkts": 500,
        "ovs/port/third/rx_pkts": 195,
        "ovs/port/left/tx_pkts": 493,
        "ovs/port/left/tx_drop": 7,
        "ovs/port/left/ovs_tx_failure_drops": 7,
        "ovs/port/right/tx_pkts": 1155,
        "ovs/port/right/tx_drop": 30,
        "ovs/port/right/ovs_tx_failure_drops": 30,
        "ovs/pmd/core1/packets_received": 1685,
    }
    account = ledger.build(engine, seen, ("left", "right", "third"), graph(Datapath.DPDK))
    assert (account.offered, account.received, account.dropped, account.unexplained) == (1700, 1648, 52, 0)
    assert {drop.name: drop.frames for hop in account.hops for drop in hop.drops} == {
        "receive ring of left full": 10,
        "receive ring of third full": 5,
        "transmit ring of left full": 7,
        "transmit ring of right full": 30,
    }
    assert [(hop.frames_in, hop.frames_out) for hop in account.hops] == [
        (1700, 1685),
        (1685, 1685),
        (1685, 1685),
        (1685, 1648),
        (1648, 1648),
    ]


def test_every_hop_says_what_went_in_and_out():
    account = ledger.build(lossy_engine(), SEEN, PORTS, graph(Datapath.DPDK))
    assert [(hop.name, hop.frames_in, hop.frames_out) for hop in account.hops] == [
        ("engine sends", 1000, 990),
        ("switch receives", 990, 990),
        ("datapath", 990, 990),
        ("switch sends", 990, 960),
        ("engine receives", 960, 960),
    ]


def test_a_drop_no_counter_names_stays_unexplained():
    seen = SEEN | {"ovs/port/right/tx_drop": 0, "ovs/port/right/ovs_tx_failure_drops": 0}
    assert ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK)).unexplained == 30


def test_a_transmit_drop_without_a_reason_is_named_as_such():
    seen = {name: value for name, value in SEEN.items() if "failure" not in name}
    account = ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK))
    assert hop(account, "switch sends").drops[0].name == "dropped on transmit, reason not counted"
    assert account.unexplained == 0


def test_datapath_drops_come_from_coverage_counters():
    seen = SEEN | {"ovs/coverage/datapath_drop_upcall_error": 7, "ovs/coverage/flow_extract": 5}
    drops = hop(ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK)), "datapath").drops
    assert [(drop.name, drop.frames) for drop in drops] == [("datapath drop upcall error", 7)]


def test_only_what_the_rules_ask_for_is_put_down_to_them():
    counters = ("drop_action_of_pipeline", "drop_action_recursion_too_deep", "datapath_drop_meter")
    seen = SEEN | {f"ovs/coverage/{name}": 7 for name in counters}
    drops = hop(ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK)), "datapath").drops
    assert {drop.name: drop.limits for drop in drops} == {
        "drop action of pipeline": "rules",
        "drop action recursion too deep": "dut",
        "datapath drop meter": "rules",
    }


def test_what_cannot_be_counted_is_none_and_never_zero():
    account = ledger.build(lossy_engine(), {}, PORTS, graph(Datapath.DPDK))
    assert hop(account, "switch receives").frames_in is None
    assert hop(account, "datapath").frames_out is None
    assert account.unexplained == 30


def test_corrupt_frames_are_a_named_drop():
    result = engine_result(
        streams=[stream_counts(offered=100, received=98, corrupt=2)],
        ports=[port("left", sent=100), port("right", received=100)],
    )
    account = ledger.build(result, {}, PORTS, graph(Datapath.DPDK))
    assert account.unexplained == 0
    assert hop(account, "engine receives").drops[0].name == "arrived corrupt"


def test_over_veth_the_kernels_own_drops_are_named():
    seen = {
        "host/link/engine/left/tx_packets": 1000,
        "host/link/dut/left/rx_packets": 1000,
        "host/socket/left/drops": 200,
        "ovs/port/left/rx_pkts": 1000,
        "ovs/pmd/main/packets_received": 800,
        "ovs/port/right/tx_pkts": 800,
    }
    result = engine_result(
        streams=[stream_counts(offered=1000, received=790)],
        ports=[port("left", sent=1000), port("right", received=790, rx_missed=10)],
    )
    account = ledger.build(result, seen, PORTS, graph(Datapath.AF_PACKET))
    drops = {drop.name: (drop.frames, drop.limits) for hop in account.hops for drop in hop.drops}
    assert drops == {"packet socket of left full": (200, "dut"), "engine missed on right": (10, "engine")}
    assert account.unexplained == 0
    assert (hop(account, "switch reads").frames_in, hop(account, "switch reads").frames_out) == (1000, 800)


def test_over_af_xdp_sockets_what_their_rings_had_no_room_for_is_the_switchs_loss():
    seen = {
        "host/link/engine/left/tx_packets": 1000,
        "host/link/dut/left/rx_packets": 1000,
        "host/link/dut/left/rx_dropped": 400,  # those that met a full receive ring, and an empty fill ring
        "ovs/port/left/xsk_queue_0_rx_dropped": 150,  # only the former
        "ovs/port/left/rx_pkts": 1000,
        "ovs/port/left/rx_drop": 400,
        "ovs/pmd/core1/packets_received": 600,
        "ovs/port/right/tx_pkts": 600,
    }
    result = engine_result(
        streams=[stream_counts(offered=1000, received=600)],
        ports=[port("left", sent=1000), port("right", received=600)],
    )
    account = ledger.build(result, seen, PORTS, graph(Datapath.AF_XDP))
    drops = {drop.name: (drop.frames, drop.limits) for hop in account.hops for drop in hop.drops}
    assert drops == {"AF_XDP rings of left full": (400, "dut")}
    assert account.unexplained == 0
    assert [(hop.name, hop.frames_in, hop.frames_out) for hop in account.hops] == [
        ("engine sends", 1000, 1000),
        ("veth", 1000, 1000),
        ("switch reads", 1000, 600),
        ("datapath", 600, 600),
        ("switch sends", 600, 600),
        ("queueing disciplines", None, None),  # a veth has none that counts
        ("engine receives", 600, 600),
    ]


def test_the_kernels_datapath_is_counted_at_its_ports_as_no_thread_of_the_switch_sees_a_frame():
    seen = {"ovs/port/left/rx_pkts": 1000, "ovs/port/right/tx_pkts": 1000, "ovs/pmd/main/packets_received": 0}
    result = engine_result(streams=[stream_counts(offered=1000, received=1000)])
    account = ledger.build(result, seen, PORTS, graph(Datapath.KERNEL))
    assert (hop(account, "datapath").frames_in, hop(account, "datapath").frames_out) == (1000, 1000)


def test_upcalls_that_the_kernels_datapath_lost_are_a_named_drop():
    result = engine_result(streams=[stream_counts(offered=1000, received=960)])
    seen = {"ovs/lookups/lost": 40, "ovs/lookups/missed": 500}
    account = ledger.build(result, seen, PORTS, graph(Datapath.KERNEL))
    assert [(drop.frames, drop.counter, drop.limits) for drop in hop(account, "datapath").drops] == [
        (40, "ovs/lookups/lost", "dut")
    ]
    assert account.unexplained == 0


def test_in_userspace_lost_upcalls_are_counted_by_coverage_and_not_twice():
    seen = SEEN | {"ovs/lookups/lost": 7, "ovs/coverage/datapath_drop_upcall_error": 7}
    drops = hop(ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK)), "datapath").drops
    assert sum(drop.frames for drop in drops) == 7


def test_a_counter_that_went_back_is_named_and_makes_no_sum_that_is_too_small():
    two_way = SEEN | {"ovs/port/right/rx_pkts": 500, "ovs/port/right/rx_drop": 3}
    seen = {name: value for name, value in two_way.items() if not name.startswith("ovs/port/left/")}
    back = (
        "host/cpu/1/steal_ticks",
        "ovs/pmd/core1/subtable_lookups",
        "ovs/port/left/rx_drop",
        "ovs/port/left/rx_pkts",
    )
    account = ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK), back)
    assert account.resets == ("ovs/port/left/rx_drop", "ovs/port/left/rx_pkts"), "those that the account reads"
    received = hop(account, "switch receives")
    assert (received.frames_in, received.frames_out) == (None, None)
    assert [drop.frames for drop in received.drops] == [3]
    assert ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK)).resets == ()


def test_a_reset_of_a_packet_thread_hides_what_the_datapath_read():
    back = ("ovs/pmd/core1/packets_received",)
    seen = {name: value for name, value in SEEN.items() if name not in back}
    assert hop(ledger.build(lossy_engine(), seen, PORTS, graph(Datapath.DPDK), back), "datapath").frames_in is None


def test_further_copies_of_a_frame_make_up_for_no_lost_one():
    """The port delivered as many frames as were sent: 99 distinct ones, and a copy of one of them."""
    counts = replace(stream_counts(offered=100, received=99), duplicated=1)
    result = engine_result(streams=[counts], ports=[port("left", sent=100), port("right", received=100)])
    account = ledger.build(result, {}, PORTS, graph(Datapath.DPDK))
    assert (account.received, account.unexplained) == (99, 1)
