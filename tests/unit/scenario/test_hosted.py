"""A scenario that puts its bench on another host: which it names, and what it cannot be."""

from types import SimpleNamespace

import pytest

from pinchpoint.bench import resource
from pinchpoint.dut import remote_endpoints
from pinchpoint.dut.setup import absent_cpus, planned_ends
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.model.site import Remote
from pinchpoint.run.paired_benches import why_no_duet
from pinchpoint.scenario import parse
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.scenario.sweep import load_sweep

BENCH = """
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=drop" }
engine = { cpus = [0] }
port = [{ name = "left" }, { name = "right" }]
stream = [{ from = "left", to = "right" }]
"""


def read(more, bench=BENCH):
    return parse(more + bench, "x.toml")


def test_a_host_has_the_address_sudo_and_lease_of_its_table():
    text = 'runs_on = "dut-1"\nhost.dut-1 = { kind = "ssh", address = "me@far", sudo = false, lease_s = 30 }'
    assert read(text).site.remote == Remote("dut-1", "me@far", sudo=False, lease_s=30)


def test_a_host_is_reached_by_its_name_where_it_has_no_address():
    assert read('runs_on = "far"\nhost.far = {}').site.remote == Remote("far", "far", sudo=True, lease_s=60)


def test_a_bench_stands_here_where_nothing_says_otherwise():
    assert read("host.far = {}").site.remote is None


def test_a_stored_scenario_keeps_its_host():
    scenario = read('runs_on = "far"\nhost.far = {}')
    assert from_plain(to_plain(scenario)) == scenario


def test_any_scenario_is_put_on_a_host_from_the_command_line(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(BENCH)
    (scenario,) = load_sweep(path, changes={"host.far.address": "me@far", "runs_on": "far"}).scenarios
    assert scenario.site.remote == Remote("far", "me@far", sudo=True, lease_s=60)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('runs_on = "far"', 'runs_on: expected the NAME of a [host.NAME], found "far"; this file has none'),
        ('runs_on = "far"\nhost.near = {}', "this file has near"),
        ('host."a b" = {}', "expected a name of 1 to 32 letters, digits, - or _"),
        ('host.far = { adress = "x" }', "did you mean address?"),
        ('host.far = { kind = "telnet" }', 'host.far.kind: expected "ssh"'),
        ('host.far = { address = "-oProxyCommand=x" }', "host.far.address: expected HOST, USER@HOST"),
        ("host.far = { lease_s = 1 }", "host.far.lease_s: expected"),
        ("host.far = 3", "expected a table [host.NAME]"),
        ('runs_on = "far"\nhost.far = {}\nguest = { kernel = "uml" }', "expected no [guest] where there is runs_on"),
    ],
)
def test_a_wrong_host_is_told_with_its_key(text, told):
    with pytest.raises(InputError) as caught:
        read(text)
    assert told in str(caught.value)


BUILDING = """
measure = "build"
runs_on = "far"
host.far = {}
dut = { kind = "ovs", datapath = "af_packet", pmd_cpus = [1], rules = "actions=NORMAL" }
engine = { cpus = [0] }
build = { what = "ports", method = "METHOD", count = 3 }
"""


def test_what_is_made_there_by_one_long_request_is_refused_with_the_reason():
    assert read("", BUILDING.replace("METHOD", "process")).site.remote is not None
    with pytest.raises(InputError, match=r"build.method: expected another method than transaction"):
        read("", BUILDING.replace("METHOD", "transaction"))


SOCKETS = """
measure = "bandwidth"
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=NORMAL" }
"""
ENDS = """
[[host]]
name = "alice"
address = "192.168.7.1/24"
cpus = [0]
[[host]]
name = "bob"
address = "192.168.7.2/24"
cpus = [0]
[sockets]
client = "alice"
server = "bob"
"""


def test_a_socket_workload_is_put_on_a_host_that_ssh_knows_by_its_name():
    wanted = parse(f'runs_on = "far"{SOCKETS}{ENDS}', "x.toml")
    assert wanted.site.remote == Remote("far", "far", sudo=True, lease_s=60)
    assert [host.name for host in wanted.hosts] == ["alice", "bob"]
    assert from_plain(to_plain(wanted)) == wanted


@pytest.mark.parametrize("where", ["lab", "gen"])
def test_the_ends_of_a_socket_workload_are_not_where_engine_runs_on_says(where):
    with pytest.raises(InputError) as caught:
        parse(f'runs_on = "far"{SOCKETS}engine = {{ cpus = [0], runs_on = "{where}" }}{ENDS}', "x.toml")
    assert "engine.runs_on: expected nothing where there are [[host]]s" in str(caught.value)


def test_a_device_on_a_host_is_frozen_beside_another_one_there_and_only_there():
    far, near = read('runs_on = "far"\nhost.far = {}'), read('runs_on = "near"\nhost.near = {}')
    assert why_no_duet(far, far) == ""
    assert why_no_duet(far, near) == "both benches stand on one host, and the scenarios name two"


def test_a_device_at_cables_is_not_frozen_so_that_comparisons_go_in_turns():
    assert why_no_duet(span(), span())


def test_an_engine_that_the_host_cannot_run_is_a_finding_and_no_error_of_the_lab(monkeypatch):
    def run(argv):
        raise OSError(8, "Exec format error", argv[0])

    monkeypatch.setattr(remote_endpoints, "find_engine", lambda host: "/var/cache/pinchpoint/1/pinchpoint-engine")
    engine = remote_endpoints.engine(SimpleNamespace(run=run))
    assert not engine.ok
    assert engine.detail == "/var/cache/pinchpoint/1/pinchpoint-engine: Exec format error"


SPAN = """
runs_on = "dut"
host.dut = {{}}
host.gen = {{}}
host.sink = {{}}
{top}
[dut]
kind = "bridge"
cpus = [{cpu}]
[engine]
runs_on = "gen"
cpus = [0]
{engine}
[[port]]
name = "left"
interface = "eth1"
engine_interface = "eth0"
[[port]]
name = "right"
interface = "eth2"
engine_interface = "eth3"
{right}
[[stream]]
from = "left"
to = "right"
{more}
"""


def span(cpu=1, top="", engine="", right='engine_runs_on = "sink"', more=""):
    return parse(SPAN.format(cpu=cpu, top=top, engine=engine, right=right, more=more), "x.toml")


def sites(scenario):
    return [(site.name, site.ports) for site in scenario.sites[1:]]


def test_each_host_of_an_engine_has_an_engine_for_its_ports():
    wanted = span()
    assert sites(wanted) == [("gen", ("left",)), ("sink", ("right",))]
    assert [site.name for site in wanted.sites] == ["dut", "gen", "sink"]
    assert wanted.probed_cores == (), "two machines share no cache line"
    assert from_plain(to_plain(wanted)) == wanted


def test_a_scenario_that_was_stored_before_there_were_sites_keeps_its_hosts():
    for wanted in (read(""), read('runs_on = "far"\nhost.far = {}'), span(), far_ends(bob="")):
        plain = dict(to_plain(wanted))
        device, *others = plain.pop("sites")
        beside = {**device, "ends": ["bob"]} if wanted.hosts else device
        plain |= {"remote": device["remote"], "engines": [*others, beside] if others else []}
        assert from_plain(plain) == wanted


def test_what_no_other_site_has_is_beside_the_device():
    wanted = span(right='engine_runs_on = "dut"')
    left, right = wanted.links
    assert (left.is_local, right.is_local, right.far.interface) == (False, True, "eth3")
    assert [[port.name for port in wanted.ports_at(site)] for site in wanted.sites] == [["right"], ["left"]]
    assert [sorted(wanted.cpus_at(site)) for site in wanted.sites] == [[0, 1], [0]]
    assert all(link.is_lent for link in wanted.links) and not any(link.is_lent for link in read("").links)


def test_cpus_are_looked_for_on_the_machine_that_has_them():
    lab = SimpleNamespace(cpus=lambda: frozenset({1}))
    assert absent_cpus(read(""), lab) == {"engine.cpus": {0}}
    assert absent_cpus(span(right='engine_runs_on = "lab"'), lab) == {"engine.cpus": {0}}, "its engine is there"
    assert absent_cpus(span(cpu=7), lab) == {}, "nothing is"


def test_an_engine_of_another_host_may_have_the_devices_cpus():
    assert span(cpu=0).dut.cpus == (0,)


def test_both_ports_may_have_one_engine_elsewhere():
    assert sites(span(right="")) == [("gen", ("left", "right"))]


@pytest.mark.parametrize("measure", ["soak", "recovery", "burst"])
def test_what_needs_both_ends_at_one_engine_may_have_it_elsewhere(measure):
    text = SPAN.format(cpu=1, top=f'measure = "{measure}"', engine="", right="", more="")
    assert sites(parse(text.replace("[latency]\nat = []\n", ""), "x.toml")) == [("gen", ("left", "right"))]


def test_the_labs_own_machine_may_have_an_engine():
    _, gen, lab = span(right='engine_runs_on = "lab"').sites
    assert (gen.name, lab.name, lab.remote) == ("gen", "lab", None)


def test_streams_between_two_engines_may_go_both_ways():
    back = '[[stream]]\nfrom = "right"\nto = "left"\neth_dst = "02:00:00:00:00:09"'
    assert [(stream.tx_port, stream.rx_port) for stream in span(more=back).streams] == [
        ("left", "right"),
        ("right", "left"),
    ]


def test_cables_on_one_host_need_no_other_one():
    text = SPAN.format(cpu=1, top="", engine="", right="", more="").replace('runs_on = "gen"', "")
    assert parse(text, "x.toml").is_multi_host is False


DPDK = """
runs_on = "dut"
host.dut = {{}}
host.gen = {{}}
host.sink = {{}}
dut = {{ datapath = "dpdk", pmd_cpus = [1], rules = "actions=drop" }}
engine = {{ runs_on = "gen", cpus = [0, 2] }}
port = [{{ name = "left"{left} }}, {{ name = "right"{right} }}]
stream = [{{ from = "left", to = "right" }}]
"""
ON_LAB = """
dut = {{ kind = "ovs", datapath = "{datapath}", pmd_cpus = [1], rules = "actions=drop" }}
engine = {{ cpus = [0], latency_clock = "kernel" }}
port = [{{ name = "left" }}, {{ name = "right" }}]
stream = [{{ from = "left", to = "right" }}]
"""
BY_NIC = 'latency_clock = "nic"\nclock_error_us = 0.5'


def test_nics_at_cables_time_what_they_receive_where_that_is_asked_for():
    wanted = span(engine=BY_NIC)
    assert [end.device for end in planned_ends(wanted, Local())] == ["left,stamps=nic", "right,stamps=nic"]
    lent = resource.LentInterface("eth0", "pp-b1-engine", "left", 1500, 1500, True, (), stamped_before="0")
    assert "up; ip netns exec pp-b1-engine hwstamp_ctl -i left -r 1    # was mtu 1500" in lent.describe()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            SPAN.format(cpu=1, top="", engine='latency_clock = "nic"', right="", more=""),
            "engine.clock_error_us: expected how far from the system's phc2sys may leave the NIC's clock",
        ),
        (
            DPDK.format(left="", right="").replace("cpus = [0, 2]", 'latency_clock = "nic"'),
            'expected "engine" or "kernel" where a port has no engine_interface',
        ),
    ],
)
def test_a_clock_that_times_nothing_is_refused(text, told):
    with pytest.raises(InputError) as caught:
        parse(text, "x.toml")
    assert told in str(caught.value)


def test_packet_sockets_alone_are_timed_by_another_clock():
    wanted = parse(ON_LAB.format(datapath="af_xdp"), "x.toml")
    assert [(end.backend, end.device) for end in planned_ends(wanted, Local())] == [
        ("af_packet", "left,stamps=kernel"),
        ("af_packet", "right,stamps=kernel"),
    ]
    with pytest.raises(InputError) as caught:
        parse(ON_LAB.format(datapath="dpdk"), "x.toml")
    assert 'engine.latency_clock: expected "engine" where dut.datapath is "dpdk", found "kernel"' in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"right": 'engine_runs_on = "source"'},
            'a [host.NAME] or "lab", found "source"; this file has dut, gen, sink',
        ),
        ({"top": 'numa = "same"'}, 'expected "any" where an engine is on another host'),
        ({"right": "queues = 2"}, "port[2].queues: expected 1"),
        ({"top": 'measure = "soak"'}, "expected all ports at one engine for this measure"),
        ({"top": 'measure = "rfc2544"'}, "expected a measure of plain trials of frames"),
    ],
)
def test_what_cannot_span_hosts_is_refused_with_the_reason(changes, told):
    with pytest.raises(InputError) as caught:
        span(**changes)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('interface = "eth1"\nengine_interface', "engine_interface", "port[1].interface: missing"),
        ('engine_interface = "eth0"\n[[port]]', "[[port]]", "port[1].engine_interface: missing"),
        (
            '"eth2"',
            '"eth1"',
            'port[2].interface: expected one of dut that nothing else of this file has, found "eth1" again',
        ),
        (
            '"eth3"',
            '"eth0"',
            'port[2].engine_interface: expected one of gen that nothing else of this file has, found "eth0" again',
        ),
        ('"eth2"', '"eth2"\npci = "0000:01:00.0"', "expected either pci or interface as this end of the cable"),
        ('"eth2"', '"a name that is too long"', "the name of a network interface, at most 15 characters"),
        ('kind = "bridge"', 'kind = "wire"', "only what forwards between kernel interfaces has cables"),
    ],
)
def test_cables_are_checked_at_both_ends(old, new, told):
    text = SPAN.format(cpu=1, top="", engine="", right="", more="")
    with pytest.raises(InputError) as caught:
        parse(text.replace(old, new, 1), "x.toml")
    assert told in str(caught.value)


NIC, OTHER, INTERFACE = '{key} = "0000:01:00.0"', '{key} = "0000:01:00.1"', '{key} = "eth1"'


def nics(left, right):
    left, right = ("".join(f", {end}" for end in ends) for ends in (left, right))
    return parse(DPDK.format(left=left, right=right), "x.toml")


def test_nics_of_device_and_engine_may_be_on_two_hosts_or_three():
    left = (NIC.format(key="pci"), NIC.format(key="engine_pci"))
    right = (OTHER.format(key="pci"), OTHER.format(key="engine_pci"))
    wanted = nics(left, right)
    assert sites(wanted) == [("gen", ("left", "right"))]
    assert [link.is_local for link in wanted.links] == [False, False]
    assert wanted.is_cabled, "no second bench stands beside it, and no ceiling is measured"
    wanted = nics(left, (OTHER.format(key="pci"), NIC.format(key="engine_pci"), 'engine_runs_on = "sink"'))
    assert sites(wanted) == [("gen", ("left",)), ("sink", ("right",))]


def test_one_engine_elsewhere_may_have_several_queues_at_its_nics():
    left = (NIC.format(key="pci"), NIC.format(key="engine_pci"), "queues = 2")
    wanted = nics(left, (OTHER.format(key="pci"), OTHER.format(key="engine_pci"), "queues = 2"))
    assert [port.queues for port in wanted.ports] == [2, 2]


def test_a_cable_between_hosts_may_have_a_nic_at_one_end_and_an_interface_at_the_other():
    wanted = nics(
        (NIC.format(key="pci"), INTERFACE.format(key="engine_interface")),
        (OTHER.format(key="pci"), OTHER.format(key="engine_pci")),
    )
    assert [(end.backend, end.device) for end in planned_ends(wanted, Local())] == [
        ("af_packet", "left"),
        ("dpdk", "0000:01:00.1"),
    ]
    text = SPAN.format(cpu=1, top="", engine="", right="", more="").replace(
        'engine_interface = "eth0"', 'engine_pci = "0000:01:00.0"\nno_iommu = true'
    )
    assert [(end.backend, end.device) for end in planned_ends(parse(text, "x.toml"), Local())] == [
        ("dpdk", "0000:01:00.0"),
        ("af_packet", "right"),
    ]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (
            (NIC.format(key="pci"), OTHER.format(key="engine_pci")),
            "port[2].engine_pci: expected one of gen that nothing else",
        ),
        ((OTHER.format(key="pci"), NIC.format(key="engine_pci")), "port[2].pci: expected one of dut that nothing else"),
        ((NIC.format(key="pci"),), "port[1].engine_pci: missing, as is engine_interface"),
        ((NIC.format(key="engine_pci"),), "port[1].pci: missing, as is interface"),
        ((), "port[1].interface: missing, as is pci: its engine is on another host"),
        (
            (INTERFACE.format(key="interface"), NIC.format(key="engine_pci")),
            "only what forwards between kernel interfaces has cables",
        ),
    ],
)
def test_a_nic_at_a_cable_is_checked_at_both_ends(left, told):
    with pytest.raises(InputError) as caught:
        nics(left, (OTHER.format(key="pci"), OTHER.format(key="engine_pci")))
    assert told in str(caught.value)


def test_on_one_host_both_ends_of_a_cable_are_of_one_kind():
    text = SPAN.format(cpu=1, top="", engine="", right="", more="").replace('runs_on = "gen"', "")
    text = text.replace('engine_interface = "eth0"', 'engine_pci = "0000:01:00.0"')
    with pytest.raises(InputError) as caught:
        parse(text, "x.toml")
    assert "port[1].engine_interface: missing; with interface both ends of the cable are interfaces" in str(
        caught.value
    )


def test_one_machine_has_one_name_in_a_file():
    text = SPAN.format(cpu=1, top="", engine="", right="", more="").replace(
        "host.gen = {}", 'host.gen = {address = "dut"}'
    )
    with pytest.raises(InputError, match=r"host.gen.address: expected another machine than that of \[host.dut\]"):
        parse(text, "x.toml")


APART = """
measure = "{measure}"
runs_on = "dut"
{top}
dut = {{ datapath = "{datapath}", pmd_cpus = [1], rules = "actions=NORMAL" }}
[[host]]
name = "alice"
address = "192.168.7.1/24"
cpus = [1]
interface = "eth1"
end_interface = "eth0"
runs_on = "gen"
[[host]]
name = "bob"
address = "192.168.7.2/24"
cpus = [2]
{bob}
[sockets]
client = "alice"
server = "bob"
"""
BOB = 'interface = "eth2"\nend_interface = "eth0"\nruns_on = "sink"'


def far_ends(measure="rr", top="", datapath="af_packet", bob=BOB):
    return parse(APART.format(**locals()), "x.toml")


def ends_of(scenario):
    return [(site.name, site.ends) for site in scenario.sites[1:]]


def test_each_end_of_a_socket_workload_may_be_on_a_machine_of_its_own():
    wanted = far_ends()
    assert ends_of(wanted) == [("gen", ("alice",)), ("sink", ("bob",))]
    assert [site.name for site in wanted.sites] == ["dut", "gen", "sink"]
    assert wanted.is_cabled
    assert from_plain(to_plain(wanted)) == wanted


def test_an_end_may_be_beside_the_switch_at_a_veth_pair():
    wanted = far_ends(bob="")
    assert ends_of(wanted) == [("gen", ("alice",))]
    assert [link.is_local for link in wanted.links] == [False, True]
    assert wanted.cpus_at(wanted.site) == {1, 2}, "the switch's and bob's"
    assert wanted.cpus_at(wanted.sites[1]) == {1}, "CPU 1 of gen is another one"


def test_an_end_may_be_on_the_labs_own_machine():
    wanted = far_ends(bob=BOB.replace("sink", "lab"))
    assert [(site.name, site.is_lab) for site in wanted.sites] == [("dut", False), ("gen", False), ("lab", True)]


def test_cables_to_ends_on_the_switchs_own_machine_need_no_other_one():
    text = APART.format(measure="rr", top="", datapath="af_packet", bob='interface = "eth2"\nend_interface = "eth3"')
    assert parse(text.replace('runs_on = "gen"', ""), "x.toml").is_multi_host is False


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bob": 'runs_on = "sink"'}, "host[2].interface: missing: this end is on another machine than the device"),
        ({"bob": 'interface = "eth2"'}, "host[2].end_interface: missing"),
        ({"bob": BOB.replace("eth2", "eth1")}, 'one of dut that nothing else of this file has, found "eth1"'),
        ({"bob": BOB.replace("sink", "gen")}, 'one of gen that nothing else of this file has, found "eth0"'),
        ({"datapath": "dpdk"}, "only what forwards between kernel interfaces has cables"),
        ({"top": 'numa = "same"'}, 'expected "any" where a [[host]] is on another machine'),
    ],
)
def test_ends_that_cannot_be_apart_are_refused_with_the_reason(changes, told):
    with pytest.raises(InputError) as caught:
        far_ends(**changes)
    assert told in str(caught.value)
