"""What people have of a switch is read by the collectors of a running one; what is missing is said; no text harms."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.dut.ovs import texts
from pinchpoint.dut.registry import device
from pinchpoint.model.causes import Sign
from pinchpoint.report.observed import watch_view
from pinchpoint.run.watch import of_texts, watched

OVS = device("ovs")
STATS = (Path(__file__).parent / "recorded" / "ovs-pmd-stats.txt").read_text()
PERF = """\
Time: 10:57:07.869
Measurement duration: 60.000 s

pmd thread numa_id 0 core_id 2:

  Iterations:              1000000  (60.00 us/iter)
  - Used TSC cycles:  100000000000  (100.0 % of total cycles)
  - idle iterations:        900000  ( 40.0 % of used cycles)
  - busy iterations:        100000  ( 60.0 % of used cycles)
  Rx packets:              2000000  (33 Kpps, 30000 cycles/pkt)
  Datapath passes:         3000000  (1.50 passes/pkt)
  - EMC hits:               300000  ( 10.0 %)
  - SMC hits:                    0  (  0.0 %)
  - Megaflow hits:         2640000  ( 88.0 %, 4.00 subtbl lookups/hit)
  - Upcalls:                 60000  (  2.0 %, 300.0 us/upcall)
  - Lost upcalls:                0  (  0.0 %)
  Tx packets:              2000000  (33 Kpps)
"""
QUEUES = """\
pmd thread numa_id 0 core_id 2:
  isolated : false
  port: left              queue-id:  0 (enabled)   pmd usage: 41 %
  overhead:  1 %
"""
COVERAGE = """\
Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=6b4ed9ea:
drop_action_of_pipeline    0.0/sec     0.050/sec        0.0008/sec   total: 500
110 events never hit
"""
PORTS = """\
OFPST_PORT reply (OF1.3) (xid=0x2): 3 ports
  port  1: rx pkts=9001000, bytes=60000, drop=0, errs=0, frame=?, over=?, crc=?
           tx pkts=0, bytes=0, drop=0, errs=0, coll=?
           duration=63.002s
  port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=0, errs=0, coll=0
           duration=63.002s
  port  2: rx pkts=0, bytes=?, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=8990000, bytes=59400, drop=9500, errs=0, coll=?
           duration=63.001s
  port  3: rx pkts=7, bytes=?, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=7, bytes=59400, drop=0, errs=0, coll=?
           duration=63.001s
"""
DESCRIPTIONS = """\
OFPST_PORT_DESC reply (OF1.3) (xid=0x2):
 1(left): addr:00:00:00:00:00:01
     config:     0
 2(right): addr:00:00:00:00:00:02
 3(vx0): addr:00:00:00:00:00:04
 LOCAL(br0): addr:00:00:00:00:00:03
"""
SHOW = """\
f3a7
    Bridge br0
        Port vx0
            Interface vx0
                type: vxlan
                options: {remote_ip="10.0.0.1"}
        Port left
            Interface left
                type: dpdkvhostuserclient
    ovs_version: "3.1.0"
"""
FLOWS = """\
flow-dump from pmd on cpu core: 2
ufid:79fc7cac-d6e1-4ffb-ba35-0dae82791025, recirc_id(0),in_port(left),eth_type(0x0800),ipv4(proto=17,frag=no), packets:1791, bytes:143158, used:0.008s, dp:ovs, actions:right
"""  # noqa: E501


def said(**files):
    """What these texts say, by file."""
    found = of_texts(OVS, "a folder", files, {})
    return found and watched(OVS, found.head, found.readings)


def test_pmd_stats_show_names_a_busy_thread_and_what_it_is_busy_with():
    found = said(stats=STATS)
    (thread,) = found.threads
    assert (thread.name, thread.received) == ("PMD core 2", 9_000_000)
    assert thread.busy_share == pytest.approx(0.99)
    assert found.signs[Sign.PASSES] == 2.0
    assert found.signs[Sign.SUBTABLES] == pytest.approx(5.38)
    assert [one.cause for one in found.suspicions] == ["masks", "recirculation"]
    view = watch_view(found)
    cells = {column.key: [cell.text for cell in column.cells] for column in view.threads.columns}
    assert (cells["busy"], cells["passes"], cells["received"]) == (["99.0 %"], ["2.00"], ["9,000,000"])
    assert view.about.startswith("totals"), "how long it counted is not known: no rates"
    assert "missing: coverage/show (would show what the datapath dropped)" in view.figures


def test_each_output_is_known_by_its_own_lines_however_the_files_are_called():
    together = {"a": STATS + QUEUES + COVERAGE, "dump-ports_br0": PORTS, "c": DESCRIPTIONS + SHOW, "d": FLOWS}
    found = said(**together)
    assert found.missing == {}
    assert found.threads[0].ports == ("left",)
    receives, datapath, sends = found.hops
    assert (receives.frames_in, receives.frames_out) == (9_001_000, 9_000_000), "the tunnel's frames are others' too"
    assert [(drop.frames, drop.kind) for drop in datapath.drops] == [(500, "rule")]
    assert datapath.unexplained == 9_000_000 - 8_990_000 - 9_500 - 500
    assert [(drop.name, drop.frames) for drop in sends.drops] == [("dropped on transmit, reason not counted", 9_500)]
    one_file = said(all="\n".join(together.values()))
    assert (one_file.hops, one_file.threads) == (found.hops, found.threads)


def test_pmd_perf_show_alone_says_the_same_of_threads_as_pmd_stats_show():
    (thread,) = said(perf=PERF).threads
    assert thread.busy_share == pytest.approx(0.6)
    assert (thread.received, thread.recirculated, thread.slow_path) == (2_000_000, 1_000_000, 60_000)
    found = said(perf=PERF)
    assert found.signs[Sign.SUBTABLES] == pytest.approx(4.0)
    assert found.signs[Sign.SLOW_PATH_TIME] == pytest.approx(60_000 * 300e-6 / (60.0 * 0.6))


def test_without_the_time_that_was_measured_nothing_is_said_of_time_spent():
    found = said(perf=PERF.replace("Measurement duration", "Measured"))
    assert Sign.SLOW_PATH_TIME not in found.signs
    assert found.threads[0].busy_share == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("show", "told"),
    [
        (SHOW, "dpdk"),
        (SHOW.replace("dpdkvhostuserclient", "afxdp"), "af_xdp"),
        (SHOW + SHOW.replace("dpdkvhostuserclient", "afxdp").replace("left", "right"), "dpdk"),
        ("", None),
    ],
)
def test_which_datapath_polls_the_types_of_ports_tell_and_nothing_else(show, told):
    assert of_texts(OVS, "", {"a": STATS, "b": show}, {}).head.facts.get("datapath") == told


def test_the_bridges_own_port_is_known_however_it_is_written():
    for own in ("LOCAL", "local"):
        texts = {"ports": PORTS.replace("LOCAL", own), "names": DESCRIPTIONS.replace("LOCAL", own)}
        assert set(of_texts(OVS, "", texts, {}).head.ports) == {"left", "right", "vx0", "br0"}


def test_without_a_dump_of_flows_nothing_is_said_of_masks():
    found = of_texts(OVS, "", {"show": "netdev@ovs-netdev:\n  lookups: hit:5 missed:1 lost:0\n  flows: 7\n"}, {})
    assert not [name for name in found.readings[0].gauges if "masks" in name or "offload" in name]
    assert "dpctl/dump-flows -m" in found.head.missing
    assert of_texts(OVS, "", {"flows": FLOWS}, {}).readings[0].gauges["ovs/exercised/flows"] == 1.0


@pytest.mark.parametrize("text", ["", "no switch printed this\n", "main thread\n", "port 1: up\n"])
def test_what_no_switch_printed_is_nothing(text):
    assert of_texts(OVS, "", {"x": text}, {}) is None


_LINES = st.sampled_from((STATS + PERF + QUEUES + COVERAGE + PORTS + DESCRIPTIONS + SHOW + FLOWS).splitlines())


@given(st.dictionaries(st.text(max_size=8), st.lists(_LINES | st.text(max_size=60), max_size=30).map("\n".join)))
def test_no_texts_make_the_reading_fail(files):
    if (found := of_texts(OVS, "", files, {})) is not None:
        watch_view(watched(OVS, found.head, found.readings))


@given(st.permutations((STATS + QUEUES, COVERAGE, FLOWS, SHOW)))
def test_the_order_of_outputs_does_not_matter(parts):
    assert said(all="\n".join(parts)) == said(all=STATS + QUEUES + COVERAGE + FLOWS + SHOW)


@pytest.mark.parametrize("unit", [" ", "a", "(", "=", "-", "9", "a=", " a", "\t:", "\n", "\x0b", "ufid:0, a(x), "])
@pytest.mark.parametrize("begin", ["", "pmd thread numa_id 0 core_id 2:\n  ", "  port 1: rx pkts=1, ", "zone="])
def test_long_lines_cost_no_more_than_their_length(begin, unit):
    began = time.process_time()
    texts.read({"x": begin + unit * (400_000 // len(unit))})
    texts.read({"x": (begin + unit * (8_000 // len(unit)) + "\n") * 10})
    assert time.process_time() - began < 5.0


def _dump(received):
    lines = (f"  port  {port}: rx pkts={received}, drop=0\n           tx pkts=0, drop=0\n" for port in ("LOCAL", 1))
    return "OFPST_PORT reply (OF1.3) (xid=0x2): 2 ports\n" + "".join(lines)


def test_ports_of_a_second_bridge_do_not_replace_those_of_the_first():
    both = texts.read({"ports.txt": _dump(100) + _dump(5)})
    assert sorted(both.ports) == ["bridge 1:1", "bridge 1:LOCAL", "bridge 2:1", "bridge 2:LOCAL"]
    received = {name: count for name, count in both.counters.items() if name.endswith("/rx_pkts")}
    assert sum(received.values()) == 210
    parts = _dump(100).replace("  port  1", "OFPST_PORT reply (OF1.3) (xid=0x2): flags=[more]\n  port  1")
    assert sorted(texts.read({"ports.txt": parts}).ports) == ["1", "LOCAL"]


def test_local_ports_of_two_files_are_two():
    both = texts.read({"a": _dump(100), "b": _dump(5)})
    assert sorted(both.ports) == ["a:1", "a:LOCAL", "b:1", "b:LOCAL"]
