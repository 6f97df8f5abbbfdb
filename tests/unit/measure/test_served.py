"""Whether the account of a load of connections can be used, and for whom what is missing counts."""

from typing import get_type_hints

import pytest
from support import RULES, scenario_text

from pinchpoint.account.exhausted import Seen
from pinchpoint.engine.connections import Account, Client, PortCounts, Sources
from pinchpoint.measure.served import judge, suffices
from pinchpoint.model.errors import EngineError, InputError
from pinchpoint.model.limits import Limit, Resource, Wanted, too_few
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario import parse


def seen(busy=0.2, missed=0, refused_sends=0, **changed):
    counts = {name: 0 for name, kind in get_type_hints(Client).items() if kind is int}
    rest = {"backends": (), "local": Sources((), 0), "connect_ns": None, "answer_ns": None, "close_ns": None}
    client = Client(**{**counts, "opened": 1000, "completed": 1000, **rest, **changed})
    ports = (PortCounts("clients", missed, {"tx_no_buffers": refused_sends}), PortCounts("servers", 0))
    return Seen(Account(2.0, client, (), busy, ports=ports), {}, (), 1.0)


@pytest.mark.parametrize(
    ("account", "validity", "due"),
    [
        (seen(), TrialValidity.VALID, 1000),
        (seen(completed=500), TrialValidity.VALID, 1000),
        (seen(shortfall=500, refused_sends=600), TrialValidity.VALID, 1500),
        (seen(shortfall=500, busy=0.45), TrialValidity.GENERATOR_LIMITED, 1000),
        (seen(shortfall=500), TrialValidity.NOISY_HOST, 1000),
        (seen(shortfall=20), TrialValidity.VALID, 1000),
        (seen(missed=10, completed=990), TrialValidity.NOISY_HOST, 1000),
        (seen(missed=10, completed=990, busy=0.5), TrialValidity.GENERATOR_LIMITED, 1000),
        (seen(missed=10), TrialValidity.VALID, 1000),
    ],
)
def test_what_is_missing_is_the_device_s_the_generator_s_or_the_host_s(account, validity, due):
    told = judge(account, RULES)
    assert (told.validity, told.due) == (validity, due)
    assert bool(told.reason) == (validity is not TrialValidity.VALID)


def test_without_a_way_to_the_service_there_is_no_account():
    with pytest.raises(EngineError, match="nobody answered"):
        judge(Seen(Account(1.0, None, ()), {}, (), 1.0), RULES)


@pytest.mark.parametrize(
    ("size", "held_s", "wanted", "missing"),
    [
        (80, 2.0, Wanted(40.0, 1_000), 0),
        (80, 2.0, Wanted(50.0, 1_000), 20),
        (80, 120.0, Wanted(200.0, 80), 0),
        (80, 120.0, Wanted(200.0, 81), 1),
    ],
)
def test_a_load_needs_rate_times_time_places_and_no_more_than_its_connections(size, held_s, wanted, missing):
    assert too_few(size, held_s, wanted) == missing


def test_a_pool_that_the_device_reports_as_too_small_is_an_error_with_the_figure():
    scenario = parse(scenario_text(), "a.toml")
    unknown = Limit(Resource.MEMORY, None, 1.0, "")
    ports = Limit(Resource.LOCAL_PORTS, 80, 120.0, "1 address x 80 ports")
    suffices(scenario, (unknown, ports), Wanted(10.0, 80))
    with pytest.raises(InputError, match=r"80 places \(local ports: 1 address x 80 ports\) .*: 20 would fail"):
        suffices(scenario, (unknown, ports), Wanted(10.0, 100))
