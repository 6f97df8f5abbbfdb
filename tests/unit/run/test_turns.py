"""What trials of two benches in turns show."""

from types import SimpleNamespace

import pytest
from trials import stream_counts, thread_load, trial

from pinchpoint.model.causes import Signs
from pinchpoint.model.hops import DropKind
from pinchpoint.model.trial import Drop, Hop, TrialValidity
from pinchpoint.run import interleaved
from pinchpoint.run.interleaved import dropped, is_certain, judged


def carried(frames, offered=1000, **more):
    return trial(1000.0, counts=stream_counts(offered=offered, received=frames), **more)


def pairs(a, b, number=10):
    return [(a, b)] * number


def test_a_bench_that_carries_more_than_an_overloaded_one_is_better():
    standing = judged(pairs(carried(300), carried(1000)))
    assert (standing.rate.is_better, standing.rate.is_no_better) == (True, False)


def test_an_unchanged_bench_that_was_not_overloaded_shows_no_gain_of_the_rate():
    slow_generator = carried(300, offered=300)
    assert not judged(pairs(slow_generator, carried(1000))).rate.is_better


def test_a_changed_bench_that_was_not_overloaded_may_carry_more():
    assert not judged(pairs(carried(300), carried(300, offered=300))).rate.is_no_better
    assert judged(pairs(carried(300), carried(300))).rate.is_no_better


def test_twice_the_streams_must_carry_more_than_twice_as_much():
    assert judged(pairs(carried(300), carried(600)), streams=2).rate.is_no_better
    assert judged(pairs(carried(300), carried(700)), streams=2).rate.is_better


def test_packets_of_a_busy_thread_that_cost_less_are_seen_although_the_generator_is_the_limit():
    before, after = (carried(300, 300, threads=[thread_load(0.99, cost)]) for cost in (2000.0, 1000.0))
    standing = judged(pairs(before, after))
    assert (standing.cycles.gain, standing.cycles.is_better) == (2.0, True)


def test_cycles_of_a_thread_with_time_to_spare_say_nothing():
    before, after = (carried(300, 300, threads=[thread_load(0.5, cost)]) for cost in (2000.0, 1000.0))
    assert judged(pairs(before, after)).cycles.pairs == 0


def test_fewer_losses_at_one_load_are_seen_and_pairs_without_any_say_nothing():
    standing = judged([*pairs(carried(900), carried(1000)), *pairs(carried(1000), carried(1000), 5)])
    assert (standing.loss.pairs, standing.loss.is_better) == (10, True)
    assert judged(pairs(carried(900), carried(890))).loss.is_no_better


def test_an_aborted_trial_is_no_turn():
    died = carried(0, validity=TrialValidity.ABORTED)
    assert judged([(carried(300), died), (died, carried(300))]).pairs == 0


def test_drops_are_shares_of_the_frames_that_were_offered():
    hop = Hop("pipeline", 1000, 750, (Drop("rule", 250, "c", "rules", kind=DropKind.RULE),))
    assert dropped([carried(750, hops=[hop]), carried(1000)]) == {DropKind.RULE: 0.125}


def dropping(frames, **more):
    hop = Hop("pipeline", 1000, 1000 - frames, (Drop("rule", frames, "c", "rules", kind=DropKind.RULE),))
    return carried(1000 - frames, hops=[hop], **more)


def test_drops_of_aborted_trials_count_no_more_than_their_rates():
    died = dropping(1000, validity=TrialValidity.ABORTED)
    standing = judged([(dropping(250), carried(1000)), (died, dropping(500)), (dropping(250), died)])
    assert (standing.dropped_before, standing.dropped_after) == ({DropKind.RULE: 0.25}, {})


def test_pairs_are_made_until_it_is_certain_whether_the_rate_falls():
    falls = [*pairs(carried(900), carried(630), 11), (carried(900), carried(900))]
    assert judged(falls).rate.is_no_better
    assert not is_certain(judged(falls), is_below=False)
    assert is_certain(judged([*falls, *pairs(carried(900), carried(630), 2)]), is_below=False)


@pytest.fixture
def bench(monkeypatch):
    """Makes a pair of benches of which A and B give these trials, one after the other."""

    def made(**trials):
        sides = {
            side: SimpleNamespace(scenario=SimpleNamespace(streams=[1], search=SimpleNamespace(max_load_fps=1000.0)))
            for side in trials
        }
        left = {side: iter(each) for side, each in trials.items()}

        def of(side, *_):
            return lambda load_fps: next(left[side])

        monkeypatch.setattr(interleaved, "_signs", lambda pair, side, seen: Signs({"trials": len(seen)}))
        return SimpleNamespace(benches=sides, trials=of)

    return made


def test_a_pair_with_an_aborted_trial_has_no_part_in_the_signs(bench):
    died = carried(0, validity=TrialValidity.ABORTED)
    changed = []
    pair = bench(A=[carried(300)] * 40, B=[died, *[carried(1000)] * 39])
    turns = interleaved.measure_turns(pair, False, changed)
    assert (turns.pairs, len(changed)) == (10, 11)
    assert (turns.before.values, turns.after.values) == ({"trials": 10}, {"trials": 10})


def test_a_rate_that_surely_falls_is_seen_to_fall(bench):
    pair = bench(A=[carried(900)] * 40, B=[carried(900), *[carried(630)] * 39])
    assert interleaved.measure_turns(pair, False, []).rate.is_worse
