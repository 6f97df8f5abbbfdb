"""One stream over two engines: what each is asked for, in which order, and what their accounts make together."""

from dataclasses import replace

import pytest
from engine_accounts import EMPTY, result, worker
from msgspec.structs import replace as changed
from support import request, stream

from pinchpoint.account.ledger import build
from pinchpoint.engine.joined import RECEIVES_FOR_S, End, JoinedInstrument, divided, joined
from pinchpoint.engine.parts import Latency
from pinchpoint.engine.protocol import PortResult, WorkerRequest
from pinchpoint.engine.results import engine_result
from pinchpoint.model.errors import EngineError
from pinchpoint.model.hops import HopGraph, Party, Refused
from pinchpoint.model.trial import Sample

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
        self.log.append(f"{self.name} begins")

    def finish(self, message, heard=None):
        self.log.append(f"{self.name} ends")
        if heard:
            heard(Sample(0.1, 10, 1, received=0))
        if self.fails:
            raise EngineError("gone")
        return self.answer

    def stop(self):
        self.log.append(f"{self.name} is stopped")

    def close(self):
        self.log.append(f"{self.name} is closed")


def account(stream_result, port, status, core_gap_ns=0):
    """An engine's account of one stream and one port."""
    told = result([stream_result], workers=[worker(core_gap_ns, core_gap_ns)], status=status)
    told = changed(told, witness=changed(told.witness, cache_lines=()))
    received = stream_result.received or 0
    told = changed(
        told, ports=(PortResult(port, stream_result.sent, stream_result.refused, received, 0, 0, 0, 0, None, {}),)
    )
    return engine_result(told, [WorkerRequest(0, (port,))])


def ends(log, sender=None, receiver=None):
    return [
        End("gen", False, ("left",), sender or Engine("gen", log, account(SENT, "left", "completed"))),
        End("sink", False, ("right",), receiver or Engine("sink", log, account(CAME, "right", "stopped"))),
    ]


def run(log, clock_error_ns=None, heard=None, **engines):
    return JoinedInstrument(ends(log, **engines), clock_error_ns).run(request(100.0), heard)


def test_who_receives_begins_first_and_ends_last():
    log = []
    run(log)
    assert log == ["sink begins", "gen begins", "gen ends", "sink is stopped", "sink ends"]


def test_a_stop_ends_who_sends_and_leaves_who_receives_to_the_end_of_the_trial():
    log = []
    instrument = JoinedInstrument(ends(log), None)
    instrument.run(request(100.0))
    log.clear()
    instrument.stop()
    assert log == ["gen is stopped"]


def test_each_engine_is_asked_for_its_end_of_the_stream_under_the_same_id():
    sender, receiver = (part.message for part in divided(request(100.0), ends([]), False))
    assert [(one.id, one.tx_port, one.rx_port) for one in (*sender.streams, *receiver.streams)] == [
        (0, "left", None),
        (0, None, "right"),
    ]
    assert (sender.duration_s, sender.drain_s) == (1.0, 0.0)
    assert (receiver.duration_s, receiver.drain_s) == (1.0 + RECEIVES_FOR_S, 0.1)
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
    (found,) = run([]).streams
    assert (found.intended, found.offered, found.refused, found.sent) == (100, 100, 1, 99)
    assert (found.received, found.lost, found.duplicated, found.reordered) == (97, 2, 2, 1)
    assert (found.tx_port, found.rx_port) == ("left", "right")
    assert found.jitter.count == 97


def test_what_needs_both_ends_at_one_engine_is_unknown():
    found = run([])
    assert (found.streams[0].latency, found.streams[0].last_loss_s, found.streams[0].largest_jump) == (None, None, None)
    assert (found.cache_line_before_ns, found.loopback) == (None, None)
    assert {one.host: one.gap_max_at_s for one in found.workers} == {"gen": 0.1, "sink": None}


def test_a_latency_by_two_clocks_has_their_error():
    (found,) = run([], clock_error_ns=50_000.0).streams
    assert (found.latency.p50_ns, found.latency.clock_error_ns) == (20, 50_000.0)


def test_the_ledger_closes_over_both_hosts():
    found = build(run([]), {}, ["left", "right"], GRAPH)
    assert (found.offered, found.received, found.dropped, found.unexplained) == (100, 97, 1, 2)
    assert (found.hops[0].frames_out, found.hops[-1].frames_in) == (99, 97)


def test_a_stopped_receiver_does_not_make_the_trial_an_early_one():
    assert run([]).completed


def test_a_trial_whose_sender_was_stopped_is_not_complete():
    found = run([], sender=Engine("gen", [], account(SENT, "left", "stopped")))
    assert (found.completed, found.reason) == (False, None)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("aborted", "on sink: left: its link went down"),
        ("completed", "on sink: the receiving engine ended before the sender"),
    ],
)
def test_a_receiver_that_ended_by_itself_makes_the_account_unusable_with_the_reason(status, told):
    found = run([], receiver=Engine("sink", [], account(CAME, "right", status)))
    assert (found.completed, found.reason) == (False, told)


def test_samples_are_the_senders_and_say_nothing_of_what_arrives():
    heard = []
    run([], heard=heard.append)
    assert [(one.offered, one.lost, one.received) for one in heard] == [(10, None, None)]


def test_an_error_names_the_host_of_its_engine():
    with pytest.raises(EngineError) as caught:
        run([], sender=Engine("gen", [], fails=True))
    assert caught.value.__notes__ == ["the engine on gen"]


def test_two_cores_of_one_number_on_two_hosts_are_two_cores():
    found = run([])
    assert [(one.host, one.core, one.ports) for one in found.workers] == [
        ("gen", 0, ("left",)),
        ("sink", 0, ("right",)),
    ]


def test_two_streams_of_one_sender_to_two_receivers_are_joined_by_their_ids():
    streams = (stream(), stream(rx_port="other"))
    asked = replace(request(100.0), streams=streams)
    second = changed(SENT, id=1)
    sender = engine_result(changed(result([SENT, second]), witness=changed(result([]).witness, cache_lines=())), ())
    came = [account(changed(CAME, id=n, received=90 + n), port, "stopped") for n, port in enumerate(("right", "other"))]
    three = [*ends([]), End("third", False, ("other",), Engine("third", []))]
    parts = list(divided(asked, three, False))
    found = joined(asked, list(zip(parts, [sender, *came], strict=True)), None)
    assert [(one.rx_port, one.received) for one in found.streams] == [("right", 90), ("other", 91)]


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
