"""Whether the account of a load of connections can be used, and for whom what is missing counts."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from balancers import Balancer, client
from msgspec.structs import replace as replace_struct
from support import RULES, scenario_text
from trials import measurement

from pinchpoint.account.connections import ledger_of, witness_of
from pinchpoint.account.validity import Seen, judge_load
from pinchpoint.engine.connections import Account, Backend, Core, Gaps, Load, PortCounts, Server
from pinchpoint.measure import served
from pinchpoint.measure.loop import once
from pinchpoint.measure.served import Opener, State, suffices
from pinchpoint.measure.standing import Task
from pinchpoint.model.errors import BenchError, DutError, EngineError, HostLostError, InputError
from pinchpoint.model.limits import Limit, Resource, Wanted, too_few
from pinchpoint.model.scenario import Range
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario import parse


def seen(busy=0.2, missed=0, refused_sends=0, **changed):
    failed = 1000 - changed.get("completed", 1000)
    clients = client(**{"opened": 1000, "completed": 1000, "timed_out_connecting": failed, **changed})
    ports = (PortCounts("clients", missed, {"tx_no_buffers": refused_sends}), PortCounts("servers", 0))
    return Seen(Account(2.0, clients, (), busy, ports=ports), {}, (), 1.0)


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
    told = judge_load(account, RULES)
    assert (told.validity, told.due) == (validity, due)
    assert bool(told.reason) == (validity is not TrialValidity.VALID)


def test_a_load_during_which_the_device_was_changed_is_judged_by_that_alone():
    told = judge_load(seen(shortfall=500), RULES, changed="rules: 1 line gone")
    assert (told.validity, told.due, told.reason) == (TrialValidity.CHANGED, 1000, "rules: 1 line gone")


def test_counts_of_a_load_that_cannot_all_be_true_make_it_unusable():
    lost = replace(seen(), account=replace_struct(seen().account, client=client(opened=1000, completed=999)))
    told = judge_load(lost, RULES)
    assert (told.validity, told.reason) == (
        TrialValidity.COUNTER_MISMATCH,
        "1,000 connections were opened, and 999 ended",
    )
    answering = replace_struct(
        seen().account,
        client=client(opened=1000, completed=1000, backends=(700, 300)),
        server=Server((Backend(700, 700), Backend(290, 290))),
    )
    told = judge_load(replace(seen(), account=answering), RULES)
    assert told.reason == "1,000 connections have a backend's answer, and backends received 990 requests"


def test_the_ledger_of_a_load_names_where_each_connection_ended():
    clients = client(opened=900, shortfall=100, completed=700, refused=150, timed_out_answering=50)
    ledger = ledger_of(clients, 1000)
    assert (ledger.offered, ledger.received, ledger.unexplained) == (1000, 700, 0)
    assert {drop.name: drop.frames for hop in ledger.hops for drop in hop.drops} == {
        "not let in": 100,
        "refused": 150,
        "timed out answering": 50,
    }
    assert ledger_of(clients, 900).unexplained == 0


def test_the_witness_of_a_load_has_each_core_of_the_engine():
    account = replace_struct(seen().account, cores=(Core(3, 0.4, Gaps(2, 0.5, 0.3, 1e-5)),))
    (worker,) = witness_of(account).workers
    assert (worker.core, worker.gaps, worker.gap_total_ns, worker.gap_max_ns) == (3, 2, 500_000_000, 300_000_000)


def test_without_a_way_to_the_service_there_is_no_account():
    with pytest.raises(EngineError, match="nobody answered"):
        judge_load(Seen(Account(1.0, None, ()), {}, (), 1.0), RULES)


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


RULES_BEFORE, RULES_AFTER = "table ip a {\n  dnat\n}", "table ip a {\n}"


class Live:
    """A device that stands, and may be interfered with."""

    def __init__(self):
        self.own, self.rules, self.wrong = Balancer(places=80), RULES_BEFORE, ""

    def balancer(self):
        return self.own

    def ready(self):
        return {}

    def settings(self):
        if self.wrong:
            raise BenchError(f"{self.wrong}\n  command: sysctl")
        return {}

    def unchanging(self):
        return {"ruleset": self.rules}


def opener(live, meanwhile, measurements=()):
    """One whose loads all complete, while `meanwhile` happens; `measurements` of an interrupted run."""

    def connect(load):
        meanwhile(live)
        return seen().account

    scenario = parse(scenario_text(), "a.toml")
    service = SimpleNamespace(clients=Range(1, 4), client_ports=Range(1025, 1000))
    bracket = SimpleNamespace(open=lambda: None, close=lambda: SimpleNamespace(flat=dict))
    bench = SimpleNamespace(
        live=live,
        scenario=scenario,
        task=Task(records=measurements),
        bracket=lambda: bracket,
    )
    ends = SimpleNamespace(bench=bench, service=service, connect=connect, prepare=lambda *_: None)
    return Opener(ends, lambda opened: ())


def lowered(live):
    live.own.places = 40


def vanished(live):
    live.rules = RULES_AFTER


def replaced(live):
    live.wrong = "nf_conntrack_tcp_timeout_time_wait: 4 was set, 2 is in force"


@pytest.mark.parametrize(
    ("meanwhile", "words"),
    [
        (lowered, "local ports: 40 places, held for 1.0 s instead of 80 places, held for 1.0 s"),
        (vanished, "ruleset: 1 line gone, 0 lines new: dnat"),
        (replaced, "nf_conntrack_tcp_timeout_time_wait: 4 was set, 2 is in force"),
    ],
)
def test_a_load_during_which_the_device_was_changed_is_unusable_and_says_what_changed(meanwhile, words):
    live = Live()
    opened = opener(live, meanwhile).open("search", Load(1000, 1000.0, 1, 1.0))
    assert opened.judged.validity is TrialValidity.CHANGED
    assert opened.judged.reason == f"changed since the beginning: {words}"


@pytest.mark.parametrize(
    ("looked", "error"),
    [(DutError("nginx is gone"), DutError), (BenchError("ss: no answer"), EngineError), (None, EngineError)],
)
def test_a_device_that_died_before_an_engine_could_start_is_what_failed(monkeypatch, looked, error):
    def unchanging():
        if looked:
            raise looked

    def no_device():
        raise EngineError("port right: no such device")

    scenario = parse(scenario_text(), "a.toml")
    engine = SimpleNamespace(open=no_device, close=lambda: None)
    monkeypatch.setattr(served, "engine_process", lambda *_: engine)
    monkeypatch.setattr(served, "await_engine_pages", lambda _: None)
    monkeypatch.setattr(served.Ends, "_opens", lambda *_: None)
    live, setup = SimpleNamespace(unchanging=unchanging), SimpleNamespace(engine=SimpleNamespace(ports=()))
    bench = SimpleNamespace(scenario=scenario, live=live, setup=setup, host=None, engine=[], task=Task())
    clients = {"client_port": "left", "server_port": "right", "client_ports": Range(1, 9), "clients": Range(1, 4)}
    with pytest.raises(error):
        served.Ends(bench, SimpleNamespace(**clients)).prepare()


def test_a_host_that_is_lost_has_not_changed_the_device():
    live = Live()

    def lost():
        raise HostLostError("rack does not answer")

    with pytest.raises(HostLostError):
        opener(live, lambda live: setattr(live, "settings", lost)).open("a", Load(1000, 1000.0, 1, 1.0))


def test_a_load_during_which_the_device_was_changed_is_opened_again():
    load = Load(1000, 1000.0, 1, 1.0)
    disturbed = opener(Live(), lowered)
    disturbed.open("search", load)
    again = opener(Live(), lambda live: None, disturbed.measurements)
    assert again.open("search", load).judged.validity is TrialValidity.VALID
    kept = opener(Live(), lowered, again.measurements)
    assert kept.open("search", load).judged.validity is TrialValidity.VALID, "taken from the record"


def test_a_measurement_during_which_the_device_was_changed_is_taken_again():
    changed, new = (measurement(validity=validity) for validity in (TrialValidity.CHANGED, TrialValidity.VALID))
    scenario = SimpleNamespace(name="m")
    bench = SimpleNamespace(scenario=scenario, task=Task(records=[changed]))
    assert once(bench, lambda _bench, _loop: new) is new
    bench = SimpleNamespace(scenario=scenario, task=Task(records=[changed, new]))
    assert once(bench, lambda _bench, _loop: changed) is new


def test_what_is_changed_on_purpose_makes_no_load_unusable():
    opens = opener(Live(), lowered)
    with opens.unwatched():
        assert opens.open("doubled", Load(1000, 1000.0, 1, 1.0)).judged.validity is TrialValidity.VALID
    assert opens.open("search", Load(1000, 1000.0, 1, 1.0)).judged.validity is TrialValidity.CHANGED


def test_a_state_that_stays_has_no_words():
    limits = Balancer().limits()
    assert State(limits, {"ruleset": "a\nb"}).since(State(limits, {"ruleset": "a\nb"})) == ""
    assert State(limits, {"processes": "/proc/8"}).since(State(limits, {"processes": "/proc/7"})) == (
        "processes: /proc/8 instead of /proc/7"
    )
