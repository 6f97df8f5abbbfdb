"""Parsers of what Open vSwitch prints: real output of OVS 3.1 and 2.17, and any text at all."""

from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.dut.ovs import text as ovs_text
from pinchpoint.dut.ovs.flows import datapath_flow_counts

PMD_STATS = """\
pmd thread numa_id 0 core_id 1:
  packets received: 4200123
  packet recirculations: 4200000
  avg. datapath passes per packet: 2.00
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 0
  emc hits: 8300100
  smc hits: 0
  megaflow hits: 99000
  avg. subtable lookups per megaflow hit: 1.50
  miss with success upcall: 21
  miss with failed upcall: 2
  avg. packets per output batch: 28.30
  idle cycles: 163526448255 (60.00%)
  processing cycles: 109017632170 (40.00%)
  avg cycles per packet: 64888.60 (272544080425/4200123)
main thread:
  packets received: 7
  packet recirculations: 0
"""

PMD_PERF = """\

Time: 10:57:07.869
Measurement duration: 62.987 s

pmd thread numa_id 0 core_id 1:

  Iterations:            964256450  (0.07 us/it)
  - Used TSC cycles:  163513311470  ( 99.8 % of total cycles)
  - idle iterations:     964256451  (100.0 % of used cycles)
  - busy iterations:             5  (  0.0 % of used cycles)
  - sleep iterations:            0  (  0.0 % of iterations)
  Sleep time (us):               0  (  0 us/iteration avg.)
  Rx packets:              2399607  (2400 Kpps, 240 cycles/pkt)
  Datapath passes:         3599415  (1.50 passes/pkt)
  - EMC hits:               336472  (  9.3 %)
  - Upcalls:                     0  (  0.0 %, 0.0 us/upcall)
  Tx packets:              2399607  (2400 Kpps)
"""

PORTS = """\
OFPST_PORT reply (OF1.4) (xid=0x2): 3 ports
  port  1: rx pkts=1000, bytes=60000, drop=3, errs=0, frame=?, over=?, crc=?
           tx pkts=0, bytes=0, drop=0, errs=0, coll=?
           duration=63.002s
           CUSTOM Statistics
                      ovs_tx_retries=4, ovs_tx_failure_drops=0, ovs_tx_mtu_exceeded_drops=0,
                      ovs_tx_qos_drops=0, ovs_rx_qos_drops=0, ovs_tx_invalid_hwol_drops=0,
  port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=0, errs=0, coll=0
           duration=63.002s
  port  2: rx pkts=?, bytes=?, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=990, bytes=59400, drop=7, errs=0, coll=?
           duration=63.001s
"""


def test_pmd_stats_are_read_by_thread_without_averages():
    threads = ovs_text.thread_counters(PMD_STATS)
    assert threads["core1"] == {
        "packets_received": 4200123,
        "packet_recirculations": 4200000,
        "phwol_hits": 0,
        "mfex_opt_hits": 0,
        "simple_match_hits": 0,
        "emc_hits": 8300100,
        "smc_hits": 0,
        "megaflow_hits": 99000,
        "miss_with_success_upcall": 21,
        "miss_with_failed_upcall": 2,
        "idle_cycles": 163526448255,
        "processing_cycles": 109017632170,
    }
    assert threads["main"] == {"packets_received": 7, "packet_recirculations": 0}


def test_subtable_lookups_are_the_printed_average_times_the_hits():
    assert ovs_text.subtable_lookups(PMD_STATS) == {"core1": 148_500}


def test_perf_show_is_read_by_thread():
    perf = ovs_text.thread_counters(PMD_PERF)["core1"]
    assert perf["iterations"] == 964256450
    assert perf["used_tsc_cycles"] == 163513311470
    assert perf["busy_iterations"] == 5
    assert perf["rx_packets"] == 2399607
    assert perf["emc_hits"] == 336472
    assert perf["sleep_time"] == 0


def test_port_counters_keep_direction_and_leave_out_what_cannot_be_counted():
    ports = ovs_text.port_counters(PORTS)
    assert ports["1"]["rx_pkts"] == 1000
    assert ports["1"]["rx_drop"] == 3
    assert ports["1"]["ovs_tx_retries"] == 4
    assert "rx_frame" not in ports["1"]
    assert "rx_pkts" not in ports["2"], "a `?` is missing, not zero"
    assert ports["2"]["tx_pkts"] == 990
    assert ports["2"]["tx_drop"] == 7
    assert not any("duration" in name for counters in ports.values() for name in counters)


def test_receive_queues_tell_enabled_and_usage():
    text = (
        "Displaying last 5 seconds pmd usage %\n"
        "pmd thread numa_id 0 core_id 1:\n  isolated : false\n"
        "  port: left              queue-id:  0 (enabled)   pmd usage: 41 %\n"
        "  port: right             queue-id:  1 (disabled)  pmd usage: NOT AVAIL\n"
        "  overhead:  1 %\n"
    )
    assert ovs_text.receive_queues(text) == {
        ("core1", "left", 0): (True, 41),
        ("core1", "right", 1): (False, None),
    }


def test_coverage_totals_are_read():
    text = (
        "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=6b4ed9ea:\n"
        "bridge_reconfigure         0.0/sec     0.050/sec        0.0008/sec   total: 3\n"
        "datapath_drop_upcall_error 0.0/sec     0.017/sec        0.0003/sec   total: 12\n"
        "110 events never hit\n"
    )
    assert ovs_text.coverage(text) == {"bridge_reconfigure": 3, "datapath_drop_upcall_error": 12}


def test_flow_and_upcall_state_are_read():
    shown = "netdev@ovs-netdev:\n  lookups: hit:12 missed:3 lost:1\n  flows: 2\n  port 0: ovs-netdev (tap)\n"
    upcall = (
        "netdev@ovs-netdev:\n  flows         : (current 5) (avg 3) (max 9) (limit 10000)\n"
        "  dump duration : 17ms\n  ufid enabled : true\n"
    )
    assert ovs_text.datapath_lookups(shown) == {"hit": 12, "missed": 3, "lost": 1}
    assert ovs_text.datapath_flows(shown) == 2
    assert ovs_text.upcall_state(upcall) == {"flows": 5, "flow_limit": 10000, "dump_duration_ms": 17}


# OVS 3.1 with `-m`, shortened in nothing: two connections of one kind, and a broadcast.
FLOWS = """\
flow-dump from the main thread:
ufid:79fc7cac-d6e1-4ffb-ba35-0dae82791025, skb_priority(0/0),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),ct_mark(0/0),ct_label(0/0),recirc_id(0),dp_hash(0/0),in_port(hr),packet_type(ns=0,id=0),eth(src=fe:47:20:3f:7a:e0,dst=f2:51:3e:d7:e1:db),eth_type(0x0800),ipv4(src=192.168.7.2/0.0.0.0,dst=192.168.7.1/0.0.0.0,proto=6/0,tos=0/0x3,ttl=64/0,frag=no),tcp(src=7000/0,dst=49740/0),tcp_flags(0/0), packets:1791, bytes:143158, used:0.008s, flags:F., dp:ovs, actions:hl, dp-extra-info:miniflow_bits(5,1)
ufid:7e619eb9-8081-487d-bd32-2e7061db9da7, skb_priority(0/0),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),ct_mark(0/0),ct_label(0/0),recirc_id(0),dp_hash(0/0),in_port(hl),packet_type(ns=0,id=0),eth(src=f2:51:3e:d7:e1:db,dst=fe:47:20:3f:7a:e0),eth_type(0x0800),ipv4(src=192.168.7.1/0.0.0.0,dst=192.168.7.2/0.0.0.0,proto=6/0,tos=0/0x3,ttl=64/0,frag=no),tcp(src=49740/0,dst=7000/0),tcp_flags(0/0), packets:2075, bytes:3136950, used:0.008s, offloaded:partial, flags:FP., dp:ovs, actions:hr, dp-extra-info:miniflow_bits(5,1)
ufid:cc481a44-6ec2-4075-93d0-5f3ca7442540, skb_priority(0/0),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),ct_mark(0/0),ct_label(0/0),recirc_id(0),dp_hash(0/0),in_port(hl),packet_type(ns=0,id=0),eth(src=f2:51:3e:d7:e1:db,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),arp(sip=192.168.7.1,tip=192.168.7.2,op=1,sha=f2:51:3e:d7:e1:db/00:00:00:00:00:00,tha=00:00:00:00:00:00/00:00:00:00:00:00), packets:0, bytes:0, used:never, offloaded:yes, dp:tc, actions:br0, dp-extra-info:miniflow_bits(5,2)
"""  # noqa: E501


def masks_of(text):
    return {flow.mask for flow in datapath_flow_counts(text).values()}


def test_flows_of_one_kind_share_a_mask_and_offload_is_as_claimed():
    flows = datapath_flow_counts(FLOWS)
    assert len(masks_of(FLOWS)) == 2
    assert [(flow.packets, flow.offload) for flow in flows.values()] == [(1791, "no"), (2075, "partial"), (0, "yes")]
    assert all(name.startswith("the main thread ") for name in flows)


def test_the_same_flow_matched_by_fewer_bits_is_another_mask():
    other = FLOWS.splitlines()[1].replace("ufid:79", "ufid:80")
    wider = other.replace("dst=192.168.7.1/0.0.0.0", "dst=192.168.7.0/255.255.255.0")
    assert len(masks_of(FLOWS + wider)) == 3
    assert len(masks_of(FLOWS + other.replace("tos=0/0x3", "tos=0x2/0x3"))) == 2


_PARSERS = (
    datapath_flow_counts,
    ovs_text.thread_counters,
    ovs_text.receive_queues,
    ovs_text.subtable_lookups,
    ovs_text.coverage,
    ovs_text.port_counters,
    ovs_text.datapath_lookups,
    ovs_text.datapath_flows,
    ovs_text.upcall_state,
)
_LINES = st.sampled_from((PMD_STATS + PMD_PERF + PORTS + FLOWS).splitlines()) | st.text(max_size=80)


@given(st.lists(_LINES, max_size=30).map("\n".join))
def test_no_text_makes_a_parser_fail(text):
    for parser in _PARSERS:
        parser(text)


@given(st.text())
def test_nothing_is_found_in_what_ovs_did_not_print(text):
    assert ovs_text.datapath_flows(text.replace("flows", "")) is None
    assert ovs_text.thread_counters(text.replace("thread", "")) == {}
