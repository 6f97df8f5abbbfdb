"""Interfaces that a bench is lent: which it may have, and that they are given back as they were."""

import json
from dataclasses import replace

import pytest

from pinchpoint.host import interfaces, lease
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import RequirementError

ADDRESS = {
    "family": "inet",
    "local": "192.0.2.1",
    "prefixlen": 24,
    "broadcast": "192.0.2.255",
    "scope": "global",
    "label": "eth1",
    "valid_life_time": 4294967295,
    "preferred_life_time": 4294967295,
}
LINK_LOCAL = {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"}
LINK = {"ifname": "eth1", "mtu": 1400, "flags": ["BROADCAST", "UP"], "addr_info": [ADDRESS, LINK_LOCAL]}
CONNECTED = {"dst": "192.0.2.0/24", "protocol": "kernel", "dev": "eth1"}
MULTIPATH = {"dst": "default", "protocol": "static", "nexthops": [{"dev": "eth2"}, {"dev": "eth1"}]}
MAC = "/sys/class/net/eth1/address"
STEERING = "/sys/class/net/eth1/queues/rx-0/rps_cpus"
GIVEN_BACK = [
    f"sh -c {interfaces._BRING_HOME} sh pp-b1-dut left eth1",
    "ip link set dev eth1 promisc off mtu 1400 up",
    "ip address replace 192.0.2.1/24 broadcast 192.0.2.255 dev eth1",
]
STATE = interfaces.State(1400, True, (("192.0.2.1/24", "broadcast", "192.0.2.255"),))


class Machine:
    """Answers as its links, routes and sockets are; notes what changes something."""

    name = "gen"

    def __init__(self, *links, routes=(), sockets="", namespaces=("pp-b1-dut",), is_lent=True):
        self.links, self.routes, self.sockets, self.changes = links, routes, sockets, []
        self.namespaces, self.is_lent = namespaces, is_lent
        self.files, self.offloads, self.stamping = {}, "", ""

    def which(self, program):
        return f"/usr/sbin/{program}" if self.stamping else None

    def run(self, argv, *_, **__):
        line = " ".join(argv)
        shown = {
            "ip -j -d address show": json.dumps(self.links),
            "ip -j link show master eth1": json.dumps([link for link in self.links if link.get("master") == "eth1"]),
            "ip -j -4 route show table all": json.dumps(self.routes),
            "ip -j -6 route show table all": "",
            "ip -n pp-b1-dut link show dev left": "",
            "ss -H -t -n -p state established": self.sockets,
            "ethtool -k eth1": self.offloads,
            "hwstamp_ctl -i eth1": self.stamping,
        }
        if line not in shown:
            self.changes.append(line)
        elif "-n" in argv and "left" in argv and not self.is_lent:
            raise CommandFailed(argv, "Device does not exist.")
        return shown.get(line, "")

    def exists(self, path):
        return path in self.files or path.rpartition("/")[2] in (*self.namespaces, "eth1", "netns")

    def read(self, path):
        return self.files[path]

    def write(self, path, text):
        self.files[path] = text

    def names(self, folder):
        return list(self.namespaces)

    def remove_folder(self, path):
        self.changes.append("folder")

    def remove_file(self, path):
        self.changes.append("journal")


def test_an_interface_is_known_with_what_is_restored():
    link = interfaces.look(Machine(LINK, routes=[CONNECTED]), "eth1")
    words = ("192.0.2.1/24", "broadcast", "192.0.2.255", "scope", "global", "label", "eth1")
    assert link == interfaces.State(1400, True, (words,)), "a link-local address comes back by itself"


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (Machine({**LINK, "ifname": "eth2"}), "eth1: no such interface on gen; there are eth2"),
        (Machine(LINK, routes=[{"dst": "default", "dev": "eth1"}]), "eth1 on gen carries the default route"),
        (Machine(LINK, routes=[MULTIPATH]), "eth1 on gen carries the default route"),
        (Machine(LINK, routes=[{"dst": "10/8", "protocol": "static", "dev": "eth1"}]), "carries a route to 10/8"),
        (Machine({**LINK, "master": "bond0"}), "is enslaved to bond0"),
        (Machine(LINK, {"ifname": "eth2", "master": "eth1"}), "is the master of eth2"),
        (Machine(LINK, {"ifname": "eth1.7", "link": "eth1"}), "carries eth1.7"),
        (Machine({**LINK, "flags": ["LOOPBACK"]}), "is the loopback interface"),
        (
            Machine(LINK, sockets='0 0 192.0.2.1:22 192.0.2.9:40000 users:(("sshd",pid=7,fd=4))\n'),
            "carries an ssh connection with 192.0.2.9",
        ),
        (
            Machine(LINK, sockets='0 0 [::ffff:192.0.2.1]:22 [::ffff:192.0.2.9]:1 users:(("sshd-session",pid=7))\n'),
            "carries an ssh connection with 192.0.2.9",
        ),
    ],
)
def test_one_that_others_depend_on_is_refused_by_name(machine, told):
    with pytest.raises(RequirementError) as caught:
        interfaces.look(machine, "eth1")
    assert told in caught.value.message


def test_a_connection_of_another_program_refuses_nothing():
    sockets = '0 0 192.0.2.1:80 192.0.2.9:40000 users:(("nginx",pid=7,fd=4))\n'
    assert interfaces.look(Machine(LINK, sockets=sockets), "eth1").is_up


def test_what_was_lent_is_given_back_with_mtu_state_and_addresses():
    machine = Machine(LINK)
    interfaces.give_back(machine, "eth1", "pp-b1-dut", "left", STATE)
    assert machine.changes == GIVEN_BACK


def test_what_was_never_moved_is_made_what_it_was():
    machine = Machine(LINK, is_lent=False)
    interfaces.give_back(machine, "eth1", "pp-b1-dut", "left", STATE)
    assert machine.changes == GIVEN_BACK[1:]


def test_the_address_that_a_router_changed_and_a_switchs_promiscuity_are_as_before():
    machine = Machine({**LINK, "address": "02:00:00:00:00:01", "flags": ["UP", "PROMISC"]}, is_lent=False)
    machine.files[MAC] = "02:00:00:00:00:01\n"
    state = interfaces.look(machine, "eth1")
    assert (state.mac, state.is_promiscuous) == ("02:00:00:00:00:01", True)
    interfaces.give_back(machine, "eth1", "pp-b1-dut", "left", state)
    assert "promisc on" in machine.changes[0], "an address that is the same is left alone"
    machine.changes.clear()
    machine.files[MAC] = "02:00:00:00:00:02\n"
    interfaces.give_back(machine, "eth1", "pp-b1-dut", "left", state)
    assert machine.changes[:2] == ["ip link set dev eth1 down", "ip link set dev eth1 address 02:00:00:00:00:01"]


def test_an_offload_that_the_bench_changed_is_as_before():
    machine = Machine(LINK, is_lent=False)
    told = (
        "Features for eth1:\nrx-checksumming: on [fixed]\ntx-checksumming: {}\n"
        "\ttx-checksum-ipv4: off [fixed]\ngeneric-receive-offload: on\n"
    )
    machine.offloads = told.format("on")
    state = interfaces.look(machine, "eth1")
    assert state.offloads == (("tx", "on"), ("gro", "on"))
    machine.offloads = told.format("off")
    interfaces.give_back(machine, "eth1", "pp-b1-dut", "left", state)
    assert machine.changes[-1] == "ethtool -K eth1 tx on"
    assert not [line for line in machine.changes if "gro" in line]


def test_a_nic_that_stamps_for_a_bench_stamps_as_before_once_it_is_given_back():
    machine = Machine(LINK)
    with pytest.raises(RequirementError) as caught:
        interfaces.stamped(machine, "eth1")
    assert (caught.value.message, caught.value.hint) == (
        "hwstamp_ctl on gen: not installed",
        "apt-get install linuxptp",
    )
    machine.stamping = "current settings:\ntx_type 0\nrx_filter 12\n"
    state = replace(STATE, stamped=interfaces.stamped(machine, "eth1"))
    interfaces.give_back(machine, "eth1", "pp-b1-dut", "left", state)
    assert machine.changes == [*GIVEN_BACK, "hwstamp_ctl -i eth1 -r 12"]
    machine.stamping = "SIOCGHWTSTAMP failed: Operation not supported\n"
    with pytest.raises(RequirementError) as caught:
        interfaces.stamped(machine, "eth1")
    assert caught.value.message.startswith("eth1 on gen stamps no frames: ")


def test_an_interface_goes_home_before_its_namespace_ends_with_the_lease(tmp_path):
    lent = {"kind": "lent_interface", "interface": "eth1", "netns": "pp-b1-dut", "name": "left", "mtu": 1500}
    lent |= {"mtu_before": 1400, "was_up": True, "addresses": [["192.0.2.1/24", "broadcast", "192.0.2.255"]]}
    journal = tmp_path / "b1.journal"
    journal.write_text(json.dumps({"op": "create", "resource": lent}) + "\n")
    machine = Machine(LINK)
    machine.names = lambda folder: list(machine.namespaces) if folder.endswith("netns") else []
    assert lease.undo(journal, machine)
    assert machine.changes == [*GIVEN_BACK, "ip netns del pp-b1-dut", "folder", "journal"]


def test_an_interface_that_cannot_be_made_what_it_was_keeps_no_other_from_home(tmp_path):
    lent = {"kind": "lent_interface", "netns": "pp-b1-dut", "mtu": 1500, "mtu_before": 1400, "was_up": True}
    first = lent | {"interface": "eth0", "name": "right", "addresses": []}
    second = lent | {"interface": "eth1", "name": "left", "addresses": [], "stamped_before": "0"}
    journal = tmp_path / "b1.journal"
    journal.write_text("".join(json.dumps({"op": "create", "resource": each}) + "\n" for each in (first, second)))
    machine, run = Machine(LINK), Machine.run

    def refusing(argv, *_, **__):
        if argv[0] == "hwstamp_ctl":
            raise CommandFailed(argv, "SIOCSHWTSTAMP failed: Network is down")
        return run(machine, argv)

    machine.run = refusing
    machine.exists = lambda path: True
    machine.read = lambda path: ""
    assert not lease.undo(journal, machine)
    assert "ip link set dev eth0 promisc off mtu 1400 up" in machine.changes
    assert not any("netns del" in line for line in machine.changes), "the one that is not home would go with it"
    assert journal.exists()


def test_packets_are_steered_as_before_once_it_is_given_back():
    machine = Machine(LINK, routes=[CONNECTED])
    machine.files[STEERING] = "0\n"
    state = interfaces.look(machine, "eth1")
    machine.files[STEERING] = "2\n"
    interfaces.give_back(machine, "eth1", "pp-b1-dut", "left", state)
    assert machine.files[STEERING] == "0"


def test_a_lease_deletes_no_namespace_beside_a_damaged_line_which_may_have_lent_an_interface(tmp_path):
    journal, machine = tmp_path / "b1.journal", Machine(LINK)
    journal.write_text("\0\0\n")
    assert not lease.undo(journal, machine)
    assert not [line for line in machine.changes if "netns del" in line]
