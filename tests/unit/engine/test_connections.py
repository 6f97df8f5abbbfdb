"""Connections over frames: what the engine is asked for, and tuples that do not come again."""

from dataclasses import replace

import balancers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.engine.connections import (
    Account,
    ConnectionsResult,
    Core,
    Gaps,
    Handed,
    Load,
    Outage,
    PortCounts,
    Sample,
    Tuples,
    request,
    watched,
)
from pinchpoint.model.scenario import Backend, Closer, Range, Transport

SERVICE = replace(balancers.SERVICE, backends=(Backend("10.1.0.1", 8080),))
LOAD = Load(100, 50.0, 1, 1.0)
COUNTED = ("opened", "shortfall", "answered", "refused", "reset", "timed_out_connecting", "timed_out_answering",
           "timed_out_closing", "wrong_backend")  # fmt: skip


def asked(load=LOAD, service=SERVICE):
    return request("t-1", ("a", "b"), service, load)


def divided(load=LOAD, service=SERVICE):
    return load.divided((3, 1, 2), service)


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
    told = asked(replace(LOAD, work="reset", hold_s=2.5, ramp_s=0.5, client_ports=Range(2000, 10), one_isn=True))
    assert (told.trial, told.ports, told.client_ports) == ("t-1", ("a", "b"), "2000-2009")
    assert (told.work, told.hold_s, told.ramp_s, told.one_isn) == ("reset", 2.5, 0.5, True)
    assert (told.order, told.sample_interval_s) == (False, None)
    sized = asked(replace(LOAD, request_bytes=100, answer_bytes=1440))
    assert (sized.request_bytes, sized.answer_bytes) == (100, 1440)
    told = asked(replace(LOAD, in_order=True, is_sampled=True))
    assert (told.order, told.sample_interval_s) == (True, 0.1)


def test_a_load_is_divided_among_cores_that_each_have_a_port_or_an_address_of_the_client():
    assert divided() == (3, 1, 2)
    single = replace(SERVICE, clients=Range(0x0A000101, 1), client_ports=Range(1025, 2))
    assert divided(service=single) == (3, 1)
    assert divided(replace(LOAD, client_ports=Range(7, 1)), single) == (3,)


def test_what_one_core_alone_can_tell_is_opened_by_one():
    for load in (replace(LOAD, hold_s=1.0), replace(LOAD, in_order=True)):
        assert divided(load) == (3,)


def test_what_a_core_did_not_take_from_another_was_missed_by_the_engine():
    account = Account(1.0, None, (), ports=(PortCounts("clients", 2), PortCounts("servers")), handed=Handed(9, 5))
    assert account.missed == 7


def test_without_ports_of_its_own_a_load_has_the_service_s():
    assert asked().client_ports == "1025-65535"
    assert asked(service=replace(SERVICE, client_ports=Range(7, 3))).client_ports == "7-9"
    assert not asked().one_isn


def test_all_virtual_servers_are_asked_and_backends_answer_checks_before():
    several = replace(SERVICE, address_count=3, port_count=5)
    assert asked(service=several).to == "10.0.0.100-10.0.0.102:80-84"
    assert asked(service=replace(SERVICE, health_s=0.5)).lead_s == 3.5
    assert asked(service=replace(SERVICE, closes=Closer.BACKEND)).close == "backend"
    assert (asked().lead_s, asked().close) == (0.0, "client")


def test_over_udp_the_work_is_a_request_and_its_answer():
    assert asked(service=replace(SERVICE, transport=Transport.UDP)).work == "udp"
    assert asked().work == "request"


def test_connections_that_are_watched_are_sampled_and_have_outages():
    down = Outage(1, 2.0, 4.5, resets=True)
    told = watched(asked(), [down], by_tuple=True)
    assert (told.sample_interval_s, told.by_tuple, told.down) == (0.1, True, (down,))


def test_a_time_that_is_no_number_is_refused_before_it_is_sent():
    with pytest.raises(ValueError, match="hold_s: expected a finite number"):
        asked(replace(LOAD, hold_s=float("inf")))


def result(**changed):
    gaps = Gaps(3, 0.2, 0.1, 1e-5)
    told = {"trial": "t-1", "status": "completed", "reason": None, "core": 3, "idle": "yield", "elapsed_s": 1.0}
    told |= {"busy_share": 0.5, "away_share": 0.1, "longest_away_s": 0.0, "turns": 9, "gaps": gaps, "ports": ()}
    told |= {"client": balancers.client(opened=5, completed=5), "next_hop": "02:00:00:00:00:09", "server": None}
    return ConnectionsResult(**{**told, "others": (), "returned": None, "handed": None, **changed})


def test_an_account_has_its_samples_and_the_cores_that_made_it():
    sample = Sample(elapsed_s=0.1, backends=(), **dict.fromkeys(COUNTED, 0))
    account = result().account([sample])
    assert (account.of_client().completed, account.next_hop) == (5, "02:00:00:00:00:09")
    assert account.samples == (sample,)
    (core,) = account.cores
    assert (core.core, core.busy_share, core.gaps) == (3, 0.5, Gaps(3, 0.2, 0.1, 1e-5))
    both = (Core(3, 0.5, Gaps()), Core(1, 0.4, Gaps()))
    assert result(cores=both).account().cores == both
