"""What is said of a service, from what a real client got and what the logs of real servers saw."""

from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from pinchpoint.dut.device import Attachment
from pinchpoint.dut.ovs import balancing
from pinchpoint.dut.places import Places
from pinchpoint.host.local import Local
from pinchpoint.measure import kernel_ends
from pinchpoint.measure.verify import ends
from pinchpoint.measure.verify.judged import Got, label, path, seen
from pinchpoint.measure.verify.judged import program_checks as checks
from pinchpoint.measure.verify.turns import Dealing
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service

SERVICE = Service(
    address="10.0.0.100",
    port=80,
    scheduler=Scheduler.ROUND_ROBIN,
    mode=Mode.FULL_NAT,
    clients=Range(0x0A000101, 4),
    local=Range(0x0A0100F0, 2),
    client_port="clients",
    server_port="servers",
    backends=tuple(Backend(f"10.1.0.{n}", 8080) for n in (1, 2, 3)),
)
IN_TURN = [Got(f"server {label(number)}\n") for number in range(3)]


def logs(*backends, address="10.1.0.240"):
    """Those of three servers, where request n was seen by the n-th of these."""
    lines = ["ready\n"] * 3
    for number, backend in enumerate(backends, start=1):
        lines[backend] += f"{address} {path(number)}\n"
    return lines


def wrong(got, where, service=SERVICE):
    return {check.name: check.words for check in checks(service, got, where) if not check.is_right}


def test_three_requests_that_three_servers_answer_in_turn_are_right():
    checks_made = list(checks(SERVICE, IN_TURN, logs(0, 1, 2)))
    assert all(check.is_right for check in checks_made)
    assert checks_made[1].words == "server 02 (10.1.0.2:8080) answered and saw 10.1.0.240, a local address"
    assert checks_made[-1].words == "1 / 1 / 1, in turn"


@pytest.mark.parametrize(
    ("got", "where", "name", "words"),
    [
        ([*IN_TURN[:2], Got("", "curl: (28) timed out")], logs(0, 1), "request 3", "timed out; no server saw it"),
        ([*IN_TURN[:2], Got("", "curl: (28) timed out")], logs(0, 1, 2), "request 3", "server 03 (10.1.0.3:8080) saw"),
        ([*IN_TURN[:2], Got("It works!")], logs(0, 1), "request 3", "an answer that no server gives: 'It works!'"),
        (IN_TURN, logs(0, 1, 1), "request 3", "server 03 (10.1.0.3:8080) answered; server 02 (10.1.0.2:8080) saw"),
        ([IN_TURN[0]] * 3, logs(0, 0, 0), "busiest server", "3 / 0 / 0, not in turn"),
    ],
)
def test_what_the_service_does_wrong_is_named(got, where, name, words):
    faults = wrong(got, where)
    assert list(faults) == [name]
    assert words in faults[name]


def test_an_address_outside_the_pool_is_wrong_and_named():
    faults = wrong(IN_TURN, logs(0, 1, 2, address="10.0.1.1"))
    assert list(faults) == ["request 1", "request 2", "request 3"]
    assert "saw 10.0.1.1, which is not a local address" in faults["request 1"]
    assert wrong(IN_TURN, logs(0, 1, 2, address="10.0.1.1"), replace(SERVICE, mode=Mode.DNAT, local=None)) == {}


def test_workers_that_each_deal_in_turn_may_all_begin_with_the_same_server():
    same = [IN_TURN[0]] * 3
    assert [check.is_right for check in checks(SERVICE, same, logs(0, 0, 0), Dealing(turns=3))] == [True] * 4


def test_a_hash_may_choose_the_same_server_again():
    assert wrong([IN_TURN[0]] * 3, logs(0, 0, 0), replace(SERVICE, scheduler=Scheduler.HASH)) == {}


def test_a_request_that_a_server_saw_twice_is_wrong():
    twice = logs(0, 1, 2)
    twice[0] += f"10.1.0.241 {path(1)}\n"
    assert seen(twice, 1) == {0: ("10.1.0.240", "10.1.0.241")}
    assert list(wrong(IN_TURN, twice)) == ["request 1"]


class Commands(Local):
    """Notes what it is asked to run; every interface has the same Ethernet address."""

    def __init__(self):
        self.ran = []

    def run(self, argv, netns=None, *_arguments, **_more):
        self.ran.append((netns, " ".join(argv)))
        return "02:00:00:00:00:aa\n" if argv[0] == "cat" else ""


def _in_place(monkeypatch, service, clients=1):
    """The commands until the ends are in the engine's place, and those that give all back."""
    monkeypatch.setattr(
        kernel_ends, "create", lambda resource, machine: machine.ran.append((None, f"add {resource.name}"))
    )
    monkeypatch.setattr(
        kernel_ends, "remove", lambda resource, machine: machine.ran.append((None, f"delete {resource.name}"))
    )
    machine = Commands()
    places = Places("b", PurePosixPath("/run/b"), machine)
    attachments = {0: Attachment("af_packet", "clients", "engine"), 1: Attachment("af_packet", "servers", "engine")}
    planned = SimpleNamespace(attachment=lambda number, _port: attachments[number])
    ports = [SimpleNamespace(name="clients"), SimpleNamespace(name="servers")]
    scenario = SimpleNamespace(ports=ports)
    bench = SimpleNamespace(scenario=scenario, host=machine, setup=SimpleNamespace(places=places, bench=planned))
    with kernel_ends.kernel_ends(bench, service, "verify.programs", clients) as names:
        before, machine.ran = machine.ran, []
    return names, before, machine.ran


def test_real_ends_take_the_place_of_the_engine_and_give_it_back(monkeypatch):
    (client, servers), before, after = _in_place(monkeypatch, SERVICE)
    told = [words for netns, words in before if netns == servers or f"-n {servers}" in words]
    assert [word for word in told if "address add" in word] == [
        f"ip -n {servers} address add 10.1.0.{n}/32 dev servers" for n in (1, 2, 3)
    ]
    assert "sysctl -qw net/ipv4/conf/servers/arp_notify=1" in told
    assert f"ip -n {servers} link set dev servers address 02:00:00:00:00:02" in told
    assert f"ip -n {client} route add 10.0.0.100/32 dev clients src 10.0.1.1" in [words for _, words in before]
    assert [words for _, words in after] == [
        words
        for name, link in ((servers, "servers"), (client, "clients"))
        for words in (
            f"ip -n {name} link set dev {link} netns engine",
            f"ip -n engine link set dev {link} address 02:00:00:00:00:aa",
            f"ip -n engine link set dev {link} up",
            f"delete {name}",
        )
    ]


def test_with_dnat_the_servers_know_the_client_behind_the_device(monkeypatch):
    service = replace(SERVICE, mode=Mode.DNAT, local=None)
    (_, servers), before, _ = _in_place(monkeypatch, service)
    neighbour = "neighbour add 10.0.1.1 lladdr 02:00:00:00:00:aa dev servers nud permanent"
    assert f"ip -n {servers} {neighbour}" in [words for _, words in before]


def test_clients_have_as_many_addresses_as_are_wanted(monkeypatch):
    service = replace(SERVICE, mode=Mode.DNAT, local=None)
    (client, servers), before, _ = _in_place(monkeypatch, service, clients=3)
    told = [words for _, words in before]
    for number in (1, 2, 3):
        assert f"ip -n {client} address add 10.0.1.{number}/32 dev clients" in told
        assert any(words.startswith(f"ip -n {servers} neighbour add 10.0.1.{number} lladdr") for words in told)


def test_a_device_that_asks_nobody_finds_them_where_the_engine_was():
    assert (balancing._CLIENTS_MAC, balancing._BACKENDS_MAC) == kernel_ends.MACS


def test_a_server_of_another_host_is_written_there(tmp_path):
    class Far(Local):
        name = "far"

    here, there = (Places("b", PurePosixPath(tmp_path), host) for host in (Local(), Far()))
    assert Path(ends._server(here)[1]).parent == Path(ends.__file__).parent
    python, server = ends._server(there)
    assert (python, server) == ("python3", f"{tmp_path}/http_server.py")
    assert "class Numbered" in Path(server).read_text()
