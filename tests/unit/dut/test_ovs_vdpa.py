"""Ports of the type dpdkvdpa, as data: nobody here has a NIC with one. The commands are those of its documentation."""

from pathlib import PurePosixPath

import pytest

from pinchpoint.bench.resource import Command, Daemon
from pinchpoint.dut import registry
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import switch_ports, vdpa_known
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.run.paired_benches import why_no_duet
from pinchpoint.scenario import parse

PLACES = OvsPlaces("b1", PurePosixPath("/run/pinchpoint/b1"), Local())
LEFT = """kind = "vdpa"
pf = "0000:05:00.0"
vf = "0000:05:00.2"
representor = 0
"""
RIGHT = LEFT.replace("05:00.2", "05:00.3").replace("representor = 0", "representor = 1")
SCENARIO = """
[dut]
datapath = "{datapath}"
pmd_cpus = [1]
rules = "in_port={{left}},actions=output:{{right}}"
[[port]]
name = "left"
{left}
[[port]]
name = "right"
{right}
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""
# topics/dpdk/vdpa.rst of the series "Introduce dpdkvdpa netdev": options of the port, without the socket's place.
DOCUMENTED = """type=dpdkvdpa
options:vdpa-socket-path=/run/pinchpoint/b1/vhost-left.sock
options:vdpa-accelerator-devargs="0000:05:00.2"
options:dpdk-devargs="0000:05:00.0,representor=[0]\""""


def scenario(left=LEFT, right=RIGHT, datapath="dpdk"):
    return parse(SCENARIO.format(left=left, right=right, datapath=datapath), "x.toml")


def planned(wanted):
    return (
        registry.device_of(wanted)
        .bench(wanted, Places("b1", PLACES.directory, Local()))
        .resources(Pages(0, 100_000), ["engine"])
    )


def argv_of(made):
    return [resource.argv for resource in made if isinstance(resource, Command)]


def test_its_options_are_the_documented_ones():
    left, right = switch_ports(scenario(), PLACES)
    assert [f"{name}={value}" for name, value in left.columns.items()] == DOCUMENTED.splitlines()
    assert right.columns["options:dpdk-devargs"] == '"0000:05:00.0,representor=[1]"'


def test_the_nic_comes_with_all_its_representors_and_without_its_functions():
    (words,) = [word for argv in argv_of(planned(scenario())) for word in argv if "dpdk-extra" in word]
    assert '"-a 0000:05:00.0,representor=[0,1] --in-memory' in words
    assert "--no-pci" not in words and "05:00.2" not in words


def test_several_queues_are_asked_of_the_function_and_of_its_representor():
    wanted = parse(
        SCENARIO.format(left=f"{LEFT}queues = 2", right=f"{RIGHT}queues = 2", datapath="dpdk").replace("[0]", "[0, 2]"),
        "x.toml",
    )
    (left, _) = switch_ports(wanted, PLACES)
    assert (left.columns["options:vdpa-max-queues"], left.columns["options:n_rxq"]) == ("2", "2")


def test_the_engine_is_the_server_of_the_socket_as_a_guest_would_be():
    wanted = scenario()
    attached = (
        registry.device_of(wanted).bench(wanted, Places("b1", PLACES.directory, Local())).attachment(0, wanted.ports[0])
    )
    assert attached.device.startswith("net_virtio_user0,path=/run/pinchpoint/b1/vhost-left.sock,server=1")


def test_the_running_switch_is_asked_for_its_types_before_it_gets_a_port():
    made = planned(scenario())
    (asked,) = [n for n, resource in enumerate(made) if isinstance(resource, Command) and "wait-until" in resource.argv]
    started = next(
        n for n, resource in enumerate(made) if isinstance(resource, Daemon) and resource.name == "ovs-vswitchd"
    )
    added = next(n for n, resource in enumerate(made) if isinstance(resource, Command) and "add-port" in resource.argv)
    assert started < asked < added
    assert made[asked].argv[-4:] == ("wait-until", "Open_vSwitch", ".", "iface_types{>=}dpdkvdpa")
    assert not [argv for argv in argv_of(planned(scenario("", ""))) if "wait-until" in argv]


def test_a_switch_without_the_type_is_refused_with_the_reason():
    wanted = scenario("", RIGHT)
    (asked,) = vdpa_known(wanted, PLACES)
    bench = registry.device_of(wanted).bench(wanted, Places("b1", PLACES.directory, Local()))
    refused = bench.refusal(CommandFailed(asked.argv, "terminating with signal 14 (Alarm clock)"))
    assert 'x.toml: port right: kind = "vdpa": the running switch has no ports of the type dpdkvdpa' in str(refused)
    assert "dut.vswitchd" in refused.hint


@pytest.mark.parametrize(
    ("left", "right", "problem"),
    [
        (LEFT.replace("representor = 0", ""), RIGHT, 'port[1].representor: missing; port.kind = "vdpa" needs it'),
        (LEFT.replace('kind = "vdpa"', ""), RIGHT, 'port[1].pf: expected port.kind = "vdpa" with it'),
        (LEFT, LEFT, 'port[2].vf: expected a function that no other port uses, found "0000:05:00.2" again'),
        (LEFT, LEFT, "port[2].representor: expected one that no other port uses, found 0 of 0000:05:00.0 again"),
        (
            f'{LEFT}pci = "0000:06:00.0"\nengine_pci = "0000:06:00.1"',
            RIGHT,
            'port[1].pci: expected no NIC where port.kind is "vdpa"',
        ),
        (LEFT.replace('"vdpa"', '"sriov"'), RIGHT, 'port[1].kind: expected "vdpa" or "veth" or "afxdp"'),
    ],
)
def test_wrong_keys_are_told(left, right, problem):
    with pytest.raises(InputError) as error:
        scenario(left, right)
    assert problem in str(error.value), str(error.value)


def test_only_a_switch_with_dpdk_has_them():
    with pytest.raises(InputError, match=r'port\[1\].kind: expected none where dut.datapath is "af_xdp", found "vdpa"'):
        scenario(datapath="af_xdp")


def test_two_benches_do_not_have_one_function_at_once():
    other = scenario(LEFT.replace("05:00", "06:00"), RIGHT.replace("05:00", "06:00"))
    assert why_no_duet(scenario(), scenario()) == "both benches need the same NIC"
    assert why_no_duet(scenario(), other) == ""
    assert [(link.device.nic, link.device.nics[0]) for link in other.links] == [(None, "0000:06:00.0")] * 2
