"""What a switch consists of, as data: nothing is started here."""

import json
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.bench.resource import Command, Host, TextFile, Veth
from pinchpoint.dut.attach import pci_arguments
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs import bench as ovs
from pinchpoint.dut.ovs import settings
from pinchpoint.dut.ovs.bench import tuned
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import arp_responder, refused_rules, rule_place, switch_ports
from pinchpoint.dut.ovs.spec import (
    ArpResponder,
    Bridge,
    Datapath,
    ExtraPorts,
    OvsHost,
    Patch,
    Rule,
    RuleSeries,
    Tunnel,
    pinned_queues,
)
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.addresses import expand_template
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Range
from pinchpoint.model.site import Remote, Site
from pinchpoint.scenario import parse

PLACES = OvsPlaces("b1", PurePosixPath("/run/pinchpoint/b1"), Local())
PLAIN = """
dut = { datapath = "dpdk", pmd_cpus = [1], rules = "in_port={left},actions=output:{right}" }
engine = { cpus = [0] }
port = [{ name = "left" }, { name = "right" }]
stream = [{ from = "left", to = "right" }]
"""


def scenario(datapath="dpdk", ports=None, hosts=(), **dut):
    plain = parse(PLAIN, "x.toml")
    changed = replace(plain, dut=replace(plain.dut, datapath=Datapath(datapath), **dut), hosts=hosts)
    return changed if ports is None else replace(changed, ports=ports, streams=())


def commands(wanted, program):
    resources = ovs.bench(wanted, PLACES, Pages(0, 100_000))
    return [resource.argv for resource in resources if isinstance(resource, Command) and resource.argv[0] == program]


@pytest.mark.parametrize(("cpus", "control"), [({0, 1, 5}, 0), ({1, 5}, 5), ({1}, 1)])
def test_where_the_engine_is_on_another_host_the_switchs_other_threads_take_no_cpu_of_a_pmd(cpus, control):
    plain = scenario()
    engine, gen = replace(plain.engine, cpus=(1,)), Site(Remote("gen", "gen", True, 60.0), ("left", "right"))
    machine = SimpleNamespace(cpus=lambda: frozenset(cpus), which=lambda program: program)
    places = OvsPlaces("b1", PurePosixPath("/run/pinchpoint/b1"), machine)
    assert ovs.vswitchd(replace(plain, engine=engine, sites=(Site(), gen)), places).cpus == (control,)
    assert ovs.vswitchd(plain, places).cpus == (0,), "the engine's"


def row(count):
    """That many bridges in a row."""
    names = [f"br{number}" for number in range(count)]
    bridges = tuple(Bridge(name, (Rule("actions=output:{to-br1}"),) if name == "br0" else (), ()) for name in names)
    return {"bridges": bridges, "patches": tuple(map(Patch, names, names[1:]))}


def test_numbers_are_known_before_the_switch_runs_and_run_from_1_in_every_bridge():
    wanted = scenario(hosts=(OvsHost("h", "10.0.0.1/24", (0,), bridge="br1"),), **row(3))
    numbers = [(port.bridge, port.word, port.number) for port in switch_ports(wanted, PLACES)]
    assert numbers == [
        ("br0", "left", 1),
        ("br0", "right", 2),
        ("br1", "h", 1),
        ("br0", "to-br1", 3),
        ("br1", "to-br0", 2),
        ("br1", "to-br2", 3),
        ("br2", "to-br1", 1),
    ]


def test_fifty_bridges_and_their_patches_are_one_transaction_with_names_of_their_own():
    wanted = scenario(**row(50))
    (made,) = [argv for argv in commands(wanted, "ovs-vsctl") if "add-br" in argv]
    assert made.count("add-br") == 50
    names = [port.name for port in switch_ports(wanted, PLACES)]
    assert len(names) == len(set(names)) == 2 + 2 * 49
    assert all(f"options:peer={peer}" in made for peer in names if "-to-" in peer)


def test_a_rule_may_name_the_ports_of_its_own_bridge():
    (file,) = [
        resource for resource in ovs.bench(scenario(**row(2)), PLACES, Pages(0, 0)) if isinstance(resource, TextFile)
    ]
    assert file.lines == ("actions=output:3",)


def test_a_refused_line_of_a_rules_file_leads_back_to_the_scenario():
    bridge = Bridge("br1", (Rule("a", 7), Rule("b", 9)), (RuleSeries("c{i}", 3, 0, 12), RuleSeries("d{i}", 2, 0, 14)))
    assert [rule_place(bridge, line) for line in range(1, 9)] == [7, 9, 12, 12, 12, 14, 14, None]


def test_an_arp_responder_is_a_rule_for_each_address():
    responder = ArpResponder("br0", Range(int(IPv4Address("10.0.0.254")), 3), "02:00:00:00:00:aa")
    lines = list(expand_template(arp_responder(responder), 3))
    assert [line.partition("arp_tpa=")[2].partition(",")[0] for line in lines] == [
        "10.0.0.254",
        "10.0.0.255",
        "10.0.1.0",
    ]
    assert all("set_field:02:00:00:00:00:aa->arp_sha" in line and line.endswith("in_port") for line in lines)


def test_both_ends_of_a_tunnel_have_underlays_routes_and_neighbours_that_mirror_each_other():
    wanted = scenario(**(row(2) | {"tunnels": (Tunnel("vx", "br0", "br1", 7), Tunnel("vy", "br1", "br0", 8))}))
    calls = [argv[4:] for argv in commands(wanted, "ovs-appctl")]
    assert ("ovs/route/add", "172.31.0.2/32", "ul0a") in calls
    assert ("ovs/route/add", "172.31.0.1/32", "ul0b") in calls
    assert ("tnl/neigh/set", "ul1a", "172.31.0.6", "02:70:70:00:01:02") in calls
    ports = {(port.bridge, port.word): port for port in switch_ports(wanted, PLACES)}
    assert ports["br0", "vx"].columns["options:remote_ip"] == "172.31.0.2"
    assert ports["br1", "vx"].columns["options:remote_ip"] == "172.31.0.1"
    assert ports["br1", "vy"].columns["options:remote_ip"] == "172.31.0.6"


@pytest.mark.parametrize(("count", "transactions"), [(0, 0), (1, 1), (5_000, 1), (5_001, 2)])
def test_idle_ports_come_five_thousand_at_a_time(count, transactions):
    made = commands(scenario(extra_ports=ExtraPorts(count, "internal")), "ovs-vsctl")
    idle = [argv for argv in made if any(word.startswith("idle") for word in argv)]
    assert len(idle) == transactions
    assert sum(argv.count("add-port") for argv in idle) == count


def test_a_plan_of_thousands_of_words_is_told_in_a_line_that_can_be_read():
    made = [resource for resource in ovs.bench(scenario(extra_ports=ExtraPorts(5_000, "internal")), PLACES, Pages(0, 0))
            if isinstance(resource, Command) and "idle1" in resource.argv]  # fmt: skip
    assert len(made[0].describe()) < 5_000
    assert made[0].describe().endswith("more words")


@pytest.mark.parametrize(("datapath", "offloads"), [("af_packet", False), ("af_xdp", False), ("kernel", True)])
def test_hosts_leave_checksums_to_the_device_only_where_the_kernel_forwards(datapath, offloads):
    wanted = scenario(datapath, ports=(), hosts=(OvsHost("h", "10.0.0.1/24", (0,), bridge="br0"),))
    (host,) = [resource for resource in ovs.bench(wanted, PLACES, Pages(0, 0)) if isinstance(resource, Host)]
    assert host.offloads is offloads
    assert ("tx off" in host.describe()) is not offloads


def test_queues_of_a_port_are_queues_of_its_veth_and_of_the_switch():
    plain = scenario("af_xdp")
    left, right = plain.ports
    wanted = replace(plain, ports=(replace(left, queues=2, rxq_affinity="0:1,1:3"), right))
    veths = {
        resource.name: resource.queues
        for resource in ovs.bench(wanted, PLACES, Pages(0, 0))
        if isinstance(resource, Veth)
    }
    assert veths == {"left": 2, "right": 1}
    columns = {port.name: port.columns for port in switch_ports(wanted, PLACES)}
    assert columns["left"] == {
        "type": "afxdp",
        "options:n_rxq": "2",
        "other_config:pmd-rxq-affinity": '"0:1,1:3"',
    }
    assert pinned_queues("0:1,1:3") == [(0, 1), (1, 3)]


def test_nics_are_named_to_dpdk_and_without_any_it_looks_for_none():
    assert pci_arguments([None, None]) == ("--no-pci",)
    assert pci_arguments(["0000:01:00.0", None]) == ("-a", "0000:01:00.0")


RXQ = """\
pmd thread numa_id 0 core_id 1:
  isolated : true
  port: left              queue-id:  0 (enabled)   pmd usage: NOT AVAIL
  port: left              queue-id:  1 (enabled)   pmd usage:  0 %
  overhead: NOT AVAIL
pmd thread numa_id 0 core_id 3:
  port: right             queue-id:  0 (disabled)  pmd usage: NOT AVAIL
"""
SHOWN = """\
netdev@ovs-netdev:
  flows: 1
  port 0: ovs-netdev (tap)
  port 1: left (afxdp: n_rxq=1, use-need-wakeup=true, xdp-mode=best-effort, xdp-mode-in-use=native)
"""


def test_what_polls_which_queue_and_how_a_port_is_driven_are_read():
    assert settings.polled_queues(RXQ) == {"left": {0: 1, 1: 1}, "right": {0: 3}}
    assert settings.port_configs(SHOWN)["left"]["xdp-mode-in-use"] == "native"
    assert settings.port_configs(SHOWN).get("ovs-netdev", {}) == {}


def test_the_xdp_mode_in_use_is_read_where_either_version_of_the_switch_tells_it():
    status = '{"data":[["left",["map",[["xdp-mode","%s"]]]],["br0",["map",[]]]],"headings":["name","status"]}'
    older, newer = SHOWN, SHOWN.replace(", xdp-mode-in-use=native", "")
    assert settings.xdp_modes(older, status.replace("xdp-mode", "driver_name")) == {"left": "native"}
    assert settings.xdp_modes(newer, status % "native-with-zerocopy") == {"left": "native-with-zerocopy"}
    assert settings.xdp_modes(newer, status.replace("xdp-mode", "driver_name")) == {}


@given(st.lists(st.sampled_from((RXQ + SHOWN).splitlines()) | st.text(max_size=60), max_size=20).map("\n".join))
def test_no_text_makes_them_fail(text):
    settings.polled_queues(text)
    settings.port_configs(text)
    settings.logged(text)
    settings.ring_layouts(text)


def test_the_layout_of_rings_is_the_one_that_was_negotiated_last():
    line = "2026-11-22T00:08:03.9Z|00041|dpdk|INFO|VHOST_CONFIG: (/run/{}.sock) negotiated Virtio features: 0x{}\n"
    log = line.format("left", "410008f83") + line.format("right", "110008f83") + line.format("left", "510008f83")
    assert settings.ring_layouts(log) == {"/run/left.sock": "packed", "/run/right.sock": "split"}


# As ovs-vswitchd 3.1 wrote them.
LOG = """\
2026-11-22T00:08:03.731Z|00006|netdev_offload|INFO|netdev: Flow API Enabled
2026-11-22T00:08:03.855Z|00037|dpif_netdev|INFO|EMC insertion probability changed to zero
2026-11-22T00:08:03.855Z|00038|dpif_netdev|INFO|SMC cache is enabled
"""
LATER = """\
2026-11-22T00:08:05.060Z|00066|dpif_netdev|INFO|EMC insertion probability changed to 1/7 (~14.29%)
2026-11-22T00:08:05.060Z|00067|dpif_netdev|INFO|SMC cache is disabled
"""
UPCALLS = "netdev@ovs-netdev:\n  flows         : (current 1) (avg 0) (max 1) (limit 5000)\n  dump duration : 4ms\n"


def test_the_log_tells_changes_and_its_last_word_counts():
    plain = {"emc-insert-inv-prob": "100", "smc-enable": "false", "hw-offload": "false", "tc-policy": "none"}
    set_once = {"emc-insert-inv-prob": "0", "smc-enable": "true", "hw-offload": "true", "tc-policy": "none"}
    assert settings.logged("") == plain
    assert settings.logged(LOG) == set_once
    assert settings.logged(LOG + LATER) == {**set_once, "emc-insert-inv-prob": "7", "smc-enable": "false"}
    policy = "2026-11-22T00:08:03.731Z|00006|tc|INFO|tc: Using policy 'skip_hw'\n"
    assert settings.logged(LOG + policy)["tc-policy"] == "skip_hw"


class Answers:
    """A switch whose every word is given; its database holds what was asked."""

    def __init__(self, **words):
        self.words = {"upcall/show": UPCALLS, "dpctl/show": SHOWN, "dpif-netdev/pmd-rxq-show": RXQ} | words

    def call(self, command, *_):
        return self.words[command]


class Answering(Local):
    """A host whose commands all print the same."""

    def __init__(self, printed):
        self.printed = printed

    def run(self, *_, **__):
        return self.printed


def in_force(monkeypatch, tmp_path, log=LOG, datapath="dpdk", pmd_cpus=(1, 3), **asked):
    plain = scenario(datapath, pmd_cpus=pmd_cpus)
    wanted = replace(plain, dut=replace(plain.dut, tuning=replace(plain.dut.tuning, **asked)))
    (tmp_path / "vswitchd.log").write_text(log)
    stored = json.dumps({"data": [[["map", list(tuned(wanted.dut).items())]]]})
    places = OvsPlaces("b1", PurePosixPath(tmp_path), Answering(stored))
    monkeypatch.setattr(settings, "LOG_TIMEOUT_S", 0.0)
    return settings.in_force(wanted, places, Answers())


def test_what_the_switch_tells_is_in_force_and_the_rest_is_stored(monkeypatch, tmp_path):
    asked = {"emc_insert_inv_prob": 0, "smc": True, "flow_limit": 5000, "max_idle_ms": 2500, "hw_offload": True}
    assert in_force(monkeypatch, tmp_path, **asked) == {
        "emc-insert-inv-prob": "0",
        "smc-enable": "true",
        "flow-limit": "5000",
        "max-idle": "2500 (stored in the database)",
        "hw-offload": "true",
        "PMD cores": "1,3",
    }
    assert in_force(monkeypatch, tmp_path, flow_limit=12_345)["flow-limit"] == "12345 at most, 5000 now"


def test_the_kernels_datapath_has_no_caches_that_could_be_told(monkeypatch, tmp_path):
    read_back = in_force(monkeypatch, tmp_path, datapath="kernel", log="", emc_insert_inv_prob=5, hw_offload=False)
    assert read_back == {"emc-insert-inv-prob": "5 (stored in the database)", "hw-offload": "false"}


def test_tc_is_in_force_only_where_the_switch_says_so(monkeypatch, tmp_path):
    policy = "2026-11-22T00:08:03.731Z|00006|tc|INFO|tc: Using policy 'skip_hw'\n"
    read_back = in_force(monkeypatch, tmp_path, datapath="tc", log=LOG + policy, tc_policy="skip_hw")
    assert read_back == {"hw-offload": "true", "tc-policy": "skip_hw"}
    with pytest.raises(BenchError, match="hw-offload: asked for true, found false"):
        in_force(monkeypatch, tmp_path, datapath="tc", log="")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"emc_insert_inv_prob": 5}, "emc-insert-inv-prob: asked for 5, found 0"),
        ({"smc": False}, "smc-enable: asked for false, found true"),
        ({"hw_offload": False}, "hw-offload: asked for false, found true"),
        ({"flow_limit": 4999}, "flow-limit: asked for at most 4999, found 5000"),
        ({"pmd_cpus": (1,)}, "cores with a PMD thread: asked for 1, found 1,3"),
    ],
)
def test_what_is_stored_and_not_followed_is_told(monkeypatch, tmp_path, asked, told):
    with pytest.raises(BenchError, match=told):
        in_force(monkeypatch, tmp_path, **asked)


@pytest.mark.parametrize(("count", "at_least_s"), [(1, 120), (500_000, 600)])
def test_adding_rules_may_take_the_longer_the_more_they_are(count, at_least_s):
    bridge = Bridge("br0", (), (RuleSeries("priority=1,ip,nw_dst={ipv4:10.0.0.1},actions=drop", count),))
    resources = ovs.bench(scenario(bridges=(bridge,)), PLACES, Pages(0, 100_000))
    (adding,) = [resource for resource in resources if isinstance(resource, Command) and "add-flows" in resource.argv]
    assert at_least_s <= adding.timeout_s < at_least_s + 60


def test_a_switch_without_dpdk_has_no_version_of_it(tmp_path):
    places = OvsPlaces("b1", PurePosixPath(tmp_path), Answering('"3.1.0"\nnone\n'))
    told = ovs.switch_versions(scenario(), places)
    assert told == {"switch ovs_version": "3.1.0"}, "another unit's must not be overwritten"


def test_the_version_of_a_build_of_ones_own_is_told_apart_from_that_of_the_installed_switch(tmp_path):
    own = scenario(vswitchd="/opt/ovs/sbin/ovs-vswitchd")
    places = OvsPlaces("b1", PurePosixPath(tmp_path), Answering('"3.6.0"\nnone\n'))
    assert ovs.switch_versions(own, places) == {"switch /opt/ovs/sbin/ovs-vswitchd ovs_version": "3.6.0"}


@pytest.mark.parametrize("place", ["sbin/vswitch.ovsschema", "share/openvswitch/vswitch.ovsschema"])
def test_a_build_of_ones_own_brings_its_program_and_its_schema(tmp_path, place):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    own = scenario(vswitchd=str(tmp_path / "sbin/ovs-vswitchd"))
    assert ovs.vswitchd(own, PLACES).argv[0] == own.dut.vswitchd
    assert ovs.schema(own, Local()) == str(path)
    assert ovs.schema(scenario(), Local()) == ovs.SCHEMA


def test_the_schema_of_a_build_of_ones_own_is_looked_for_on_the_benchs_host(tmp_path):
    class Far(Local):
        name = "far"

        def exists(self, path):
            return path == f"{tmp_path}/share/openvswitch/vswitch.ovsschema"

    schema = ovs.schema(scenario(vswitchd=str(tmp_path / "sbin/ovs-vswitchd")), Far())
    assert schema == f"{tmp_path}/share/openvswitch/vswitch.ovsschema"


class Judging:
    """A host whose ovs-ofctl takes no rule with the word `bogus`."""

    def __init__(self):
        self.asked = []

    def which(self, program):
        return f"/usr/bin/{program}"

    def write(self, path, text):
        self.path, self.lines = path, text.splitlines()

    def run(self, argv, timeout_s):
        assert argv[-2:] == ("parse-flows", self.path)
        self.asked.append(self.lines)
        for number, line in enumerate(self.lines, 1):
            if "bogus" in line:
                raise CommandFailed(argv, f"ovs-ofctl: {self.path}:{number}: unknown action bogus")


def test_every_rule_that_ovs_ofctl_refuses_is_told_with_its_place():
    rules = (Rule("in_port={left},actions=bogus", 5), Rule("actions=drop", 6))
    series = (RuleSeries("in_port={left},ip,nw_dst={ipv4:10.0.0.1},actions=bogus", 9, 2, 11),)
    wanted, host = scenario(bridges=(Bridge("br0", rules, series),)), Judging()
    assert list(refused_rules([wanted, wanted], host, "/tmp/x")) == [
        "x.toml:5: ovs-ofctl refuses this rule: unknown action bogus: in_port=1,actions=bogus",
        "x.toml:11: ovs-ofctl refuses this rule: unknown action bogus: in_port=1,ip,nw_dst=10.0.0.3,actions=bogus",
    ]
    assert [len(lines) for lines in host.asked] == [3, 2, 1], "the rules of alike scenarios are read once"


def test_rules_that_ovs_ofctl_cannot_read_at_all_name_their_file(monkeypatch):
    def fails(argv, timeout_s):
        raise CommandFailed(argv, "ovs-ofctl: out of memory")

    host = Judging()
    monkeypatch.setattr(host, "run", fails)
    wanted = scenario(bridges=(Bridge("br0", (Rule("actions=drop", 6),), ()),))
    told = "x.toml: ovs-ofctl does not read the rules: ovs-ofctl: out of memory"
    assert list(refused_rules([wanted, wanted], host, "/tmp/x")) == [told]
