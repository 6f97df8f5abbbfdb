"""Warm-up: rounds until the switch misses nothing, each no faster than the last one was carried."""

from dataclasses import replace

import pytest
import trials
from simulated import SimulatedInstrument
from support import TWO_PORTS as SCENARIO
from support import Truth

from pinchpoint.measure.session import LONGEST_S, SLOWEST_FPS, Session, first_round
from pinchpoint.measure.standing import Listener
from pinchpoint.model.warning import Warn


def with_flows(flows):
    return replace(SCENARIO, streams=(replace(SCENARIO.streams[0], flows=flows),))


class Switch(Session):
    """Learns `learns_fps` flows a second; carries what it knows."""

    def __init__(self, flows, learns_fps):
        super().__init__(with_flows(flows), SimulatedInstrument(Truth(1e6)), None, None, Listener())
        self.flows, self.learns_fps, self.known = flows, learns_fps, 0
        self.rounds = []

    def trial(self, phase, duration_s, load_fps):
        assert phase == "warm-up"
        self.rounds.append((duration_s, load_fps))
        new = min(self.flows - self.known, int(self.learns_fps * duration_s), int(load_fps * duration_s))
        self.known += new
        offered = int(load_fps * duration_s)
        learning = self.known < self.flows or new > 0
        received = min(offered, int(self.learns_fps * duration_s)) if learning and new else offered
        load = replace(trials.thread_load(), slow_path=new)
        counts = trials.stream_counts(offered=offered, received=received)
        return replace(trials.trial(load_fps, counts=counts, threads=[load]), sent_duration_s=duration_s)


def test_few_five_tuples_are_learnt_in_one_round():
    switch = Switch(flows=100, learns_fps=30_000)
    switch.warm_up()
    assert switch.not_learnt is None
    assert switch.rounds == [(0.5, 1e6)]


def test_many_are_sent_again_no_faster_than_they_were_carried_until_none_is_missed():
    switch = Switch(flows=65_536, learns_fps=30_000)
    switch.warm_up()
    assert switch.not_learnt is None
    assert switch.known == 65_536
    loads = [load for _, load in switch.rounds]
    assert loads[0] == 1e6
    assert loads[1] == pytest.approx(30_000, rel=0.01)
    assert sum(duration for duration, _ in switch.rounds) < 10


def test_a_switch_that_never_learns_is_told_and_ends_the_warm_up():
    class Forgetful(Switch):
        def trial(self, *asked):
            self.known = 0
            return super().trial(*asked)

    switch = Forgetful(flows=65_536, learns_fps=30_000)
    switch.warm_up()
    told = switch.not_learnt
    assert told is not None and told.kind is Warn.NOT_LEARNT
    assert "dut.flow_limit" in told.advice
    assert sum(duration for duration, _ in switch.rounds) <= LONGEST_S + 0.01


def test_a_switch_that_does_not_count_misses_gets_one_round():
    class Silent(Switch):
        def trial(self, *asked):
            return replace(super().trial(*asked), threads=())

    switch = Silent(flows=65_536, learns_fps=30_000)
    switch.warm_up()
    assert switch.not_learnt is None
    assert len(switch.rounds) == 1


def test_a_switch_that_carries_nothing_is_asked_at_the_slowest_rate():
    class Deaf(Switch):
        def trial(self, *asked):
            ran = super().trial(*asked)
            return replace(ran, received=0)

    switch = Deaf(flows=20_000, learns_fps=5_000)
    switch.warm_up()
    assert min(load for _, load in switch.rounds) == SLOWEST_FPS


def test_the_first_round_stays_below_the_highest_load_of_the_search():
    slow = replace(SCENARIO, search=replace(SCENARIO.search, max_load_fps=50_000.0))
    assert first_round(slow) == (0.5, 50_000)
