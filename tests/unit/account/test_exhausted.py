"""Which resource ended a load of connections."""

import pytest

from pinchpoint.account.exhausted import Seen, exhausted, pushed_back
from pinchpoint.engine.connections import Account, Client, PortCounts, Sources
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.trial import PmdLoad

PORTS = Limit(Resource.LOCAL_PORTS, 80, 2.0, "80 ports", "entries", ("nat/refused",))
TABLE = Limit(Resource.TABLE, 1000, 2.0, "1,000 entries", "entries", ("table/full",))
SOFTIRQ = Limit(Resource.SOFTIRQ, None, None, "backlog", refused=("link/*/dropped",))
LIMITS = (PORTS, TABLE, SOFTIRQ)


def client(**changed):
    counts = {name: 0 for name, kind in Client.__annotations__.items() if kind is int}
    rest = {"backends": (), "local": Sources((), 0), "connect_ns": None, "answer_ns": None, "close_ns": None}
    return Client(**{**counts, "opened": 100, "completed": 80, **rest, **changed})


def load(observed=(), pmds=(), busy=0.3, missed=0, stats=(), **changed):
    ports = (PortCounts("clients", missed, dict(stats)), PortCounts("servers", 0))
    return Seen(Account(1.0, client(**changed), (), busy, ports=ports), dict(observed), pmds, 1.0)


def worker(busy):
    return PmdLoad(name="worker 1", core=1, received=10, busy_share=busy)


@pytest.mark.parametrize(
    ("seen", "limits", "resource"),
    [
        (load({"nat/refused": 20}), LIMITS, Resource.LOCAL_PORTS),
        (load({"table/full": 20, "entries": 1000}), LIMITS, Resource.TABLE),
        (load({"link/a/dropped": 30, "nat/refused": 2}), LIMITS, Resource.SOFTIRQ),
        (load({"entries": 79}), LIMITS, Resource.LOCAL_PORTS),
        (load(refused=20), LIMITS, Resource.BACKEND),
        (load(pmds=(worker(0.99),)), (PORTS,), Resource.WORKER),
        (load(pmds=(worker(0.99),)), LIMITS, Resource.SOFTIRQ),
        (load(shortfall=50, busy=0.95), LIMITS, Resource.GENERATOR),
        (load(shortfall=50, busy=0.1), LIMITS, None),
        (load(missed=500, busy=0.99), LIMITS, Resource.GENERATOR),
        (load({"nat/refused": 1}), LIMITS, None),
        (load(pmds=(worker(0.5), worker(None))), LIMITS, None),
    ],
)
def test_the_resource_is_named_by_what_was_read(seen, limits, resource):
    found = exhausted(limits, [seen])
    assert found.resource is resource
    assert found.evidence


def test_a_counter_of_refusals_is_believed_before_everything_else_and_all_is_told():
    found = exhausted(LIMITS, [load({"nat/refused": 20, "entries": 80}, pmds=(worker(0.99),), refused=20)])
    assert found.resource is Resource.LOCAL_PORTS
    assert len(found.evidence) == 4
    assert found.evidence[0] == "local ports: 20 refused (nat/refused), 20 connections failed"


def test_syns_that_the_device_did_not_take_are_not_the_generator_s_shortfall():
    full = load(shortfall=50, busy=0.95, stats={"tx_no_buffers": 40})
    assert pushed_back(full.account)
    assert not pushed_back(load(shortfall=50).account)
    assert exhausted(LIMITS, [full]).resource is None
