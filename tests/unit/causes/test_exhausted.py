"""Which resource ended a load of connections."""

import pytest
from balancers import client

from pinchpoint.account.validity import Seen, pushed_back
from pinchpoint.causes.exhausted import exhausted
from pinchpoint.dut.softirq import QDISC
from pinchpoint.engine.connections import Account, Backend, PortCounts, Server
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.trial import ThreadLoad

PORTS = Limit(Resource.LOCAL_PORTS, 80, 2.0, "80 ports", "entries", ("nat/refused",))
TABLE = Limit(Resource.TABLE, 1000, 2.0, "1,000 entries", "entries", ("table/full",))
QUEUE = Limit(Resource.ACCEPT_QUEUE, None, None, "backlog", refused=("queue/overflows",))
SOFTIRQ = Limit(Resource.SOFTIRQ, None, None, "backlog", refused=("link/*/dropped",))
LIMITS = (PORTS, TABLE, SOFTIRQ)


def load(observed=(), threads=(), busy=0.3, missed=0, stats=(), **changed):
    ports = (PortCounts("clients", missed, dict(stats)), PortCounts("servers", 0))
    clients = client(**{"opened": 100, "completed": 80, **changed})
    return Seen(Account(1.0, clients, (), busy, ports=ports), dict(observed), threads, 1.0)


def named(limits, *loads, every=()):
    return exhausted(limits, loads, every)[0].cause.resource


def worker(busy):
    return ThreadLoad(name="worker 1", cpu=1, received=10, busy_share=busy)


@pytest.mark.parametrize(
    ("seen", "limits", "resource"),
    [
        (load({"nat/refused": 20}), LIMITS, Resource.LOCAL_PORTS),
        (load({"table/full": 20, "entries": 1000}), LIMITS, Resource.TABLE),
        (load({"link/a/dropped": 30, "nat/refused": 2}), LIMITS, Resource.SOFTIRQ),
        (load({"entries": 79}), LIMITS, Resource.LOCAL_PORTS),
        (load(refused=20), LIMITS, Resource.BACKEND),
        (load(threads=(worker(0.99),)), (PORTS,), Resource.WORKER),
        (load(threads=(worker(0.99),)), LIMITS, Resource.SOFTIRQ),
        (load(shortfall=50, busy=0.95), LIMITS, Resource.GENERATOR),
        (load(shortfall=50, busy=0.1), LIMITS, None),
        (load(missed=500, busy=0.99), LIMITS, Resource.GENERATOR),
        (load({"nat/refused": 1}), LIMITS, None),
        (load(threads=(worker(0.5), worker(None))), LIMITS, None),
    ],
)
def test_the_resource_is_named_by_what_was_read(seen, limits, resource):
    assert named(limits, seen) is resource


def test_a_counter_of_refusals_is_believed_before_everything_else_and_all_is_told():
    exhaustion = exhausted(LIMITS, [load({"nat/refused": 20, "entries": 80}, threads=(worker(0.99),), refused=20)])
    assert exhaustion[0].cause.resource is Resource.LOCAL_PORTS
    assert len(exhaustion) == 4
    assert exhaustion[0].words == "local ports: 20 refused (nat/refused), 20 connections failed"


def test_syns_that_the_device_did_not_take_are_not_the_generator_s_shortfall():
    full = load(shortfall=50, busy=0.95, stats={"tx_no_buffers": 40})
    assert pushed_back(full.account)
    assert not pushed_back(load(shortfall=50).account)
    assert named(LIMITS, full) is None


@pytest.mark.parametrize(("entries", "resource"), [(1000, Resource.TABLE), (500, Resource.ACCEPT_QUEUE)])
def test_an_accept_queue_that_overflows_behind_a_full_table_is_not_what_ended_the_load(entries, resource):
    assert named((TABLE, QUEUE), load({"queue/overflows": 20, "entries": entries})) is resource


def test_a_queueing_discipline_that_drops_is_named_before_what_its_connections_occupy():
    seen = load({"host/queue/dut/servers/shaped": 90, "entries": 1000})
    assert named((TABLE, QDISC), seen) is Resource.QDISC
    assert named((TABLE, QDISC), load({"entries": 1000})) is Resource.TABLE


@pytest.mark.parametrize(("busy", "resource"), [(0.95, Resource.WORKER), (0.94, Resource.ACCEPT_QUEUE)])
def test_a_worker_without_idle_time_is_named_before_the_queue_in_front_of_it(busy, resource):
    found = exhausted((PORTS, QUEUE), [load({"queue/overflows": 20}, threads=(worker(busy),))])
    assert found[0].cause.resource is resource
    words = "accept queue: 20 refused (queue/overflows), 20 connections failed"
    assert words in [candidate.words for candidate in found]


def test_a_queue_that_overflows_while_the_worker_is_idle_is_named_whatever_a_higher_load_does_to_the_worker():
    low, high = (load({"queue/overflows": 20}, threads=(worker(busy),)) for busy in (0.6, 0.99))
    assert named((PORTS, QUEUE), low, high) is Resource.ACCEPT_QUEUE
    few = load({"queue/overflows": 1}, threads=(worker(0.6),))
    assert named((PORTS, QUEUE), few, high) is Resource.WORKER, "a connection of twenty is no reason"


def answered(*backends, of=3, **changed):
    """A load whose client lists its backends up to the last one that answered."""
    seen = load({"table/full": 500}, backends=backends, **changed)
    account = Account(1.0, seen.account.client, (), server=Server((Backend(0, 0),) * of))
    return Seen(account, seen.observed, (), 1.0)


@pytest.mark.parametrize(
    ("seen", "resource"),
    [
        pytest.param(answered(30, 0, 30, opened=90, completed=60), Resource.BACKEND, id="none"),
        pytest.param(answered(30, 30, opened=90, completed=60), Resource.BACKEND, id="the last one none"),
        pytest.param(answered(30, 3, 30, opened=90, completed=63), Resource.BACKEND, id="hardly any"),
        pytest.param(answered(30, 10, 30, opened=90, completed=70), Resource.TABLE, id="fewer"),
        pytest.param(answered(90, 30, 90, opened=270, completed=210), Resource.BACKEND, id="slow"),
        pytest.param(answered(90, 30, 90, opened=570, completed=210), Resource.TABLE, id="most failed elsewhere"),
        pytest.param(answered(30, 0, 30, opened=570, completed=60), Resource.BACKEND, id="waited for"),
        pytest.param(answered(3, 0, 3, opened=9, completed=6), Resource.TABLE, id="too few to tell"),
        pytest.param(answered(40, 0, 40, opened=90, completed=80), Resource.TABLE, id="never asked"),
        pytest.param(answered(30, of=1, opened=90, completed=30), Resource.TABLE, id="alone"),
    ],
)
def test_a_backend_that_answers_fewer_than_others_is_named_before_what_its_connections_occupy(seen, resource):
    assert named(LIMITS, seen) is resource


def test_a_silent_backend_shows_in_all_loads_that_failed_where_the_least_ones_are_too_small():
    small, large = answered(3, 0, 3, opened=9, completed=6), answered(30, 0, 30, opened=90, completed=60)
    assert named(LIMITS, small, every=[small, large]) is Resource.BACKEND
