"""Guests in the path (PVP, PVVP), as data, and the account of frames that pass the switch once more for each."""

from dataclasses import replace
from pathlib import PurePosixPath

import msgspec
import pytest
from trials import engine_result, port, stream_counts

from pinchpoint.account import ledger
from pinchpoint.bench.resource import Command, Daemon, TextFile
from pinchpoint.dut import registry
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs import guests
from pinchpoint.dut.places import Places
from pinchpoint.host.guest import LINE
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse
from pinchpoint.scenario.plain import from_plain, to_plain

PVP = """
title = "PVP: wire to VM and back"
[dut]
datapath = "{datapath}"
pmd_cpus = [1]
rules = \"\"\"
in_port={{left}},actions=output:{{vm1}}
in_port={{vm2}},actions=output:{{right}}
\"\"\"
[[port]]
name = "left"
[[port]]
name = "right"
[[port]]
name = "vm1"
forwards_to = "{to}"
{vm1}
[[port]]
name = "vm2"
{vm2}
[engine]
cpus = [0]
[[stream]]
from = "{start}"
to = "right"
"""
PLACE = PurePosixPath("/run/pinchpoint/b1")


class Machine(Local):
    def cpus(self):
        return frozenset(range(4))


def pvp(datapath="dpdk", to="vm2", vm1="", vm2="", start="left"):
    return parse(PVP.format(datapath=datapath, to=to, vm1=vm1, vm2=vm2, start=start), "pvp.toml")


def planned(wanted):
    return registry.device_of(wanted).bench(wanted, Places("b1", PLACE, Machine())).resources(
        Pages(0, 100_000), ["engine"])  # fmt: skip


def test_the_engine_is_at_the_wires_alone_and_rules_name_all_ports():
    wanted = pvp()
    assert [end.name for end in wanted.ports] == ["left", "right"]
    assert [(first.name, second.name) for first, second in wanted.dut.guests] == [("vm1", "vm2")]
    commands = [resource.argv for resource in planned(wanted) if isinstance(resource, Command)]
    (argv,) = [argv for argv in commands if "add-br" in argv]
    assert argv.count("add-port") == argv.count("type=dpdkvhostuserclient") == 4


def test_a_stored_scenario_has_its_guests():
    wanted = pvp()
    assert from_plain(msgspec.json.decode(msgspec.json.encode(to_plain(wanted)))) == wanted


def test_a_guest_is_testpmd_between_two_sockets_that_the_switch_connects_to():
    daemons = [resource for resource in planned(pvp(vm1="ring = 256")) if isinstance(resource, Daemon)]
    assert [daemon.name for daemon in daemons] == ["ovsdb-server", "ovs-vswitchd", "guest-vm1"]
    words = " ".join(daemons[-1].argv)
    assert f"--vdev=net_virtio_user0,path={PLACE}/vhost-vm1.sock,server=1,queues=1,queue_size=256" in words
    assert f"--vdev=net_virtio_user1,path={PLACE}/vhost-vm2.sock,server=1,queues=1,queue_size=1024" in words
    assert "-l 0,2 --main-lcore 0" in words, "a CPU that neither engine nor switch has"


def test_a_machine_shares_its_memory_with_the_switch_and_bridges_its_interfaces(monkeypatch):
    monkeypatch.setattr(KERNELS["qemu"], "_has_kvm", lambda machine: False)
    resources = planned(pvp(vm1='forwards_in = "vm"\nforward_cpu = 3'))
    guest = next(one for one in resources if isinstance(one, Daemon) and one.name == "guest-vm1")
    words = " ".join(guest.argv)
    assert "-object memory-backend-memfd,id=ram0,size=256M,share=on" in words and "memdev=ram0" in words
    assert f"socket,id=ring0,path={PLACE}/vhost-vm1.sock,server=on" in words
    assert "vhost-user,id=net1,chardev=ring1" in words
    assert "-cpu max" in words, "without SSE4 programs of DPDK end"
    assert LINE not in words and "unshare" not in guest.argv, "a daemon, which SIGTERM ends"
    assert guest.cpus == (3,)
    (script,) = [one for one in resources if isinstance(one, TextFile) and one.path.endswith("guest-vm1.sh")]
    assert f"pinchpoint.init={script.path}" in words
    assert "ip link set dev eth1 master forward up" in script.lines
    assert resources.index(script) < resources.index(guest)
    assert registry.device("ovs").pages(pvp(vm1='forwards_in = "vm"')) < registry.device("ovs").pages(pvp())


@pytest.mark.parametrize("is_emulated", [True, False])
def test_an_emulated_machine_in_the_path_is_told_as_any_emulated_processor_is(monkeypatch, is_emulated):
    monkeypatch.setattr(type(KERNELS["qemu"]), "is_emulated", lambda *_: is_emulated)
    places = Places("b1", PLACE, Machine())
    told = {"guest.processor": "emulated" if is_emulated else "real"}
    assert guests.settings(pvp(vm1='forwards_in = "vm"'), places) == told
    assert guests.settings(pvp(), places) == {}


def test_it_takes_memory_of_its_own():
    device, wanted = registry.device("ovs"), pvp()
    without = replace(wanted, dut=replace(wanted.dut, inner=()))
    assert device.pages(wanted) - device.pages(without) == 96


SEEN = {
    "ovs/port/left/rx_pkts": 1000, "ovs/port/left/rx_drop": 0,
    "ovs/port/vm1/tx_pkts": 900, "ovs/port/vm1/tx_drop": 100, "ovs/port/vm1/ovs_tx_failure_drops": 100,
    "ovs/port/vm2/rx_pkts": 850, "ovs/port/vm2/rx_drop": 0,
    "ovs/port/right/tx_pkts": 850, "ovs/port/right/tx_drop": 0,
    "ovs/pmd/core1/packets_received": 1850,
    "testpmd/port/vm1/refused": 0, "testpmd/port/vm2/refused": 50,
}  # fmt: skip


def test_the_account_closes_over_both_passes_and_names_what_the_guest_lost():
    engine = engine_result(
        streams=[stream_counts(offered=1000, refused=0, received=850)],
        ports=[port("left", sent=1000, refused=0), port("right", received=850)],
    )
    wanted = pvp()
    account = ledger.build(engine, SEEN, ("left", "right"), registry.device_of(wanted).graph(wanted))
    assert (account.dropped, account.unexplained) == (150, 0)
    drops = {drop.name: (drop.frames, drop.limits) for hop in account.hops for drop in hop.drops}
    assert drops == {
        "ring of vm1 full: its guest does not fetch": (100, "dut"),
        "receive ring of vm2 full": (50, "dut"),
    }
    counts = {hop.name: (hop.frames_in, hop.frames_out) for hop in account.hops}
    assert counts["datapath"] == (1000, 1000)
    assert counts["switch sends"] == (850, 850)


def test_a_switch_with_guests_is_not_frozen_and_no_experiment_takes_frames_past_them():
    wanted = pvp()
    assert "guests" in registry.device_of(wanted).freezing(wanted).why_not
    assert "PLAIN" not in [kind.name for kind in registry.device_of(wanted).experiments(wanted)]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"to": "vm1"}, "port[3].forwards_to: expected the name of another [[port]] (left, right, vm2)"),
        ({"to": "nobody"}, "port[3].forwards_to: expected the name of another [[port]]"),
        ({"vm2": 'forwards_to = "vm1"'}, 'port[4].forwards_to: expected two ports of one guest alone, found "vm2"'),
        ({"datapath": "af_packet"}, 'port[3].forwards_to: expected none where dut.datapath is "af_packet"'),
        ({"vm1": 'kind = "tap"'}, "port[3].kind: expected none where a guest is at the port's other end"),
        ({"vm2": "queues = 2"}, "port[4].queues: expected 1 where a guest"),
        ({"vm1": "forward_cpu = 0"}, "port[3].forward_cpu: expected a CPU other than engine.cpus"),
        ({"vm2": "forward_cpu = 3"}, "port[4].forward_cpu: expected forwards_to with it"),
        ({"vm2": 'forwards_in = "vm"'}, "port[4].forwards_in: expected forwards_to with it"),
        ({"start": "vm1"}, "stream[1].from: expected a port with the engine at its other end"),
    ],
)
def test_what_no_guest_can_be_is_told(changed, problem):
    with pytest.raises(InputError) as error:
        pvp(**changed)
    assert problem in str(error.value), str(error.value)
