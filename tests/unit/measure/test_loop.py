"""The loop round whatever is sent: what it does in which order, what it keeps, and what ends it."""

import pytest

from pinchpoint.measure.loop import Loop
from pinchpoint.measure.standing import Interrupted
from pinchpoint.model.errors import BenchError, DutError, EngineError, RequirementError, UnreachableError
from pinchpoint.observe.snapshot import Bracket, Collector, Snapshot


class Counter(Collector):
    """Counts its readings; the device no longer answers the n-th."""

    name = "counter"

    def __init__(self, log, dies_at=0):
        self.log, self.dies_at, self.readings = log, dies_at, 0

    def snapshot(self):
        self.readings += 1
        self.log.append("read")
        if self.readings == self.dies_at:
            raise DutError("the switch does not answer")
        return Snapshot(0.0, {"readings": self.readings})


def looped(log, recorded=()):
    return Loop(
        "point",
        lambda record: log.append(f"keep {record}"),
        recorded,
        lambda name, *expected: log.append(f"begin {name} {expected}"),
        lambda record: log.append(f"end {record}"),
        lambda: log.append("halt"),
    )


def test_what_is_asked_for_is_begun_observed_kept_and_announced_in_this_order():
    loop = looped(log := [])
    name = loop.begin(1.0, 2e6)
    with loop.observing(Bracket([Counter(log)])):
        log.append("run")
    assert loop.kept(name) == "point-0001"
    assert log == ["begin point-0001 (1.0, 2000000.0)", "read", "run", "read", "keep point-0001", "end point-0001"]
    assert loop.whole().differences == {"readings": 1}
    assert loop.records == ["point-0001"]


def test_each_record_of_an_interrupted_run_answers_once_and_ids_go_on_after_the_last():
    loop = looped(log := [], ["a1", "b", "a2"])
    assert [loop.replayed(lambda record: record.startswith("a")) for _ in range(3)] == ["a1", "a2", None]
    assert loop.begin() == "point-0004"
    assert log == ["end a1", "end a2", "begin point-0004 ()"], "nothing is kept twice"
    assert loop.records == ["a1", "a2"]


def test_a_record_during_which_the_device_died_is_kept_and_then_its_death_is_the_error():
    loop = looped(log := [])
    with loop.observing(Bracket([Counter(log, dies_at=2)])):
        pass
    assert (loop.seen.flat(), str(loop.died)) == ({}, "the switch does not answer")
    with pytest.raises(DutError):
        loop.whole()
    with pytest.raises(DutError):
        loop.kept("aborted")
    assert log == ["read", "read", "keep aborted"]
    assert loop.records == ["aborted"]


@pytest.mark.parametrize("error", [EngineError, RequirementError, UnreachableError])
@pytest.mark.parametrize(("dies_at", "told"), [(0, None), (2, DutError)], ids=["it lives", "it died"])
def test_what_cannot_run_is_the_devices_fault_only_if_it_has_died(error, dies_at, told):
    bracket = Bracket([Counter([], dies_at)])
    with pytest.raises(told or error), looped([]).observing(bracket):
        raise error("no answer")


def test_another_error_asks_the_device_nothing():
    counter = Counter([])
    with pytest.raises(BenchError), looped([]).observing(Bracket([counter])):
        raise BenchError("a command failed")
    assert counter.readings == 1


def test_a_stop_halts_what_runs_and_interrupts_once_it_is_kept():
    loop = looped(log := [])
    with loop.running(lambda: None):
        loop.stop()
    with pytest.raises(Interrupted):
        loop.kept("stopped")
    assert log == ["halt", "keep stopped", "end stopped"]


def test_a_stop_while_nothing_runs_halts_nothing_and_is_seen_by_whoever_checks():
    loop = looped(log := [], ["a"])
    loop.check()
    loop.stop()
    assert log == []
    with pytest.raises(Interrupted):
        loop.check()
    with pytest.raises(Interrupted):
        loop.replayed(lambda _: True)
