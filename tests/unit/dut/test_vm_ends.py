"""Ends of a socket workload that are virtual machines: what a file may say, and what is built."""

from pathlib import PurePosixPath

import pytest

from pinchpoint.bench.builder import Builder
from pinchpoint.bench.resource import Command, GuestKernel, Host, Inside, Namespace, Relay, RunDirectory, Tap
from pinchpoint.dut import registry, vm_ends
from pinchpoint.dut.device import Pages
from pinchpoint.dut.places import Places
from pinchpoint.dut.setup import prepare
from pinchpoint.host.guest import Guest
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.sockets.run import Ends, requests
from pinchpoint.model.errors import InputError
from pinchpoint.model.guest import EMULATED, PROCESSOR
from pinchpoint.scenario import parse

RUN = PurePosixPath("/run/pinchpoint/b1")
SCENARIO = """
title = "an end in a virtual machine"
measure = "rr"
{top}
[dut]
kind = "ovs"
datapath = "{datapath}"
pmd_cpus = [1]
rules = "actions=NORMAL"
[[host]]
name = "client"
address = "192.168.7.1/24"
cpus = {cpus}
{client}
[[host]]
name = "server"
address = "192.168.7.2/24"
cpus = [0]
{server}
[sockets]
client = "client"
server = "server"
connections = 2
"""
QEMU, UML = 'vm = "qemu"', 'vm = "uml"'


def scenario(datapath="af_packet", client=QEMU, server="", cpus="[0]", top=""):
    text = SCENARIO.format(datapath=datapath, client=client, server=server, cpus=cpus, top=top)
    return parse(text, "x.toml")


def planned(wanted):
    bench = registry.device_of(wanted).bench(wanted, Places("b1", RUN, Local()))
    return bench.resources(Pages(4096, 4096), ["engine"])


@pytest.fixture(autouse=True)
def no_kvm(monkeypatch):
    monkeypatch.setattr(KERNELS["qemu"], "_has_kvm", lambda machine: False)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"client": UML}, 'host[1].vm: expected another than "uml" where dut.datapath is "af_packet"'),
        ({"client": UML, "datapath": "dpdk"}, 'host[1].vm: expected another than "uml" where dut.datapath is "dpdk"'),
        (
            {"client": UML, "datapath": "kernel", "cpus": "[0, 1]"},
            'host[1].cpus: expected one CPU where vm is "uml"',
        ),
        ({"client": 'vm = "kvm"'}, 'host[1].vm: expected "uml" or "qemu", found "kvm"'),
        (
            {"server": 'runs_on = "rack2"\ninterface = "eth7"\nend_interface = "eth8"'},
            "host[2].runs_on: expected none where an end is a virtual machine",
        ),
        (
            {"datapath": "kernel", "top": '[guest]\nkernel = "qemu"\ncpus = 2\n'},
            "host[1].vm: expected none where there is a [guest]",
        ),
    ],
)
def test_what_cannot_be_a_virtual_machine_is_told_with_its_key(changes, problem):
    with pytest.raises(InputError) as error:
        scenario(**changes)
    assert problem in str(error.value)


def test_user_mode_linux_is_taken_where_the_kernel_forwards():
    assert scenario("kernel", UML).hosts[0].vm == "uml"


@pytest.mark.parametrize("datapath", ["af_packet", "kernel"])
def test_a_machine_is_behind_a_tap_of_its_own_and_boots_after_the_switch_has_it(datapath):
    made = planned(scenario(datapath))
    assert [resource.name for resource in made if isinstance(resource, Tap)] == ["client"]
    assert [resource.netns for resource in made if isinstance(resource, Host)] == ["pp-b1-host-server"]
    (kernel,) = [resource for resource in made if isinstance(resource, GuestKernel)]
    assert (kernel.name, kernel.cpus, kernel.netns) == ("client", (0,), "pp-b1-dut")
    assert [word for word in kernel.argv if word.startswith("tap,")] == [
        "tap,id=net0,ifname=client,script=no,downscript=no,vhost=off,vnet_hdr=off"
    ]
    inside = made[made.index(kernel) + 1 :]
    assert {type(resource) for resource in inside} == {Inside}
    assert {resource.guest for resource in inside} == {"client"}
    assert inside[0].resource == Namespace("pp-b1-host-client")


@pytest.mark.parametrize(("datapath", "completes"), [("af_packet", True), ("dpdk", True), ("kernel", False)])
def test_checksums_are_complete_where_the_switch_reads_them_in_userspace(datapath, completes):
    inside = [resource.resource for resource in planned(scenario(datapath)) if isinstance(resource, Inside)]
    argvs = [resource.argv for resource in inside if isinstance(resource, Command)]
    assert (("ethtool", "-K", "eth0", "tx", "off", "tso", "off") in argvs) is completes


def test_a_machine_at_a_dpdk_switch_serves_its_rings_and_needs_no_relay():
    made = planned(scenario("dpdk", server=QEMU))
    kernels = [resource for resource in made if isinstance(resource, GuestKernel)]
    assert [kernel.name for kernel in kernels] == ["client", "server"]
    assert not [resource for resource in made if isinstance(resource, Tap | Relay | Host)]
    words = kernels[0].argv
    assert f"socket,id=ring0,path={RUN}/vhost-client.sock,server=on" in words
    assert "vhost-user,id=net0,chardev=ring0" in words
    assert any("share=on" in word for word in words), "the switch maps its memory"


def test_the_other_host_of_a_dpdk_switch_keeps_its_relay():
    (relay,) = [resource for resource in planned(scenario("dpdk")) if isinstance(resource, Relay)]
    assert {way for ways in relay.directions for way in ways} == {"server", "server at the switch"}


def test_virtual_cpus_run_on_the_cpus_of_the_end_one_on_each():
    made = planned(scenario("kernel", cpus="[2, 3]"))
    (kernel,) = [resource for resource in made if isinstance(resource, GuestKernel)]
    assert [cpu for _, cpu in kernel.threads] == [2, 3]
    wanted = requests(Ends.of(scenario("kernel", cpus="[2, 3]", server=QEMU)), ("c", "s"), "t")
    assert [(request.client.core, request.server.core) for request in wanted] == [(0, 0)]


def test_each_end_has_an_engine_of_its_own_on_its_machine():
    ends = Ends.of(scenario())
    assert (ends.machine("client"), ends.machine("server")) == ("the virtual machine client", "lab")
    assert ends.elsewhere == {"client": "the virtual machine client"}
    assert ends.cpus == (0, 1), "its CPUs are this machine's"
    assert ends.words == ("client on the virtual machine client", "server on lab")
    assert not Ends.of(scenario(client="")).elsewhere, "one engine has both"


def test_a_prepared_bench_has_a_line_to_each_machine():
    setup = prepare(scenario("kernel"), Machines(Local()))
    assert set(setup.places.guests) == {"client"}
    on = {end.name: setup.places.of_end(end.name, setup.scenario.site_of(end)) for end in setup.scenario.hosts}
    assert on == {"client": setup.places.vms["client"], "server": setup.places.machine}


class Named(Guest):
    """A guest that says what it was asked to make."""

    def __init__(self):
        super().__init__(Local())
        self.asked = []

    def make_folder(self, path):
        self.asked.append(path)

    def release(self):
        return "6.1"


def test_what_is_inside_a_machine_is_made_there(tmp_path):
    guests = {"client": Named(), "server": Named()}
    builder = Builder("b1", Local(), tmp_path, guests)
    inside = Inside(RunDirectory("/nowhere/there"), "server")
    builder.apply([inside])
    assert (guests["client"].asked, guests["server"].asked) == ([], ["/nowhere/there"])
    assert inside.describe() == "in the guest server: mkdir /nowhere/there"
    builder.undo()


def test_the_machines_are_told_with_their_processors():
    places = Places("b1", RUN, Local(), {}, {"client": Named()})
    settings = vm_ends.settings(scenario(), places)
    assert settings == {"virtual machine client": "qemu, 6.1", PROCESSOR: EMULATED}
    assert vm_ends.settings(scenario(client=""), places) == {}
