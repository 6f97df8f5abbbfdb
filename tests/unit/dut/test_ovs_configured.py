"""A switch as people configure it, as data: meters, groups, VLANs, policers, QoS, bonds, mirrors, kinds of ports."""

from pathlib import PurePosixPath

import pytest
from trials import engine_result, port, stream_counts

from pinchpoint.account import ledger
from pinchpoint.bench.resource import Command, Daemon, TextFile, Veth
from pinchpoint.dut import registry
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs import configured
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse


class TwoCpus(Local):
    """A machine with these CPUs alone."""

    def __init__(self, *cpus):
        self._cpus = frozenset(cpus)

    def cpus(self):
        return self._cpus


SCENARIO = """
[dut]
datapath = "{datapath}"
pmd_cpus = [1]
rules = "in_port={{left}},actions=output:{{right}}"
{dut}
[[port]]
name = "left"
{left}
[[port]]
name = "right"
{right}
{more}
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
{stream}
"""


def scenario(datapath="dpdk", dut="", left="", right="", more="", stream=""):
    text = SCENARIO.format(datapath=datapath, dut=dut, left=left, right=right, more=more, stream=stream)
    return parse(text, "x.toml")


def bench(wanted, *cpus):
    places = Places("b1", PurePosixPath("/run/pinchpoint/b1"), TwoCpus(*(cpus or (0, 1))))
    return registry.device_of(wanted).bench(wanted, places)


def planned(wanted, *cpus):
    return bench(wanted, *cpus).resources(Pages(0, 100_000), ["engine"])


def argvs(wanted):
    return [resource.argv for resource in planned(wanted) if isinstance(resource, Command)]


def made(wanted):
    """The words of the transaction that makes the bridges."""
    (argv,) = [argv for argv in argvs(wanted) if "add-br" in argv]
    return " ".join(argv)


def told(**parts):
    with pytest.raises(InputError) as error:
        scenario(**parts)
    return str(error.value)


def test_meters_and_groups_come_after_ports_and_before_the_rules_that_name_them():
    lines = 'meters = "meter=1,pktps,band=type=drop,rate=9"\ngroups = "group_id=7,type=all,bucket=output:{right}"'
    wanted = planned(scenario(dut=lines))
    words = [" ".join(resource.argv) for resource in wanted if isinstance(resource, Command)]
    order = [next(n for n, argv in enumerate(words) if word in argv)
             for word in ("add-br", "add-meter", "add-groups", "add-flows")]  # fmt: skip
    assert order == sorted(order)
    assert words[order[1]].endswith("br0.mgmt meter=1,pktps,band=type=drop,rate=9")
    (file,) = [resource for resource in wanted if isinstance(resource, TextFile) and "groups" in resource.path]
    assert file.lines == ("group_id=7,type=all,bucket=output:2",)


def test_a_meter_is_never_an_option_of_the_program_that_adds_it():
    """`ovs-ofctl --log-file=PATH` writes wherever its user may."""
    assert "dut.meters: expected a meter with its number" in told(dut='meters = "--log-file=/tmp/x,meter=1"')
    wanted = planned(scenario(dut='meters = "meter=1,pktps,band=type=drop,rate=9"'))
    (argv,) = [resource.argv for resource in wanted if isinstance(resource, Command) and "add-meter" in resource.argv]
    assert argv.index("--") == argv.index("add-meter") - 1


def test_a_meter_that_the_switch_refuses_is_told_with_its_line():
    wanted = scenario(dut='meters = "meter=1,bogus"')
    places = OvsPlaces("b1", PurePosixPath("/run/pinchpoint/b1"), Local())
    error = CommandFailed(("ovs-ofctl", "add-meter", places.management, "meter=1,bogus"), "no bands")
    assert configured.refused(error, wanted, places).message == "x.toml:6: the switch refused this meter: no bands"


def test_limits_and_vlans_of_a_port_are_columns_of_its_rows():
    left = 'mtu = 2000\ningress_policing_rate = 10000\ningress_policing_burst = 1000\nvlan_mode = "native-tagged"\n'
    left += 'tag = 5\ntrunks = [5, 6]\nqos = { type = "egress-policer", cir = 1250000, cbs = 2048 }'
    words = made(scenario(left=left))
    assert "mtu_request=2000 ingress_policing_rate=10000 ingress_policing_burst=1000" in words
    assert "set port left vlan_mode=native-tagged tag=5 trunks=5,6 qos=@qos-left" in words
    assert '--id=@qos-left create qos type=egress-policer other_config:cir="1250000" other_config:cbs="2048"' in words
    assert "set port right" not in words


TAP = '[[port]]\nname = "tap"\n'


def test_the_first_member_of_a_bond_adds_them_all():
    words = made(scenario(more='[[bond]]\nname = "b"\nports = ["left", "right"]\nmode = "balance-slb"\n'))
    assert words.count("add-bond br0 b left right bond_mode=balance-slb lacp=off") == 1
    assert "add-port" not in words
    assert "set interface right" in words


@pytest.mark.parametrize(
    ("select", "columns"),
    [
        ("", "select_all=true output_port=@to"),
        ('select = ["left"]', "select_src_port=@from-left select_dst_port=@from-left output_port=@to"),
    ],
)
def test_a_mirror_copies_all_frames_or_those_of_some_ports(select, columns):
    made = argvs(scenario(more=f'{TAP}[[mirror]]\nname = "m"\nto = "tap"\n{select}\n'))
    (mirror,) = [" ".join(argv) for argv in made if "mirror" in argv]
    assert f"--id=@mirror create mirror name=m {columns}" in mirror
    assert "--id=@to get port tap" in mirror
    assert mirror.endswith("add bridge br0 mirrors @mirror")


def test_ports_of_several_kinds_are_on_one_bridge():
    wanted = scenario(left='kind = "tap"', right="", more='[[port]]\nname = "v"\nkind = "veth"\n')
    words = made(wanted)
    assert "set interface left ofport_request=1 type=tap" in words
    assert "set interface right ofport_request=2 type=dpdkvhostuserclient" in words
    assert "set interface v ofport_request=3" in words
    assert [resource.name for resource in planned(wanted) if isinstance(resource, Veth)] == ["v"]
    assert ("ip", "-n", "pp-b1-dut", "link", "set", "dev", "left", "up") in argvs(wanted)
    ends = [bench(wanted).attachment(number, end) for number, end in enumerate(wanted.ports)]
    assert [end.backend for end in ends] == ["af_packet", "dpdk", "af_packet"]
    assert [end.netns for end in ends] == ["pp-b1-dut", None, "pp-b1-gen"]


@pytest.mark.parametrize(("cpus", "own"), [((0, 1), (1,)), ((0, 1, 2, 3), (2,))])
def test_a_main_thread_that_serves_ports_is_not_on_the_engines_cpu(cpus, own):
    def switch(wanted):
        daemons = [resource for resource in planned(wanted, *cpus) if isinstance(resource, Daemon)]
        return next(daemon.cpus for daemon in daemons if daemon.name == "ovs-vswitchd")

    assert switch(scenario(left='kind = "tap"')) == own
    assert switch(scenario()) == (0,)


def test_the_account_of_a_mixed_bridge_closes():
    """400 of 1,000 frames wait in vain for the main thread in the tap's queue."""
    wanted = scenario(left='kind = "tap"')
    seen = {
        "ovs/port/left/rx_pkts": 600, "ovs/port/left/rx_drop": 400, "ovs/port/right/tx_pkts": 600,
        "ovs/port/right/tx_drop": 0, "ovs/port/right/rx_pkts": 0,
        "ovs/pmd/main/packets_received": 600, "ovs/pmd/core1/packets_received": 0,
    }  # fmt: skip
    engine = engine_result(
        streams=[stream_counts(offered=1000, refused=0, received=600)],
        ports=[port("left", sent=1000, refused=0), port("right", received=600)],
    )
    account = ledger.build(engine, seen, ("left", "right"), registry.device_of(wanted).graph(wanted))
    assert account.unexplained == 0
    (drop,) = [drop for hop in account.hops for drop in hop.drops]
    assert (drop.name, drop.frames, drop.limits) == ("queue of the interface left full", 400, "dut")
    counts = {hop.name: (hop.frames_in, hop.frames_out) for hop in account.hops}
    assert counts["switch receives"] == (1000, 600)
    assert counts["datapath"] == (600, 600)


def test_longer_frames_need_ports_with_a_larger_mtu():
    long = "frame_bytes = 3000"
    assert "stream[1].frame_bytes: expected at most 1,518 (MTU 1500), found 3000" in told(stream=long)
    assert "expected at most 1,518 (MTU 1500)" in told(stream=long, left="mtu = 3000")
    assert scenario(stream=long, left="mtu = 3000", right="mtu = 3000").streams[0].frame_bytes == 3000
    assert scenario(stream="frame_bytes = 1518", right="mtu = 576"), "frames that the MTU drops"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"datapath": "kernel", "left": 'kind = "tap"'}, 'port[1].kind: expected "internal"'),
        ({"datapath": "af_packet", "left": 'kind = "afxdp"'}, "port[1].kind: expected another one"),
        ({"left": 'kind = "veth"\nqueues = 2'}, "port[1].queues: expected 1"),
        ({"left": "ingress_policing_burst = 9"}, "port[1].ingress_policing_rate: missing"),
        ({"left": "qos = { cir = 1 }"}, "port[1].qos: expected a type"),
        ({"left": 'vlan_mode = "access"'}, "port[1].tag: missing"),
        ({"datapath": "af_xdp", "left": "mtu = 3000"}, "port[1].mtu: expected at most 1500"),
        ({"more": '[[bond]]\nname = "b"\nports = ["left"]'}, "bond[1].ports: expected two or more"),
        ({"more": '[[bond]]\nname = "b"\nports = ["left", "x"]'}, "bond[1].ports: expected names of [[port]]s"),
        ({"left": "tag = 5", "more": '[[bond]]\nname = "b"\nports = ["left", "right"]'}, "port[1].tag: expected none"),
        ({"more": '[[mirror]]\nname = "m"\nto = "x"'}, "mirror[1].to: expected names of [[port]]s (left, right)"),
        ({"more": '[[mirror]]\nname = "m"\nselect = ["left"]\nto = "left"'}, "mirror[1].select: expected ports other"),
    ],
)
def test_what_does_not_fit_together_is_told(parts, problem):
    assert problem in told(**parts)


def test_the_plain_experiment_has_neither_mirrors_nor_meters():
    more = f'{TAP}[[mirror]]\nname = "m"\nto = "tap"\n'
    wanted = scenario(dut='meters = "meter=1,pktps,band=type=drop,rate=9"', more=more)
    experiments = registry.device_of(wanted).experiments(wanted)
    (plain,) = [changed for kind, changed in experiments.items() if kind.name == "PLAIN"]
    assert (plain.dut.mirrors, plain.dut.bridges[0].meters) == ((), ())
