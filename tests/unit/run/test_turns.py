"""What trials of two benches in turns show."""

from trials import pmd, stream_counts, trial

from pinchpoint.model.hops import DropKind
from pinchpoint.model.trial import Drop, Hop, TrialValidity
from pinchpoint.run.turns import dropped, judged


def carried(frames, offered=1000, **more):
    return trial(1000.0, counts=stream_counts(offered=offered, received=frames), **more)


def pairs(a, b, number=10):
    return [(a, b)] * number


def test_a_bench_that_carries_more_than_an_overloaded_one_is_better():
    found = judged(pairs(carried(300), carried(1000)))
    assert (found.rate.is_better, found.rate.is_no_better) == (True, False)


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
    before, after = (carried(300, 300, pmds=[pmd(0.99, cost)]) for cost in (2000.0, 1000.0))
    found = judged(pairs(before, after))
    assert (found.cycles.gain, found.cycles.is_better) == (2.0, True)


def test_cycles_of_a_thread_with_time_to_spare_say_nothing():
    before, after = (carried(300, 300, pmds=[pmd(0.5, cost)]) for cost in (2000.0, 1000.0))
    assert judged(pairs(before, after)).cycles.pairs == 0


def test_fewer_losses_at_one_load_are_seen_and_pairs_without_any_say_nothing():
    found = judged([*pairs(carried(900), carried(1000)), *pairs(carried(1000), carried(1000), 5)])
    assert (found.loss.pairs, found.loss.is_better) == (10, True)
    assert judged(pairs(carried(900), carried(890))).loss.is_no_better


def test_an_aborted_trial_is_no_turn():
    died = carried(0, validity=TrialValidity.ABORTED)
    assert judged([(carried(300), died), (died, carried(300))]).pairs == 0


def test_drops_are_shares_of_the_frames_that_were_offered():
    hop = Hop("pipeline", 1000, 750, (Drop("rule", 250, "c", "rules", kind=DropKind.RULE),))
    assert dropped([carried(750, hops=[hop]), carried(1000)]) == {DropKind.RULE: 0.125}
