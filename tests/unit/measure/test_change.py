"""What is said of a change, from samples of connections that were opened meanwhile."""

import time
from dataclasses import replace
from threading import Event
from typing import get_type_hints

import pytest
from balancers import SERVICE, client

from pinchpoint.engine.connections import Account, Sample
from pinchpoint.measure.change.run import Changed, Happened, followed, is_right, metrics, opening, window_s
from pinchpoint.measure.change.run import Window as Findings
from pinchpoint.model.errors import EngineError, InputError
from pinchpoint.model.measurement import Bound
from pinchpoint.model.scenario import Scheduler
from pinchpoint.scenario import parse

TIMEOUT_S, RATE = 1.0, 600.0
LEFT_AND_RETURNED = (Happened(2.0, 2.0), Happened(4.0, 4.0))


def changed(event="silent", **other):
    keys = {"backend": 2, "at_s": 2.0, "for_s": 2.0, "after_s": 2.0, "rate_cps": RATE, "requests": 2, "hold_s": 0.0}
    return Changed(event=event, **{**keys, "timeout_s": TIMEOUT_S, **other})


def course(dealt, until_s=6.0, failing=(), **tuples):
    """Samples, one each 0.1 s: `dealt(s)` has the backends' shares at a time; who fails by time-out, `failing`."""
    answered, due_failed, samples = [0.0, 0.0, 0.0], [], []
    for tenth in range(1, round((until_s + TIMEOUT_S) * 10) + 2):
        now_s = tenth / 10
        failed = 0.0
        for number, share in enumerate(dealt(now_s - 0.05)):
            count = RATE * 0.1 * share if now_s <= until_s + 1e-6 else 0.0
            if any(number == backend and from_s < now_s - 0.05 < to_s for backend, from_s, to_s in failing):
                failed += count
            else:
                answered[number] += count
        due_failed.append(failed)
        timed_out = round(sum(due_failed[: max(0, tenth - round(TIMEOUT_S * 10))]))
        counts = {name: 0 for name, kind in get_type_hints(Sample).items() if kind is int}
        counts |= {"opened": round(min(now_s, until_s) * RATE), "timed_out_connecting": timed_out}
        backends = tuple(map(round, answered))
        with_tuples = {name: by(now_s) for name, by in tuples.items()}
        samples.append(Sample(**{**counts, "elapsed_s": now_s, "backends": backends, **with_tuples}))
    return samples


def third(_):
    return (1 / 3, 1 / 3, 1 / 3)


def figures(what, samples, happened=LEFT_AND_RETURNED, of=None):
    return {metric.name: metric for metric in metrics(what, of or SERVICE, happened, samples)}


def test_a_backend_that_is_dealt_to_while_it_is_silent_leaves_the_balance_wrong_until_it_returns():
    by_name = figures(changed(), course(third, failing=[(2, 2.0, 4.0)]))
    assert by_name["broken"].value == by_name["timed out connecting"].value == pytest.approx(RATE / 3 * 2, abs=2)
    assert (by_name["right after"].bound, by_name["right after"].value) == (Bound.AT_LEAST, 2.0)
    assert (by_name["right after return"].bound, by_name["right after return"].value) == (Bound.FOUND, 0.0)
    assert by_name["share of backend 2"].value == 0
    assert by_name["share of backend 0"].value == pytest.approx(0.5, abs=0.01)


def test_a_balancer_that_notices_is_right_from_then_on():
    def noticed(now_s):
        return (0.5, 0.5, 0.0) if 3.0 < now_s < 4.5 else third(now_s)

    by_name = figures(changed(), course(noticed, failing=[(2, 2.0, 3.0)]))
    assert by_name["right after"].value == pytest.approx(1.0, abs=0.11)
    assert by_name["right after return"].value == pytest.approx(0.5, abs=0.11)


def test_a_reload_that_breaks_nothing_is_right_at_once():
    by_name = figures(changed("reload"), course(third, until_s=4.0), [Happened(2.0, 2.01)])
    assert by_name["broken"].value == by_name["right after"].value == 0
    assert "right after return" not in by_name


def test_a_failure_before_anything_happened_is_a_caution():
    by_name = figures(changed(), course(third, failing=[(0, 0.5, 1.0)]))
    assert "failed before anything had happened" in " ".join(by_name["broken"].cautions)


def test_tuples_that_move_although_their_backend_stayed_are_shared_by_all_that_came_again():
    def left(now_s):
        return (0, 50 if now_s > 2.5 else 0, 200 if now_s > 2.5 else 0)

    def kept(now_s):
        return (round(now_s * 100), round(now_s * 50), round(min(now_s, 2.0) * 100))

    samples = course(third, left=left, kept=kept)
    by_name = figures(changed("remove"), samples, of=replace(SERVICE, scheduler=Scheduler.HASH))
    assert by_name["tuples moved"].value == pytest.approx(50 / (50 + 100 + 50), abs=0.001)
    assert "at least 0 have to" in by_name["tuples moved"].note
    assert "at least 33.3 % have to" in by_name["tuples moved at return"].note
    assert "tuples moved" not in figures(changed("remove"), samples)


@pytest.mark.parametrize(
    ("failed", "dealt", "away", "right"),
    [
        (0, (20, 20, 20), None, True),
        (0, (14, 27, 19), None, True),  # as chance deals
        (0, (30, 30, 0), None, False),
        (0, (30, 30, 0), 2, True),
        (0, (30, 29, 1), 2, False),
        (1, (20, 20, 20), None, False),
        (0, (0, 0, 0), None, False),
        (0, (60, 0, 0), 2, False),
    ],
)
def test_a_window_is_right_where_nothing_failed_and_those_that_serve_have_equal_shares(failed, dealt, away, right):
    assert is_right(Findings(0.0, 0.1, failed, dealt), away) is right


def test_a_window_is_right_by_weights():
    weights = (2, 1, 1)
    assert is_right(Findings(0.0, 0.1, 0, (40, 20, 20)), None, weights)
    assert is_right(Findings(0.0, 0.1, 0, (40, 20, 0)), 2, weights)
    assert not is_right(Findings(0.0, 0.1, 0, (20, 40, 0)), 2, weights)


def test_a_window_has_twenty_connections_of_each_backend():
    assert [window_s(changed(rate_cps=rate), 3) for rate in (10_000, 600, 300)] == pytest.approx([0.1, 0.1, 0.2])


class Ends:
    """An engine whose load has samples for a while, or ends with an error."""

    def __init__(self, lasts=3, fails=""):
        self.lasts, self.fails, self.is_stopped = lasts, fails, Event()

    def connect(self, load, request, heard):
        for number in range(self.lasts):
            heard(Sample(**{**ZEROS, "elapsed_s": 5.0 + number / 1e3, "backends": ()}))
            if self.is_stopped.wait(0.02):
                break
        if self.fails:
            raise EngineError(self.fails)
        return Account(1.0, client(), ())

    def stop(self):
        self.is_stopped.set()


ZEROS = {name: 0 for name, kind in get_type_hints(Sample).items() if kind is int}


def follow(ends, steps):
    with opening(ends, None, None) as load:
        return load, followed(load, steps, lambda: None)


def test_each_step_is_taken_at_its_time_since_the_first_connection_was_due():
    load, happened = follow(Ends(), [(5.0, lambda: None), (5.0, lambda: None)])
    assert len(happened) == 2 and len(load.samples) == 3
    assert load.began == pytest.approx(time.monotonic() - 5.0, abs=2.0), "the earliest that a sample allows"


def test_an_engine_that_ends_before_everything_has_happened_is_an_error():
    with pytest.raises(EngineError, match="ended before everything"):
        follow(Ends(), [(600.0, lambda: None), (601.0, lambda: None)])
    with pytest.raises(EngineError, match="no way to the service"):
        follow(Ends(fails="no way to the service"), [(600.0, lambda: None)])


def test_a_load_that_is_given_up_is_stopped():
    ends = Ends(lasts=100_000)

    def gives_up():
        raise InputError("enough")

    with pytest.raises(InputError), opening(ends, None, None) as load:
        followed(load, [], gives_up)
    assert ends.is_stopped.is_set() and not load.is_running()


TEXT = """
measure = "change"
[dut]
kind = "{kind}"
[service]
address = "10.0.0.100"
port = 80
local = "10.1.0.240"
[[backend]]
address = "10.1.0.1"
[[backend]]
address = "10.1.0.2"
[[port]]
name = "left"
[[port]]
name = "right"
[change]
{change}
"""


def test_a_backend_that_there_is_not_is_refused():
    with pytest.raises(InputError, match="a number from 0 to 1"):
        parse(TEXT.format(kind="nft", change="backend = 2"), "a.toml")


def test_a_change_that_happens_to_a_backend_needs_nothing_of_the_device():
    assert parse(TEXT.format(kind="nft", change='event = "reset"'), "a.toml").measure.happens.asks is None
