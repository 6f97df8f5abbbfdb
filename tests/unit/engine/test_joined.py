"""Streams over two engines: what each is asked for, in which order, and what their accounts make together."""

from dataclasses import replace

import pytest
from engine_accounts import EMPTY, result, worker
from msgspec.structs import replace as changed
from support import request, stream

from pinchpoint.account.ledger import build
from pinchpoint.engine.multi_engine import End, JoinedInstrument, divided, joined
from pinchpoint.engine.protocol import PortResult, WorkerRequest
from pinchpoint.engine.streams import Latency
from pinchpoint.engine.trials import engine_result
from pinchpoint.model.errors import EngineError
from pinchpoint.model.hops import HopGraph, Party, Refused
from pinchpoint.model.trial import Cause, Sample

TIMES = Latency(97, 10, 20.0, 1.0, 40, 20, 30, 35, 38, 40, ((0.5, 20),), "")
SENT = changed(
    EMPTY, rx_port=None, intended=100, offered=100, refused=1, sent=99, shortfall=0, received=None, lost=None
)
CAME = changed(
    EMPTY,
    tx_port=None,
    intended=None,
    shortfall=None,
    lost=None,
    received=97,
    duplicated=2,
    reordered=1,
    latency=TIMES,
    jitter=TIMES,
    last_loss_s=0.5,
)
GRAPH = HopGraph(Refused("{port} full", Party.ENGINE), (), ())


class Engine:
    """Notes what it is asked; answers as it is given."""

    def __init__(self, name, log, answer=None, fails=False):
        self.name, self.log, self.answer, self.fails = name, log, answer, fails

    def open(self):
        return {"engine": "1"}

    def begin(self, message):
        self.asked = message
        self.log.append(f"{self.name} begins")

    def go(self):
        self.log.append(f"{self.name} may send")

    def await_sent(self, message, heard=None):
        self.log.append(f"{self.name} has sent")
        if heard:
            heard(Sample(0.1, 10, 1, received=0))
        if self.fails:
            raise EngineError("gone")

    def finish(self, message):
        self.log.append(f"{self.name} ends")
        return self.answer

    def stop(self):
        self.log.append(f"{self.name} is stopped")

    def close(self):
        self.log.append(f"{self.name} is closed")


def account(stream_result, port, status, core_gap_ns=0, others=()):
    """An engine's account of one port and its streams, the first of which is all that the port's counts show."""
    told = result([stream_result, *others], workers=[worker(core_gap_ns, core_gap_ns)], status=status)
    told = changed(told, witness=changed(told.witness, cache_lines=()))
    received = stream_result.received or 0
    told = changed(
        told, ports=(PortResult(port, stream_result.sent, stream_result.refused, received, 0, 0, 0, 0, None, {}),)
    )
    return engine_result(told, [WorkerRequest(0, (port,))])


def ends(log, sender=None, receiver=None):
    return [
        End("gen", False, ("left",), sender or Engine("gen", log, account(SENT, "left", "completed"))),
        End("sink", False, ("right",), receiver or Engine("sink", log, account(CAME, "right", "completed"))),
    ]


def run(log, clock_error_ns=None, heard=None, **engines):
    return JoinedInstrument(ends(log, **engines), clock_error_ns).run(request(100.0), heard)


def test_all_receive_before_one_sends_and_until_all_have_sent():
    log = []
    run(log)
    steps = ("begins", "may send", "has sent", "is stopped", "ends")
    expected = [f"{name} {step}" for step in steps for name in ("gen", "sink")]
    expected[2:4] = ["sink may send", "gen may send"]  # it hears all that is sent from then on
    assert log == expected


class Reflector:
    """Notes when it has the ports."""

    def __init__(self, log, lost=0):
        self.log, self.frames = log, lost

    def lost(self):
        return self.frames

    def open(self):
        self.log.append("sink sends back")

    def close(self):
        self.log.append("sink sends back no more")


def test_what_the_receiver_sends_back_is_timed_by_the_sender():
    log = []
    times = changed(TIMES, histogram="HISTFAAA")
    back = changed(SENT, rx_port="left", received=98, lost=1, latency=times, jitter=TIMES, reordered=1)
    gen, sink = ends(log, sender=Engine("gen", log, account(back, "left", "completed")))
    instrument = JoinedInstrument([gen, replace(sink, reflectors=(Reflector(log),))], None)
    outcome = instrument.run(replace(request(100.0), there_and_back=True))
    assert log == ["sink is closed", "sink sends back", "gen begins", "gen ends", "sink sends back no more"]
    assert (gen.engine.asked.streams[0].tx_port, gen.engine.asked.streams[0].rx_port) == ("left", "left")
    assert not gen.engine.asked.on_go
    (stream_found,) = outcome.streams
    assert (stream_found.rx_port, stream_found.received, stream_found.lost) == ("right", 98, 1)
    assert stream_found.round_trip.p50_ns == 20
    assert (stream_found.latency, stream_found.jitter, stream_found.reordered) == (None, None, None)
    assert stream_found.latency_histogram == "", "of a round trip, which is no latency"
    assert outcome.noise is None


def test_what_a_reflector_lost_is_no_loss_of_the_device():
    gen, sink = ends([], sender=Engine("gen", [], account(changed(SENT, rx_port="left"), "left", "completed")))
    instrument = JoinedInstrument([gen, replace(sink, reflectors=(Reflector([], lost=7), Reflector([])))], None)
    noise = instrument.run(replace(request(100.0), there_and_back=True)).noise
    assert (noise.cause, noise.reason) == (Cause.REFLECTOR, "the engine that sends back lost frames: 7 on sink")


def test_a_stop_ends_the_trial_at_every_engine():
    log = []
    instrument = JoinedInstrument(ends(log), None)
    instrument.run(request(100.0))
    log.clear()
    instrument.stop()
    assert log == ["gen is stopped", "sink is stopped"]


def test_each_engine_is_asked_for_its_end_of_the_stream_under_the_same_id():
    sender, receiver = (part.message for part in divided(request(100.0), ends([]), False))
    assert [(stream.id, stream.tx_port, stream.rx_port) for stream in (*sender.streams, *receiver.streams)] == [
        (0, "left", None),
        (0, None, "right"),
    ]
    assert (sender.duration_s, sender.drain_s) == (1.0, 0.0)
    assert (receiver.duration_s, receiver.drain_s) == (1.0, 0.1)
    assert sender.on_go is receiver.on_go is True
    assert sender.epoch == receiver.epoch


def test_the_clocks_of_hosts_are_used_only_where_the_scenario_says_how_far_they_are_apart():
    for is_timed in (False, True):
        messages = [part.message for part in divided(request(100.0), ends([]), is_timed)]
        assert [message.wall_clock is True for message in messages] == [is_timed, is_timed]


def test_a_stream_with_both_ends_at_one_engine_is_asked_for_whole():
    both = End("gen", False, ("left", "right"), Engine("gen", []))
    (part,) = divided(request(100.0), [both], True)
    assert (part.message.streams[0].tx_port, part.message.streams[0].rx_port) == ("left", "right")
    assert part.message.wall_clock is not True


def test_the_senders_counts_and_the_receivers_are_one_account():
    (crossing,) = run([]).streams
    assert (crossing.intended, crossing.offered, crossing.refused, crossing.sent) == (100, 100, 1, 99)
    assert (crossing.received, crossing.lost, crossing.duplicated, crossing.reordered) == (97, 2, 2, 1)
    assert (crossing.tx_port, crossing.rx_port) == ("left", "right")
    assert crossing.jitter.count == 97


def test_what_needs_both_ends_at_one_engine_is_unknown():
    outcome = run([])
    assert (
        outcome.streams[0].latency,
        outcome.streams[0].last_loss_s,
        outcome.streams[0].largest_jump,
    ) == (None, None, None)
    assert (outcome.cache_line_before_ns, outcome.loopback) == (None, None)
    assert {worker.host: worker.gap_max_at_s for worker in outcome.workers} == {"gen": 0.1, "sink": None}


def test_a_latency_by_two_clocks_has_their_error():
    (crossing,) = run([], clock_error_ns=50_000.0).streams
    assert (crossing.latency.p50_ns, crossing.latency.clock_error_ns) == (20, 50_000.0)


def test_the_ledger_closes_over_both_hosts():
    whole = build(run([]), {}, ["left", "right"], GRAPH)
    assert (whole.offered, whole.received, whole.dropped, whole.unexplained) == (100, 97, 1, 2)
    assert (whole.hops[0].frames_out, whole.hops[-1].frames_in) == (99, 97)


def test_a_trial_that_was_stopped_at_one_engine_is_not_complete():
    outcome = run([], sender=Engine("gen", [], account(SENT, "left", "stopped")))
    assert (outcome.completed, outcome.reason) == (False, None)


def test_an_engine_that_breaks_off_makes_the_account_unusable_with_the_reason_and_the_others_are_ended():
    log = []
    outcome = run(log, receiver=Engine("sink", log, account(CAME, "right", "aborted")))
    assert (outcome.completed, outcome.reason) == (False, "on sink: left: its link went down")
    assert {"gen is stopped", "gen ends"} < set(log)


BACK = {"tx_port": "right", "rx_port": None, "id": 1, "intended": 50, "offered": 50, "refused": 0, "sent": 50}


def both_ways(log, lost_forth=2, lost_back=0, status="completed"):
    """gen sends 99 frames and sink 50."""
    forth, back = changed(CAME, received=99 - lost_forth), changed(CAME, id=1, rx_port="left", received=50 - lost_back)
    gen = account(SENT, "left", "completed", others=(back,))
    sink = account(forth, "right", status, others=(changed(SENT, **BACK),))
    return ends(log, Engine("gen", log, gen), Engine("sink", log, sink))


def run_both_ways(engines, heard=None):
    asked = replace(request(100.0), streams=(stream(), stream(tx_port="right", rx_port="left")), sample_s=0.1)
    return JoinedInstrument(engines, None).run(asked, heard)


def test_where_both_send_each_is_asked_for_its_end_of_either_stream():
    engines = both_ways([])
    run_both_ways(engines)
    assert [
        [(stream.id, stream.tx_port, stream.rx_port) for stream in end.engine.asked.streams] for end in engines
    ] == [
        [(0, "left", None), (1, None, "left")],
        [(0, None, "right"), (1, "right", None)],
    ]
    assert [end.engine.asked.drain_s for end in engines] == [0.1, 0.1]


@pytest.mark.parametrize(("lost_forth", "lost_back"), [(0, 0), (2, 0), (0, 7), (3, 4)])
def test_where_both_send_each_direction_has_its_own_losses_and_the_ledger_closes(lost_forth, lost_back):
    outcome = run_both_ways(both_ways([], lost_forth, lost_back))
    assert [(stream.tx_port, stream.rx_port, stream.lost) for stream in outcome.streams] == [
        ("left", "right", lost_forth),
        ("right", "left", lost_back),
    ]
    whole = build(outcome, {}, ["left", "right"], GRAPH)
    assert (whole.offered, whole.received) == (150, 149 - lost_forth - lost_back)
    assert (whole.dropped, whole.unexplained) == (1, lost_forth + lost_back)


@pytest.mark.parametrize(("late_s", "is_apart"), [(0.3, False), (0.8, True)])
def test_two_engines_that_send_have_sent_together_for_half_of_the_trial_at_least(monkeypatch, late_s, is_apart):
    times = iter([0.0, 1.0 + late_s])
    monkeypatch.setattr("pinchpoint.engine.multi_engine.time.monotonic", lambda: next(times))
    noise = run_both_ways(both_ways([])).noise
    assert bool(noise) is is_apart
    if is_apart:
        told = "the engines may have begun to send 800 ms apart, more than 50% of the trial's 1 s"
        assert (noise.cause, noise.reason) == (Cause.APART, told)


def test_where_both_send_nobody_is_asked_for_samples_since_no_engine_knows_the_whole_load():
    heard, engines = [], both_ways([])
    run_both_ways(engines, heard.append)
    assert heard == []
    assert [end.engine.asked.sample_interval_s for end in engines] == [None, None]


def test_samples_are_the_senders_and_say_nothing_of_what_arrives():
    heard = []
    run([], heard=heard.append)
    assert [(sample.offered, sample.lost, sample.received) for sample in heard] == [(10, None, None)]


def test_an_error_names_the_host_of_its_engine():
    with pytest.raises(EngineError) as caught:
        run([], sender=Engine("gen", [], fails=True))
    assert caught.value.__notes__ == ["the engine on gen"]


def test_two_cores_of_one_number_on_two_hosts_are_two_cores():
    outcome = run([])
    assert [(worker.host, worker.core, worker.ports) for worker in outcome.workers] == [
        ("gen", 0, ("left",)),
        ("sink", 0, ("right",)),
    ]


def test_two_streams_of_one_sender_to_two_receivers_are_joined_by_their_ids():
    streams = (stream(), stream(rx_port="other"))
    asked = replace(request(100.0), streams=streams)
    second = changed(SENT, id=1)
    sender = engine_result(changed(result([SENT, second]), witness=changed(result([]).witness, cache_lines=())), ())
    came = [
        account(changed(CAME, id=n, received=90 + n), port, "completed") for n, port in enumerate(("right", "other"))
    ]
    three = [*ends([]), End("third", False, ("other",), Engine("third", []))]
    parts = list(divided(asked, three, False))
    joint = joined(asked, list(zip(parts, [sender, *came], strict=True)), None)
    assert [(stream.rx_port, stream.received) for stream in joint.streams] == [("right", 90), ("other", 91)]


@pytest.mark.parametrize(
    ("sent", "came", "shares"), [(90, 45, (0.9, 0.45)), (45, 90, (0.45, 0.9)), (180, 45, (None, None))]
)
def test_each_direction_of_a_nics_link_has_its_own_share(sent, came, shares):
    forth = changed(EMPTY, tx_port="left", rx_port=None, sent=sent, bytes_mean=105.0)
    back = changed(EMPTY, tx_port=None, rx_port="left", received=came, bytes_mean=105.0)
    told = result([forth, back], duration_s=1.0)
    told = changed(told, witness=changed(told.witness, cache_lines=()))
    (port,) = engine_result(told, (), {"left": 100_000}).ports
    assert (port.tx_share, port.rx_share) == pytest.approx(shares)
