"""Traffic that goes on over links that went down, and ends when it is told to."""

import threading
from types import SimpleNamespace

import msgspec
import pytest
from engine_accounts import EMPTY, result
from support import TWO_PORTS

from pinchpoint.engine import protocol
from pinchpoint.measure.traffic import RENEWED_S, Background
from pinchpoint.model.errors import LinkDownError

RATE_FPS = 1000.0


class Engine:
    """Its links go down in some of its transmissions; others last until they are stopped, or their time."""

    def __init__(self, down=(), refuses=()):
        self.down, self.refuses = down, refuses
        self.asked, self.told_to_stop = [], threading.Event()
        self.begun = threading.Semaphore(0)

    def transmit(self, message, heard):
        self.asked.append(message)
        number = len(self.asked)
        if number in self.refuses:
            self.begun.release()
            self.told_to_stop.wait(0.01)  # as long as it waits for a link
            raise LinkDownError("engine: left: the link is down")
        heard(protocol.Sample(message.trial, 0.0, 0, 0, 0, 0, 0, 0, ()))
        self.begun.release()
        if number in self.down:
            return account(0.5, received=400, status="aborted")
        if message.duration_s < RENEWED_S:
            return account(message.duration_s, status="completed")
        assert self.told_to_stop.wait(10), "nobody stops it"
        return account(0.25, received=200)

    def stop(self):
        self.told_to_stop.set()


def account(duration_s, received=None, status="stopped"):
    offered = round(RATE_FPS * duration_s)
    stream = msgspec.structs.replace(EMPTY, offered=offered, received=offered if received is None else received)
    return result([stream], duration_s=duration_s, status=status)


def sent(engine, renewed=True):
    """What was seen of traffic that is stopped once the last transmission has begun."""
    bench = SimpleNamespace(scenario=TWO_PORTS)
    background = Background(bench, engine, None, RATE_FPS, renewed=renewed)
    try:
        background.warm_up(0.1, lambda: None)
        background.start(lambda: None)
        for _ in range(3 + len(engine.down) + min(2, len(engine.refuses))):
            assert engine.begun.acquire(timeout=10)
        return background.finish(0.0, lambda: None)
    finally:
        background.abandon()


def test_what_a_link_ended_is_sent_anew_and_accounted_for_as_one():
    engine = Engine(down=(3, 4))
    seen = sent(engine)
    assert [message.duration_s for message in engine.asked[3:]] == [RENEWED_S] * 2
    assert len({message.epoch for message in engine.asked[2:]}) == 3, "frames of the one before are told apart"
    carried = seen.load[1]
    assert carried.received == 400 + 400 + 200
    assert carried.offered >= 500 + 500 + 250
    assert carried.duration_s >= 1.25
    assert seen.load[0].lost == 0


def test_without_a_link_that_goes_down_there_is_one_transmission():
    engine = Engine()
    assert sent(engine).load[1].received == 200
    assert len(engine.asked) == 3, "warm-up, the quiet second, and that"


def test_traffic_that_is_not_to_be_sent_anew_ends_with_its_link():
    engine = Engine(down=(2,))
    bench = SimpleNamespace(scenario=TWO_PORTS)
    background = Background(bench, engine, None, RATE_FPS)
    background.start(lambda: None)
    seen = background.finish(0.0, lambda: None)
    background.abandon()
    assert seen.load[1].received == 400
    assert len(engine.asked) == 2, "the quiet second, and that"


def test_links_that_come_up_later_than_the_engine_waits_are_waited_for():
    engine = Engine(down=(3,), refuses=(4, 5))
    assert sent(engine).load[1].received == 400 + 200
    assert len(engine.asked) == 6


def test_links_that_stay_down_are_an_error_with_the_engines_words():
    engine = Engine(down=(3,), refuses=range(4, 1_000_000))
    with pytest.raises(LinkDownError, match="left: the link is down"):
        sent(engine)


class DeafToTheFirstStop(Engine):
    """Its link goes down, and the first stop comes between that transmission and the next: an idle engine's is lost."""

    def __init__(self):
        super().__init__(down=(3,))
        self.stops = 0

    def stop(self):
        self.stops += 1
        if self.stops > 1:
            super().stop()


def test_a_stop_that_comes_between_two_transmissions_is_repeated():
    engine = DeafToTheFirstStop()
    assert sent(engine).load[1].received == 400 + 200
    assert engine.stops > 1
