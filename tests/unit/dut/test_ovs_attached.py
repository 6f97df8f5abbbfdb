"""A switch in service is found by its run directory; whatever is wrong there is said, and nothing is changed."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.account.ledger import places
from pinchpoint.dut.ovs import in_service as attached
from pinchpoint.dut.ovs.hops import in_service
from pinchpoint.dut.ovs.in_service import InService, PortsInService, _datapath, attach
from pinchpoint.dut.ovs.kinds import PortKind, by_counters, is_counted_elsewhere, kind_of, kinds_of
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.host.interface import CommandFailed, prefix
from pinchpoint.model.errors import DutError, RequirementError


class Answering:
    """A host with these files that gives these outputs, by the first word of a command."""

    name = ""

    def __init__(self, files=None, outputs=None):
        self.files, self.outputs, self.asked = files or {}, outputs or {}, []

    def read(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        if isinstance(self.files[path], Exception):
            raise self.files[path]
        return self.files[path]

    def exists(self, path):
        return path in self.files

    def run(self, argv, netns=None, environment=()):
        self.asked.append(argv)
        if argv[0] not in self.outputs:
            raise CommandFailed(argv, "connection refused")
        return self.outputs[argv[0]]


def test_a_folder_without_a_running_switch_says_what_to_give():
    with pytest.raises(RequirementError, match="no running switch found there") as caught:
        attach("/x", Answering())
    assert "PLACE" in caught.value.hint
    with pytest.raises(RequirementError, match="no running switch"):
        attach("/x", Answering({"/x/vswitchd.pid": "77"}))  # its process is gone
    with pytest.raises(RequirementError, match="no running switch"):
        attach("/x", Answering({"/x/vswitchd.pid": "no number"}))


def test_what_needs_root_says_so():
    with pytest.raises(RequirementError, match="no permission") as caught:
        attach(None, Answering({"/var/run/openvswitch/ovs-vswitchd.pid": PermissionError()}))
    assert "sudo" in caught.value.hint
    with pytest.raises(RequirementError, match="no control socket of process 77"):
        attach("/x", Answering({"/x/vswitchd.pid": "77", "/proc/77": ""}))


PORTS = """OFPST_PORT reply (OF1.4) (xid=0x2): 5 ports
  port  h1b1: rx pkts=1000, bytes=60000, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=7, bytes=60, drop=0, errs=0, coll=0
           duration=63.002s
  port LOCAL: rx pkts=2, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=0, errs=0, coll=0
           duration=63.002s
  port  "h1a1": rx pkts=5, bytes=0, drop=3, errs=0, frame=0, over=0, crc=0
           tx pkts=990, bytes=59400, drop=0, errs=0, coll=0
           duration=63.001s
           CUSTOM Statistics
                      xsk_queue_0_rx_dropped=3,
  port  "vx0": rx pkts=5, bytes=0, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=5, bytes=0, drop=?, errs=?, coll=?
           duration=1.001s
  port  "to-br1": rx pkts=5, bytes=0, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=5, bytes=0, drop=?, errs=?, coll=?
           duration=1.001s
"""
TYPES = {"h1b1": "", "h1a1": "afxdp", "br0": "internal", "vx0": "vxlan", "to-br1": "patch"}


def ports_of(monkeypatch, host, datapath_type="netdev", types=TYPES, bridges=("br0",)):
    """The collector, beside a database with these bridges and interfaces; None: it does not answer."""

    class Stored:
        def __init__(self, host, path):
            if types is None:
                raise DutError("restarting")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def transact(self, operations, on_wait):
            rows = [{"name": name, "type": kind} for name, kind in types.items()]
            return [{"rows": [{"name": name, "datapath_type": datapath_type} for name in bridges]}, {"rows": rows}]

    monkeypatch.setattr(attached, "Ovsdb", Stored)
    return PortsInService(InService("", PurePosixPath("/x"), host))


def test_ports_are_read_by_name_with_their_kinds_and_those_that_the_main_thread_reads(monkeypatch):
    host = Answering({"/x/br0.mgmt": ""}, {"ovs-ofctl": PORTS})
    found = ports_of(monkeypatch, host)
    seen = found.snapshot()
    assert {name for name in seen.counters if name.endswith("/rx_pkts")} == {
        f"ovs/port/{port}/rx_pkts" for port in ("h1b1", "h1a1", "br0")
    }, "the frames of patch ports and tunnels are counted at other ports"
    assert seen.counters["ovs/port/h1a1/xsk_queue_0_rx_dropped"] == 3
    assert seen.gauges == {
        "ovs/kind/h1b1": float(PortKind.KERNEL),
        "ovs/kind/br0": float(PortKind.KERNEL),
        "ovs/kind/h1a1": float(PortKind.AF_XDP),
        "ovs/rxq/main/h1b1/0/enabled": 1.0,
        "ovs/rxq/main/br0/0/enabled": 1.0,
    }
    assert found.names() == ("h1b1", "h1a1"), "without the bridge's own"
    assert list(found.types) == list(TYPES.values())
    assert "--names" in host.asked[0]


def test_an_interface_of_a_logical_port_says_its_name(monkeypatch):
    found = ports_of(monkeypatch, Answering({"/x/br0.mgmt": ""}, {"ovs-ofctl": PORTS}))
    row = {"name": "h1b1", "type": "", "external_ids": ["map", [["iface-id", "vm1"]]]}
    bridges = {"rows": [{"name": "br0", "datapath_type": "netdev"}]}
    monkeypatch.setattr(attached.Ovsdb, "transact", lambda *_: [bridges, {"rows": [row]}])
    assert found.snapshot().gauges["ovs/logical/h1b1/vm1"] == 1.0


def test_where_the_kernel_forwards_tunnels_count_and_no_thread_reads(monkeypatch):
    seen = ports_of(monkeypatch, Answering({"/x/br0.mgmt": ""}, {"ovs-ofctl": PORTS}), "system").snapshot()
    assert "ovs/port/vx0/rx_pkts" in seen.counters
    assert not [name for name in seen.gauges if name.startswith("ovs/rxq/")]


def test_a_bridge_that_is_being_removed_has_no_ports_and_one_that_stays_has_to_answer(monkeypatch):
    assert ports_of(monkeypatch, Answering()).snapshot().counters == {}
    with pytest.raises(DutError, match="br0: the switch does not answer"):
        ports_of(monkeypatch, Answering({"/x/br0.mgmt": ""})).snapshot()


def test_while_the_database_is_restarted_what_it_said_last_holds(monkeypatch):
    host = Answering({"/x/br0.mgmt": ""}, {"ovs-ofctl": PORTS})
    found = ports_of(monkeypatch, host)
    before = found.snapshot()
    ports_of(monkeypatch, host, types=None)
    after = found.snapshot()
    assert (after.counters, after.gauges) == (before.counters, before.gauges)


@pytest.mark.parametrize(
    ("interface_type", "counters", "kind"),
    [
        ("dpdk", (), PortKind.NIC),
        ("dpdkvhostuserclient", ("rx_q0_good_packets",), PortKind.VHOST),
        ("dpdkvhostuser", (), PortKind.FORMER_VHOST),
        ("afxdp", (), PortKind.AF_XDP),
        ("afxdp-nonpmd", (), PortKind.AF_XDP),
        ("", (), PortKind.KERNEL),
        ("tap", (), PortKind.KERNEL),
    ],
)
def test_a_type_tells_how_a_port_counts(interface_type, counters, kind):
    assert kind_of(interface_type, counters) is kind


def test_of_recordings_without_types_the_counters_tell():
    assert by_counters(("rx_pkts", "rx_missed_errors"), Datapath.DPDK) is PortKind.NIC
    assert by_counters(("xsk_queue_1_rx_dropped",), Datapath.DPDK) is PortKind.AF_XDP
    assert by_counters(("rx_pkts",), Datapath.DPDK) is PortKind.VHOST
    assert by_counters(("rx_pkts",), Datapath.KERNEL) is PortKind.KERNEL
    assert by_counters(("rx_pkts",), Datapath.AF_XDP) is PortKind.KERNEL
    assert is_counted_elsewhere("geneve", in_kernel=False) and not is_counted_elsewhere("geneve", in_kernel=True)


@given(st.dictionaries(st.text(max_size=30) | st.just("ovs/port/x") | st.just("ovs/kind/x"), st.floats()))
def test_hostile_recordings_have_kinds_or_none(seen):
    assert set(kinds_of(seen, ("left",), Datapath.DPDK).values()) <= set(PortKind)


def test_a_namespace_is_entered_by_its_name_or_by_the_file_of_a_process():
    assert prefix("dut", None) == ["ip", "netns", "exec", "dut"]
    assert prefix("/proc/7/ns/net", [1]) == ["nsenter", "--net=/proc/7/ns/net", "--", "taskset", "-c", "1"]
    assert prefix(None, None) == []


@pytest.mark.parametrize(
    ("shown", "types", "other_config", "datapath"),
    [
        ("netdev@ovs-netdev:", ["internal", "dpdkvhostuserclient"], None, Datapath.DPDK),
        ("netdev@ovs-netdev:", ["internal", "afxdp-nonpmd"], None, Datapath.AF_XDP),
        ("netdev@ovs-netdev:", ["internal", ""], None, Datapath.AF_PACKET),
        ("system@ovs-system:", ["internal", ""], ["map", [["hw-offload", "true"]]], Datapath.TC),
        ("system@ovs-system:", ["internal", ""], ["map", [["hw-offload", "false"]]], Datapath.KERNEL),
        ("system@ovs-system:", ["internal", ""], ["map", []], Datapath.KERNEL),
    ],
)
def test_the_datapath_follows_from_what_the_database_says(shown, types, other_config, datapath):
    class Control:
        def call(self, command):
            return shown

    assert _datapath(Control(), types, other_config) is datapath


@pytest.mark.parametrize("datapath", Datapath)
def test_the_path_in_service_begins_where_the_switch_counts(datapath):
    for kinds in ({}, {"a": PortKind.NIC, "b": PortKind.KERNEL, "c": PortKind.AF_XDP, "d": PortKind.VHOST}):
        places = in_service(datapath, kinds).places
        assert "veth" not in [place.name for place in places]
        assert len({place.name for place in places}) == 3


@given(st.sampled_from(list(Datapath)), st.data())
def test_what_a_place_in_service_gives_out_the_next_one_takes_in(datapath, data):
    """Whatever was counted: so nothing can vanish between two rows."""
    names = ("a", "b", "c", "d", "e")
    kinds = {name: data.draw(st.sampled_from(PortKind)) for name in names}
    counters = ["rx_pkts", "tx_pkts", "tx_drop", "rx_drop", "ovs_rx_qos_drops", "ovs_tx_qos_drops", "rx_errs"]
    seen = {f"ovs/port/{name}/{counter}": data.draw(st.integers(0, 9)) for name in names for counter in counters}
    seen |= {f"host/queue/dut/{name}/{drop}": 1 for name in names for drop in ("shaped", "full", "filtered")}
    seen["ovs/pmd/core1/packets_received"] = 5
    receives, middle, sends = places(in_service(datapath, kinds), seen, names)
    assert receives.frames_out == middle.frames_in
    assert middle.frames_out == sends.frames_in
    assert sends.unexplained is not None
