"""What is said of a service, from the account of its connections."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import balancers
import pytest
from support import scenario_text

from pinchpoint.engine.connections import Account, Load, Others, Source, Sources
from pinchpoint.measure.loop import once
from pinchpoint.measure.standing import Task
from pinchpoint.measure.verify import run
from pinchpoint.measure.verify.judged import checks, direct, forgotten, repeated
from pinchpoint.measure.verify.run import Verify, _again, measure_verify
from pinchpoint.measure.verify.turns import ONE_TURN, Dealing
from pinchpoint.model.hops import Place
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.result import Outcome
from pinchpoint.model.scenario import Mode, ProxyHeader, Range, Scheduler
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario import parse as scenario_of

SERVICE = replace(balancers.SERVICE, mode=Mode.FULL_NAT, local=Range(0x0A0100F0, 2))


IN_TURN = (0, 1, 2) * 100
IN_BLOCKS = (0,) * 100 + (1,) * 100 + (2,) * 100


def client(**changed):
    local = Sources((Source("10.1.0.240", 150), Source("10.1.0.241", 150)), 0)
    counts = {"opened": 300, "established": 300, "answered": 300, "completed": 300}
    return balancers.client(**{**counts, "order": IN_TURN, "backends": (100, 100, 100), "local": local, **changed})


def wrong(service=SERVICE, **changed):
    return [check.name for check in checks(service, client(**changed)) if not check.is_right]


def test_a_service_that_does_what_it_says_passes_every_check():
    assert wrong() == []
    assert len(list(checks(SERVICE, client()))) == 5


def test_local_addresses_of_ipv6_are_known_by_their_numbers():
    local = Range(0xFD000002 << 96 | 0xF0, 2)
    seen = {address: Sources((Source(address, 300),), 0) for address in ("fd00:2::f0", "fd00:2::f2")}
    alone = replace(local, count=1)
    assert wrong(replace(SERVICE, local=alone), local=seen["fd00:2::f0"]) == []
    assert wrong(replace(SERVICE, local=local), local=seen["fd00:2::f2"]) == ["expected source"]


def test_source_nat_to_one_of_several_local_addresses_is_wrong():
    service = replace(SERVICE, local=Range(0x0A0100F0, 4), clients=Range(0x0A000101, 50))
    told = client(local=Sources((Source("10.1.0.240", 300),), 0))
    source = {check.name: check for check in checks(service, told)}["expected source"]
    assert (source.is_right, source.share, source.words) == (
        False,
        0.25,
        "1 of 4 local addresses seen, the others never",
    )


def test_a_local_address_may_be_left_out_where_a_hash_had_too_few_choices():
    service = replace(SERVICE, local=Range(0x0A0100F0, 4), clients=Range(0x0A000101, 1))
    assert wrong(service, local=Sources((Source("10.1.0.240", 300),), 0)) == []


@pytest.mark.parametrize(
    ("through", "returned", "entered", "is_right"),
    [(0, 900, 3, True), (0, 900, None, True), (1, 899, 3, False), (0, 900, 4, False), (0, 0, 0, False)],
    ids=["past it", "not counted", "seen by the client", "seen by the device", "nothing returned"],
)
def test_a_direct_return_has_no_segment_of_a_backend_in_the_device(through, returned, entered, is_right):
    others = (Others("a", 0, 0, 0, segments=through, answered=1), Others("b", 0, 0, 0, segments=1200, answered=3))
    check = direct(Account(1.0, client(), others, returned=returned), entered)
    assert check.is_right is is_right
    assert f"{returned} segments reached the clients past the device, {through} through it" in check.words


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"completed": 299, "refused": 1}, "completed"),
        ({"wrong_payload": 1}, "payload intact"),
        ({"backends": (102, 99, 99)}, "busiest backend"),
        ({"backends": (150, 150)}, "busiest backend"),  # the third answered nothing
        ({"backends": ()}, "busiest backend"),
        ({"wrong_backend": 2}, "one backend"),
        ({"local": Sources((Source("10.1.0.7", 300),), 0)}, "expected source"),
        ({"toa_right": 299, "toa_wrong": 1}, "TOA option"),
        ({"reused": 3}, "source used once"),
    ],
)
def test_what_the_service_does_wrong_is_named(changed, what):
    assert wrong(**changed) == [what]


@pytest.mark.parametrize(
    ("right", "other", "names"), [(300, 0, []), (299, 0, ["PROXY header"]), (0, 300, ["PROXY header"])]
)
def test_where_a_proxy_sends_a_header_every_answer_has_to_name_the_client(right, other, names):
    service = replace(SERVICE, proxy_protocol=ProxyHeader.TEXT)
    assert wrong(service, toa_right=right, toa_wrong=other) == names


@pytest.mark.parametrize(("turns", "names"), [(1, ["busiest backend"]), (2, [])])
def test_each_turn_of_its_own_may_be_one_connection_ahead(turns, names):
    told = client(backends=(101, 100, 99))
    assert [check.name for check in checks(SERVICE, told, Dealing(turns=turns)) if not check.is_right] == names


def dealt(order, dealing=ONE_TURN, **changed):
    """Whether it is in turn, and what is said of it."""
    counts = tuple(order.count(number) for number in range(3))
    told = client(**{"order": order, "backends": counts, "opened": len(order), **changed})
    by_name = {check.name: check for check in checks(SERVICE, told, dealing)}
    return by_name["busiest backend"].is_right, by_name["busiest backend"].words


def test_blocks_of_a_hundred_are_not_in_turn_although_their_counts_are_even():
    is_right, words = dealt(IN_BLOCKS)
    assert not is_right
    assert words == (
        "100 / 100 / 100, not in turn: 297 of 299 reached another backend than the next; "
        "number 2 reached backend 01 where 02 was due"
    )


@pytest.mark.parametrize(
    ("order", "dealing", "is_right"),
    [
        ((2, 0, 1) * 100, ONE_TURN, True),
        ((2, 1, 0) * 100, ONE_TURN, True),
        ((0, 1, 2) * 50 + (0, 2, 1) * 50, ONE_TURN, False),
        ((0, 0, 1, 1, 2, 2) * 50, Dealing(turns=2), True),
        ((0, 1, 0, 1, 2, 2) * 50, Dealing(turns=2), True),
        ((0, 0, 0, 1, 1, 1, 2, 2, 2) * 33, Dealing(turns=2), False),
        (IN_BLOCKS, Dealing(turns=2), False),
        ((1, 0, 2, *IN_TURN[3:]), ONE_TURN, False),
        ((1, 0, 2, *IN_TURN[3:]), Dealing(at_once=2), True),
        (IN_BLOCKS, Dealing(at_once=2), False),
        ((0, None, 1, 2, 0, None, 1, 2, 0), ONE_TURN, True),
    ],
    ids=[
        "from the third on",
        "backwards",
        "both ways round",
        "two workers",
        "two workers, one ahead",
        "three turns of two workers",
        "blocks of two workers",
        "one overtook another",
        "one overtook another on two CPUs",
        "blocks of two CPUs",
        "two unanswered",
    ],
)
def test_turns_are_followed_connection_by_connection(order, dealing, is_right):
    assert dealt(order, dealing)[0] is is_right


def test_what_overtook_on_several_cpus_is_told():
    assert dealt((1, 0, 2, *IN_TURN[3:]), Dealing(at_once=2))[1] == (
        "100 / 100 / 100, in turn but for 2 of 299: 2 CPUs deal at the same time"
    )


def test_nothing_is_called_in_turn_where_no_two_connections_in_a_row_were_answered():
    assert dealt((0, None, 1, None, 2, None))[1] == (
        "1 / 1 / 1, as even as turns are; no two connections in a row were answered"
    )


def test_fewer_connections_than_turns_are_in_no_known_order():
    assert dealt((0, 0, 0), Dealing(turns=4)) == (
        True,
        "3 / 0 / 0, the order is not known: 4 turns, and no more connections in a row were answered",
    )


def test_how_many_connections_were_followed_is_told_where_not_all_are_listed():
    assert dealt(IN_TURN, opened=900)[1] == "100 / 100 / 100, in turn; the first 300 connections were followed"


def test_no_backend_is_blamed_for_a_connection_that_the_engine_did_not_open_again():
    before, again = client(order=(0, 2, 1, 1)), client(order=(0, None, 1, None), shortfall=1)
    (check,) = repeated(before, again)
    assert check.words == (
        "2 of 3 tuples reached the backend again that they had reached, 1 got no right answer; "
        "the engine did not open 1 again"
    )
    (check,) = repeated(before, client(order=(0, None, 1, 1), shortfall=1))
    assert (check.is_right, check.share) == (True, 1.0)


def test_tuples_are_opened_again_until_the_engine_has_opened_all_of_them():
    late, whole = client(shortfall=3), client()
    accounts = [Account(1.0, late, ()), Account(1.0, whole, ()), Account(1.0, late, ())]
    ends = SimpleNamespace(service=SERVICE, connect=lambda load: accounts.pop(0))
    assert _again(ends, None, Load(300, 200.0, 2, 2.0)) is whole
    assert len(accounts) == 1


def test_policed_frames_that_a_device_counts_twice_enter_once(monkeypatch):
    place = Place("in", ("{port}/received", "{port}/dropped", "-{port}/policed"), ())
    device = SimpleNamespace(graph=lambda scenario: SimpleNamespace(places=[place]))
    monkeypatch.setattr(run, "device_of", lambda scenario: device)
    observed = {"servers/received": 100.0, "servers/dropped": 7.0, "servers/policed": 5.0}
    assert run._entered(None, SERVICE, observed) == 102


class Live:
    """A device that stands; something interferes with it while real programs are tried."""

    def __init__(self):
        self.places = 80

    def balancer(self):
        return self

    def ready(self):
        return {}

    def settings(self):
        return {}

    unchanging = settings

    def limits(self):
        return (Limit(Resource.TABLE, self.places, None, "table"),)

    def tracked(self):
        return None


@pytest.fixture
def bench(monkeypatch):
    """Makes a bench whose load has this account; while programs are tried `tries` happens to the device."""

    def made(account, tries=lambda live: None):
        def tried(bench, service, timeout_s):
            tries(bench.live)
            return (), ()

        measure = Verify(300, 200.0, 2, 2.0, 0.5, programs=True)
        scenario = replace(scenario_of(scenario_text(), "a.toml"), measure=measure)
        ends = SimpleNamespace(service=SERVICE, connect=lambda load: account, prepare=lambda load: None)
        monkeypatch.setattr(run, "ends_of", lambda bench: nullcontext(ends))
        monkeypatch.setattr(run, "check_programs", lambda host: None)
        monkeypatch.setattr(run, "tried", tried)
        bracket = SimpleNamespace(open=lambda: None, close=lambda: SimpleNamespace(flat=dict))
        return SimpleNamespace(
            scenario=scenario, live=Live(), task=Task(), host=None, bracket=lambda: bracket, wall_s=1.0
        )

    return made


def test_what_changes_while_programs_are_tried_is_seen(bench):
    measurement = once(bench(Account(1.0, client(), ()), lambda live: setattr(live, "places", 40)), run._measure)
    assert measurement.validity is TrialValidity.CHANGED
    assert measurement.reason.startswith("changed since the beginning: connection table: 40 places")


def test_the_load_has_a_ledger_in_connections(bench):
    measurement = once(bench(Account(1.0, client(completed=290, reset=10), ())), run._measure)
    assert (measurement.ledger.offered, measurement.ledger.received, measurement.ledger.unexplained) == (300, 290, 0)


def test_counts_that_cannot_all_be_true_are_no_answer(bench):
    result = measure_verify(bench(Account(1.0, client(completed=290), ())))
    assert (result.outcome, result.reason) == (Outcome.FAILED, "300 connections were opened, and 290 ended")


def test_a_hash_takes_each_tuple_to_its_backend_again():
    before, again = client(order=(0, 2, None, 1)), client(order=(0, 2, 1, 1))
    (check,) = repeated(before, again)
    assert (check.is_right, check.share) == (True, 1.0)
    (check,) = repeated(before, client(order=(0, 1, 1, None)))
    assert (check.is_right, check.share) == (False, 1 / 3)
    words = "1 of 3 tuples reached the backend again that they had reached, 1 got no right answer"
    assert check.words == words
    assert list(repeated(client(order=(None, None)), again)) == []


def test_nothing_is_in_order_where_nobody_answered():
    nobody = {"established": 0, "answered": 0, "completed": 0, "timed_out_connecting": 300, "reused": 0}
    told = client(**nobody, backends=(), order=(None,) * 300, local=Sources((), 0))
    results = {check.name: (check.share, check.is_right) for check in checks(SERVICE, told)}
    assert results == dict.fromkeys(("completed", "busiest backend", "expected source"), (0.0, False))


def test_connections_that_are_still_remembered_are_a_leak():
    assert forgotten(300, 0, 1.5).is_right
    leak = forgotten(300, 60, 1.5)
    assert (leak.is_right, leak.share) == (False, 0.8)
    assert leak.words == "60 of 300 remembered 1.5 s after the last one closed"


def test_a_failed_connection_says_how():
    check = next(checks(SERVICE, client(completed=290, reset=4, timed_out_connecting=6)))
    assert check.words == "290 of 300, 4 reset, 6 timed out connecting"


def test_each_check_has_the_share_that_was_in_order():
    sources = Sources((Source("10.1.0.240", 225), Source("10.1.0.7", 75)), 0)
    shares = {
        check.name: check.share for check in checks(SERVICE, client(backends=(150, 150), local=sources, completed=270))
    }
    assert shares == {
        "completed": 0.9,
        "payload intact": 1.0,
        "busiest backend": 0.5,
        "one backend": 1.0,
        "expected source": 0.75,
    }


def test_a_hash_may_be_as_uneven_as_chance_makes_it():
    service = replace(SERVICE, scheduler=Scheduler.HASH)
    assert wrong(service, backends=(90, 115, 95)) == []
    assert wrong(service, backends=(60, 140, 100)) == ["busiest backend"]


def weighed(*weights):
    backends = tuple(replace(backend, weight=n) for backend, n in zip(SERVICE.backends, weights, strict=True))
    return replace(SERVICE, backends=backends)


BY_WEIGHT = (0, 1, 0, 2) * 75
COUNTED = {"opened": 300, "backends": (150, 75, 75)}


def test_weighted_round_robin_repeats_its_cycle():
    assert wrong(weighed(2, 1, 1), order=BY_WEIGHT, **COUNTED) == []
    assert wrong(weighed(4, 2, 2), order=(0, 0, 1, 2) * 75, **COUNTED) == [], "whatever its pattern is"
    assert wrong(weighed(2, 1, 1), order=(0,) * 150 + (1, 2) * 75, **COUNTED) == ["busiest backend"]
    assert wrong(weighed(1, 2, 1), order=BY_WEIGHT, **COUNTED) == ["busiest backend"]
    assert wrong(SERVICE, order=BY_WEIGHT, **COUNTED) == ["busiest backend"]


def test_where_lines_have_a_share_each_backends_may_be_so_many_connections_off():
    def is_right(*counts):
        told = client(order=BY_WEIGHT, backends=counts, opened=300)
        by_name = {check.name: check for check in checks(weighed(2, 1, 1), told, Dealing(lines=4))}
        return by_name["busiest backend"].is_right

    assert is_right(154, 72, 74)
    assert not is_right(155, 71, 74)


def test_a_hash_deals_by_weights():
    service = replace(weighed(2, 1, 1), scheduler=Scheduler.HASH)
    assert wrong(service, backends=(150, 80, 70)) == []
    assert wrong(service) == ["busiest backend"]


def test_with_a_hash_of_the_source_a_client_stays_with_its_backend():
    service = replace(SERVICE, scheduler=Scheduler.SOURCE)
    stays = tuple((0, 1, 2, 0)[n % 4] for n in range(300))
    assert wrong(service, order=stays, backends=(150, 75, 75)) == []
    assert wrong(service, order=(1, *stays[1:]), backends=(149, 76, 75)) == ["client kept"]


def test_without_full_nat_backends_see_the_client():
    service = replace(SERVICE, mode=Mode.DNAT, local=None)
    assert wrong(service) == ["expected source"]
    assert wrong(service, local=Sources((Source("10.0.1.4", 300),), 0)) == []
