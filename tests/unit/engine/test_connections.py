"""Connections over frames: the command line, and tuples that do not come again."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import get_type_hints

import balancers
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.engine.connections import Account, Handed, Load, PortCounts, Sample, Tuples, command, connect
from pinchpoint.model.scenario import Backend, Closer, Range, Transport

SERVICE = replace(balancers.SERVICE, backends=(Backend("10.1.0.1", 8080),))
LOAD = Load(100, 50.0, 1, 1.0)


def said(load=LOAD, service=SERVICE):
    return command(["engine"], [3, 1, 2], ["a", "b"], service, load)


def value(argv, option):
    return argv[argv.index(option) + 1]


@given(st.lists(st.integers(1, 90), min_size=1, max_size=30))
def test_loads_use_no_tuple_twice_until_all_have_been_used(loads):
    tuples, used = Tuples(3, Range(1000, 40)), set()
    for connections in loads:
        taken = tuples.take(connections)
        ports = set(range(taken.first, taken.last + 1))
        assert ports <= set(range(1000, 1040))
        assert 3 * len(ports) >= connections
        if ports & used:
            assert len(used) + len(ports) > 40
            used = set()
        used |= ports


def test_a_load_with_more_connections_than_tuples_uses_all_of_them():
    assert Tuples(2, Range(1025, 10)).take(1000) == Range(1025, 10)


def test_a_load_says_what_is_done_and_from_which_ports():
    argv = said(replace(LOAD, work="reset", hold_s=2.5, ramp_s=0.5, client_ports=Range(2000, 10), one_isn=True))
    assert value(argv, "--client-ports") == "2000-2009"
    assert (value(argv, "--work"), value(argv, "--hold"), value(argv, "--ramp")) == ("reset", "2.5s", "0.5s")
    assert "--one-isn" in argv
    argv_of_sizes = said(replace(LOAD, request_bytes=100, answer_bytes=1440))
    assert (value(argv_of_sizes, "--request-size"), value(argv_of_sizes, "--answer-size")) == ("100", "1440")
    assert not {"--order", "--sample"} & set(argv)
    argv = said(replace(LOAD, in_order=True, is_sampled=True))
    assert ("--order" in argv, value(argv, "--sample")) == (True, "0.1s")


def test_a_load_is_divided_among_cores_that_each_have_a_port_or_an_address_of_the_client():
    assert value(said(), "--cores") == "3,1,2"
    one = replace(SERVICE, clients=Range(0x0A000101, 1), client_ports=Range(1025, 2))
    assert value(said(service=one), "--cores") == "3,1"
    assert value(said(replace(LOAD, client_ports=Range(7, 1)), one), "--cores") == "3"


def test_what_one_core_alone_can_tell_is_opened_by_one():
    for load in (replace(LOAD, hold_s=1.0), replace(LOAD, in_order=True)):
        assert value(said(load), "--cores") == "3"


def test_what_a_core_did_not_take_from_another_was_missed_by_the_engine():
    account = Account(1.0, None, (), ports=(PortCounts("clients", 2), PortCounts("servers")), handed=Handed(9, 5))
    assert account.missed == 7


def test_without_ports_of_its_own_a_load_has_the_service_s():
    assert value(said(), "--client-ports") == "1025-65535"
    assert value(said(service=replace(SERVICE, client_ports=Range(7, 3))), "--client-ports") == "7-9"
    assert "--one-isn" not in said()


def test_all_virtual_servers_are_asked_and_backends_answer_checks_before():
    several = replace(SERVICE, address_count=3, port_count=5)
    assert value(said(service=several), "--to") == "10.0.0.100-10.0.0.102:80-84"
    assert value(said(service=replace(SERVICE, health_s=0.5)), "--lead") == "3.5s"
    assert value(said(service=replace(SERVICE, closes=Closer.BACKEND)), "--close") == "backend"
    assert not {"--lead", "--close"} & set(said())


def test_over_udp_the_work_is_a_request_and_its_answer():
    assert value(said(service=replace(SERVICE, transport=Transport.UDP)), "--work") == "udp"
    assert value(said(), "--work") == "request"


def test_the_account_of_a_sampled_load_has_its_samples():
    zeros = {name: 0 for name, kind in get_type_hints(Sample).items() if kind is int}
    sample = {"type": "sample", "elapsed_s": 0.1, **zeros, "backends": [], "completed": 7}
    account = {"type": "connections", "elapsed_s": 1.0, "client": None, "others": []}
    said = "\n".join(["ready", *(json.dumps(line, separators=(",", ":")) for line in (sample, account))])
    host = SimpleNamespace(run=lambda argv, environment, timeout_s: said)
    found = connect(host, [], (), replace(LOAD, is_sampled=True))
    assert [(one.elapsed_s, one.completed) for one in found.samples] == [(0.1, 7)]
    assert connect(host, [], (), LOAD).samples == ()
