"""Every row of the catalogue is whole, fits what it describes, and is on its page."""

from pathlib import Path

import pytest
from reference.causes import page

from pinchpoint.causes.catalogue import BY_WORKLOAD, OF_RESOURCE, OWN_SPEED, by_name
from pinchpoint.causes.signature import Any, Is, Lost, Unless
from pinchpoint.causes.verdict import likely
from pinchpoint.model.causes import Experiment, Sign, Signs
from pinchpoint.model.hops import DropKind
from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Limit

DOCS = Path(__file__).parents[3] / "docs" / "causes.md"
MEASURED = "## Measured"
ROWS = [cause for rows in BY_WORKLOAD.values() for cause in rows]
MAKE = "python packaging/reference/causes.py, above '## Measured'"


def fitting(cause):
    """Signs that fit the row, and say as little else as they can."""
    values, lost = {}, {}
    for condition in cause.signature:
        if isinstance(condition, Unless):
            continue
        first = condition.of[0] if isinstance(condition, Any) else condition
        if isinstance(first, Lost):
            lost[first.kinds[0]] = 1.0
        elif first.at_least > float("-inf"):
            values[first.sign] = max(values.get(first.sign, 0.0), first.at_least)
        else:
            values.setdefault(first.sign, 0.0)
    return Signs(values, lost)


@pytest.mark.parametrize("cause", ROWS, ids=lambda cause: cause.name)
def test_a_row_fits_its_own_signature_and_says_what_to_do(cause):
    signs = fitting(cause)
    assert cause.fits(signs)
    assert not cause.fits(Signs()), "nothing was observed"
    assert 0.0 <= cause.weight(signs) <= 1.0
    assert cause.mend
    assert cause.test is None or cause.test.expects


def test_names_are_unique():
    names = [cause.name for cause in ROWS]
    assert len(set(names)) == len(names)
    assert by_name("masks").experiment is Experiment.FEW_FLOWS


def test_whatever_a_verdict_may_name_has_a_row():
    """Two limits have no cause: the highest load of a search, and what stays unexplained."""
    assert set(Limit) - {cause.limit for cause in ROWS} == {Limit.SEARCH_MAXIMUM, Limit.UNEXPLAINED}
    assert set(OF_RESOURCE) == set(Resource)


def test_the_page_is_what_the_rows_say():
    assert DOCS.read_text().partition(MEASURED)[0].rstrip() == page().rstrip(), MAKE


def named(values, lost=None):
    return [suspicion.cause for suspicion in likely(Signs(values, lost or {}))]


def test_a_device_that_forwards_no_more_under_overload_is_limited_by_its_own_speed():
    assert named({Sign.NDR_OF_MRR: 0.97, Sign.BUSY: 0.97, Sign.CYCLES: 400.0}, RING) == ["own-speed"]
    assert named({Sign.NDR_OF_MRR: 0.97}, RING) == ["own-speed"], "of a kernel that does not tell how busy it is"
    assert named({Sign.NDR_OF_MRR: 0.97, Sign.BUSY: 0.2}, RING) == []
    assert named({Sign.NDR_OF_MRR: 0.97, Sign.BUSY: 0.97}) == [], "nothing was lost in front of it"


def test_a_busy_thread_alone_accuses_nobody():
    """One that polls is as busy at a third of the load."""
    assert named({Sign.BUSY: 0.99, Sign.CYCLES: 400.0}, RING) == []
    assert named({}) == []


def test_losses_far_below_what_the_device_forwards_are_pauses_against_the_ring():
    idle = {Sign.NDR_OF_MRR: 0.68, Sign.BUSY: 0.68, Sign.RING_S: 0.0006}
    (suspicion,) = likely(Signs(idle, RING))
    assert (suspicion.cause, suspicion.experiment) == ("short-of-ring", Experiment.LARGE_RING)
    assert suspicion.share == pytest.approx(0.32)
    assert named({**idle, Sign.SILENCE: 5.0, Sign.SILENCE_OF_GAP: 50.0}, RING) == ["pauses", "short-of-ring"]


def test_causes_come_by_what_they_explain():
    suspicions = likely(Signs({Sign.BUSY: 0.99, Sign.PASSES: 4.0, Sign.WILDCARD_SHARE: 0.5, Sign.SUBTABLES: 2.0}))
    assert [(suspicion.cause, suspicion.share) for suspicion in suspicions] == [
        ("recirculation", 0.75),
        ("masks", 0.25),
    ]
    assert "passes through the datapath for each frame: 4" in suspicions[0].evidence


def test_what_explains_less_than_a_tenth_is_not_named():
    assert named({Sign.BUSY: 0.99, Sign.PASSES: 1.1}) == []
    assert named({}, {DropKind.POLICER: 0.09, DropKind.METER: 0.5}) == ["meter"]


RING = {DropKind.RECEIVE_RING: 1.0}


def test_a_ring_that_overflows_is_told_by_who_stood_still():
    """All in times of what the ring holds."""
    quiet = {Sign.BUSY: 0.5, Sign.WAITED: 0.0, Sign.WAITED_SHARE: 0.0, Sign.ENGINE_GAP: 0.1, Sign.BURST_OF_RING: 0.1}
    silent = {Sign.SILENCE: 5.0, Sign.SILENCE_OF_GAP: 50.0}
    assert named({**quiet, **silent}, RING) == ["pauses"]
    assert named({**quiet, **silent, Sign.ENGINE_GAP: 4.0, Sign.SILENCE_OF_GAP: 1.2}, RING) == ["small-ring"]
    assert named({**quiet, Sign.BURST_OF_RING: 0.5}, RING) == ["small-ring"]
    waits = {Sign.WAITED: 6.0, Sign.WAITED_SHARE: 0.2}
    assert named({**quiet, **waits, Sign.SILENCE: 0.0}, RING) == ["preempted"]
    assert named({**quiet, **waits, **silent}, RING) == ["pauses"]
    assert named({**quiet, **waits, Sign.ENGINE_GAP: 2.0}, RING) == ["preempted", "small-ring"]
    assert named({**quiet, **waits, Sign.ENGINE_GAP: 2.0, Sign.RING: 64}, RING) == ["small-ring", "preempted"]


def test_a_ring_explains_no_more_than_the_threads_headroom():
    """Of a thread that was busy for 92 % of the time, nobody is blamed for the rest."""
    nearly = {Sign.BUSY: 0.92, Sign.ENGINE_GAP: 4.0, Sign.RING: 4096, Sign.SILENCE: 5.0, Sign.SILENCE_OF_GAP: 50.0}
    assert named(nearly, RING) == []


def test_a_saturated_thread_is_no_small_ring_unless_few_batches_fill_it():
    busy = {Sign.NDR_OF_MRR: 0.99, Sign.BUSY: 0.99, Sign.ENGINE_GAP: 4.0, Sign.BURST_OF_RING: 0.9}
    assert named({**busy, Sign.RING: 4096}, RING) == ["own-speed"]
    assert named({**busy, Sign.RING: 64, Sign.NDR_OF_MRR: 0.5, Sign.RING_S: 1e-5}, RING)[0] == "small-ring"
    assert named({**busy, Sign.RING: 64}, RING) == ["small-ring"]
    assert not OWN_SPEED.fits(Signs({**busy, Sign.RING: 64}, RING))


def test_a_device_that_does_not_tell_its_waits_can_still_be_seen_to_pause():
    assert named({Sign.SILENCE: 5.0, Sign.SILENCE_OF_GAP: 50.0}, RING) == ["pauses"]
    unobserved = Unless(Is(Sign.WAITED, at_least=0.5))
    assert unobserved.holds(Signs())
    assert unobserved.words(Signs()).endswith("not observed")
    assert not unobserved.holds(Signs({Sign.WAITED: 0.5}))


def test_a_wait_explains_of_a_saturated_thread_no_more_than_its_time():
    waits = {Sign.WAITED: 4.0, Sign.BUSY: 0.99, Sign.NDR_OF_MRR: 0.99}
    assert named({**waits, Sign.WAITED_SHARE: 0.02}, RING) == ["own-speed"]
    (suspicion,) = likely(Signs({**waits, Sign.WAITED_SHARE: 0.5}, RING))
    assert (suspicion.cause, suspicion.share) == ("preempted", 0.5)
    assert len(suspicion.evidence) == len(set(suspicion.evidence))


def test_a_condition_says_what_it_asks_and_what_it_saw():
    signs = Signs({Sign.BUSY: 0.97, Sign.RING_S: 0.00205}, {DropKind.MTU: 0.25})
    assert Is(Sign.BUSY, at_least=0.95).asks() == "busy share of the busiest forwarding thread: at least 95.0 %"
    assert Is(Sign.RING_S).words(signs).endswith(": 2.05 ms")
    both = Any((Is(Sign.BUSY, at_least=0.99), Lost((DropKind.MTU, DropKind.RULE), 0.1)))
    assert [part.words(signs) for part in both.held(signs)] == ["25.0 % of the lost frames: MTU or rule"]
    assert ", or " in both.asks()


def test_software_that_forwards_one_way_is_no_offload_that_waits_for_a_reply_unless_one_is_claimed():
    one_way = {Sign.ONE_WAY: 1.0, Sign.SOFTWARE: 1.0}
    assert "one-way" not in named(one_way)
    assert "one-way" in named({**one_way, Sign.CLAIMED: 1.0})
