"""One trial, whole, over the simulated engine: what is read, kept and told, and in which order."""

import time
from dataclasses import replace

import pytest
from simulated import PortFailure, SimulatedInstrument
from support import TWO_PORTS as SCENARIO
from support import Truth
from trials import engine_result, port, stream_counts

from pinchpoint.account.facts import Widths
from pinchpoint.account.ledger import unexplained_place
from pinchpoint.measure import session as measure
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Interrupted, Listener
from pinchpoint.model.errors import DutError, EngineError
from pinchpoint.model.trial import Cause, TrialValidity
from pinchpoint.observe.snapshot import Bracket, Snapshot


class Counting:
    """A collector that says what it was asked, and can die."""

    name = "counting"

    def __init__(self, log, dies_at=None):
        self._log, self._dies_at, self._reads = log, dies_at, 0

    def can_run(self):
        return None

    def snapshot(self):
        self._reads += 1
        self._log.append("snapshot")
        if self._reads == self._dies_at:
            raise DutError("ovs-vswitchd does not answer")
        return Snapshot(float(self._reads), {"ovs/port/left/rx_pkts": 100 * self._reads})


class Recording(SimulatedInstrument):
    def __init__(self, log, truth):
        super().__init__(truth)
        self._log = log

    def run(self, request):
        self._log.append(f"run epoch {request.epoch}")
        return super().run(request)


def bench(log, capacity_fps=5e6, dies_at=None, recorded=(), failures=()):
    instrument = Recording(log, Truth(capacity_fps, failures=failures))
    instrument.open()
    kept = []

    def keep(trial):
        log.append(f"keep {trial.id}")
        kept.append(trial)

    class Telling(Listener):
        def trial_ends(self, trial):
            log.append(f"tell {trial.id}")

    bracket = Bracket([Counting(log, dies_at)])
    return Session(SCENARIO, instrument, bracket, keep, Telling(), recorded), kept


def test_a_trial_is_bracketed_by_snapshots_then_kept_then_told():
    log = []
    session, _ = bench(log)
    session.trial("search", 1.0, 1e6)
    assert log == ["snapshot", "run epoch 1", "snapshot", "keep simulated-0001", "tell simulated-0001"]


def test_a_trial_holds_what_was_asked_counted_and_judged():
    session, kept = bench([])
    trial = session.trial("search", 1.0, 8e6)
    assert kept == [trial]
    assert (trial.load_fps, trial.duration_s, trial.phase, trial.repeat) == (8e6, 1.0, "search", 0)
    assert trial.validity is TrialValidity.VALID
    assert trial.lost == trial.ledger.dropped > 0, "an overloaded DUT refuses frames at its ring"
    assert trial.observed["ovs/port/left/rx_pkts"] == 100
    assert session.trial("search", 1.0, 8e6).repeat == 1


def test_trials_that_measure_latency_keep_its_histogram_and_others_do_not():
    class Timing(SimulatedInstrument):
        def run(self, request):
            account = super().run(request)
            return replace(account, streams=tuple(replace(one, latency_histogram="HISTFA") for one in account.streams))

    instrument = Timing(Truth(5e6))
    instrument.open()
    session = Session(SCENARIO, instrument, Bracket([]), lambda trial: None, Listener())
    kept = {phase: session.trial(phase, 1.0, 1e6).streams[0].latency_histogram for phase in ("search", "latency")}
    assert kept == {"search": "", "latency": "HISTFA"}


def test_every_core_that_forwards_is_probed_not_only_the_first_one():
    asked = []

    class Asked(SimulatedInstrument):
        def run(self, request):
            asked.append(request.probe_cores)
            return super().run(request)

    scenario = replace(SCENARIO, dut=replace(SCENARIO.dut, pmd_cpus=(2, 3, 5)))
    instrument = Asked(Truth(5e6))
    instrument.open()
    session = Session(scenario, instrument, Bracket([]), lambda trial: None, Listener())
    session.trial("search", 1.0, 1e6)
    first = scenario.engine.cpus[0]
    assert asked == [((first, 2), (first, 3), (first, 5))]


def test_neighbouring_trials_differ_in_epoch_even_after_256():
    log = []
    session, _ = bench(log)
    for _ in range(257):
        session.trial("search", 0.001, 1e4)
    epochs = [entry for entry in log if entry.startswith("run")]
    assert epochs[254:] == ["run epoch 255", "run epoch 0", "run epoch 1"]


def test_a_dut_that_dies_leaves_an_aborted_trial_and_the_error():
    session, kept = bench([], dies_at=2)
    with pytest.raises(DutError, match="does not answer"):
        session.trial("search", 1.0, 1e6)
    assert [(trial.validity, trial.reason, trial.cause) for trial in kept] == [
        (TrialValidity.ABORTED, "ovs-vswitchd does not answer", Cause.DEVICE_DIED)
    ]


class Reading:
    """A collector of set counters: one snapshot before a trial, one when its frames have ended, one after settling."""

    def __init__(self, name, *readings):
        self.name, self._readings = name, list(readings)

    def can_run(self):
        return None

    def snapshot(self):
        return Snapshot(0.0, self._readings.pop(0))


def observed(*collectors, capacity_fps=1e6):
    """A trial at three times the capacity, with what those collectors read."""
    instrument = SimulatedInstrument(Truth(capacity_fps))
    instrument.open()
    session = Session(SCENARIO, instrument, Bracket(collectors), lambda trial: None, Listener())
    return session.trial("search", 1.0, 3e6)


@pytest.fixture
def no_settling(monkeypatch):
    """Counters of no real switch need no time until they are handed over."""
    monkeypatch.setattr(measure, "COUNTERS_SETTLE_S", 0.0)


WAITED, RAN, STOLEN = "host/thread/main/run_delay_ns", "host/sibling/handler-7/run_ns", "host/cpu/1/steal_ticks"
DROPPED = "ovs/coverage/datapath_drop_upcall_error"


def test_what_the_host_does_while_counters_settle_is_none_of_the_trials(no_settling, monkeypatch):
    monkeypatch.setattr(SimulatedInstrument, "run", losing_inside(60))
    host = Reading("host", {WAITED: 0, STOLEN: 0}, {WAITED: 1000, STOLEN: 1}, {WAITED: 10**9, STOLEN: 100})
    drops = Reading("coverage", {DROPPED: 0}, {DROPPED: 0}, {DROPPED: 60})
    trial = observed(host, drops)
    assert trial.witness.dut_threads[0].run_delay_ns == 1000
    assert trial.observed[STOLEN] == 1
    assert trial.ledger.unexplained == 0, "handed over late, and read late"
    assert trial.observed[DROPPED] == 60


def test_counters_are_waited_for_only_until_they_explain_every_frame(monkeypatch):
    monkeypatch.setattr(measure, "COUNTERS_POLL_S", 0.001)
    monkeypatch.setattr(measure, "COUNTERS_SETTLE_S", 5.0)
    monkeypatch.setattr(SimulatedInstrument, "run", losing_inside(60))
    drops = Reading("coverage", *({DROPPED: frames} for frames in (0, 0, 0, 40, 60)))
    assert observed(drops).ledger.unexplained == 0


class Late:
    """A switch's counter of drops: what a run lost inside is counted SETTLE_S after the run."""

    name = "late"
    SETTLE_S = 0.2

    def __init__(self):
        self._drops = []

    def can_run(self):
        return None

    def lose(self, frames):
        self._drops.append((time.monotonic() + self.SETTLE_S, frames))

    def snapshot(self):
        now = time.monotonic()
        return Snapshot(now, {DROPPED: sum(frames for due_s, frames in self._drops if due_s <= now)})


def test_drops_of_frames_that_precede_a_burst_are_in_no_trials_account(monkeypatch):
    late, lost = Late(), iter((10, 0))
    monkeypatch.setattr(measure, "COUNTERS_SETTLE_S", 2 * late.SETTLE_S)

    def run(self, request, heard=None):
        frames = next(lost)
        late.lose(frames)
        if not frames:
            time.sleep(2 * late.SETTLE_S)  # the burst takes as long as the counter
        return losing_inside(frames)(self, request, heard)

    monkeypatch.setattr(SimulatedInstrument, "run", run)
    session = Session(SCENARIO, SimulatedInstrument(Truth(1e6)), Bracket([late]), lambda trial: None, Listener())
    trial = session.burst("search", 1000, None)
    assert (trial.ledger.unexplained, trial.observed.get(DROPPED, 0)) == (0, 0)


def losing_inside(frames):
    """The simulated engine's answer when a DUT of enough speed loses some frames inside."""

    def run(self, request, heard=None):
        counts = stream_counts(offered=3_000_000, received=3_000_000 - frames)
        return engine_result([counts], [port("left", sent=3_000_000), port("right", received=3_000_000 - frames)])

    return run


def test_a_port_that_was_taken_out_and_put_in_is_named_in_the_trials_account(no_settling, monkeypatch):
    monkeypatch.setattr(SimulatedInstrument, "run", losing_inside(60))
    name = "ovs/port/left/rx_drop"
    trial = observed(Reading("ports", {name: 1000}, {name: 5}, {name: 7}))
    assert trial.validity is TrialValidity.VALID
    assert trial.ledger.resets == (name,)
    assert trial.ledger.unexplained == 60
    assert name not in trial.observed
    assert name in unexplained_place([trial])


def test_threads_of_the_switch_that_ran_on_the_engines_core_are_a_fact_of_the_trial(monkeypatch):
    monkeypatch.setattr(SimulatedInstrument, "run", losing_inside(0))
    collector = Reading("threads", {RAN: 0}, {RAN: 5_000_000})
    monkeypatch.setattr(collector, "snapshot", with_cpu(collector.snapshot))
    trial = observed(collector)
    assert trial.witness.siblings_s == {0: pytest.approx(0.005)}
    assert RAN not in trial.observed


def with_cpu(snapshot):
    return lambda: replace(snapshot(), gauges={"host/sibling/handler-7/cpu": 0.0})


LINK_DOWN = PortFailure(trial=1, port="left", after_s=0.31)


def test_a_port_that_fails_leaves_an_aborted_trial_with_the_reason_and_the_time():
    session, kept = bench([], failures=(LINK_DOWN,))
    trial = session.trial("search", 1.0, 1e6)
    assert kept == [trial]
    assert trial.validity is TrialValidity.ABORTED
    assert trial.reason == "left: its link went down, after 0.31 s"
    assert (trial.sent_duration_s, trial.offered) == (0.31, 310_000)
    assert session.trial("search", 1.0, 1e6).validity is TrialValidity.VALID, "the bench is still there"


def test_a_port_that_fails_because_the_dut_died_is_the_duts_death():
    session, kept = bench([], dies_at=2, failures=(LINK_DOWN,))
    with pytest.raises(DutError, match="does not answer"):
        session.trial("search", 1.0, 1e6)
    assert [(trial.validity, trial.reason) for trial in kept] == [
        (TrialValidity.ABORTED, "left: its link went down, after 0.31 s; ovs-vswitchd does not answer")
    ]


@pytest.mark.parametrize(
    ("burst_frames", "dies_at", "error"),
    [(None, 2, DutError), (None, None, EngineError), (1000, 1, DutError), (1000, None, EngineError)],
    ids=["dut", "engine", "dut before a burst", "engine before a burst"],
)
def test_an_engine_that_cannot_begin_is_its_own_fault_only_if_the_dut_lives(burst_frames, dies_at, error, monkeypatch):
    def refuse(self, request):
        raise EngineError("engine: left: its link is down")

    session, kept = bench([], dies_at=dies_at)
    monkeypatch.setattr(Recording, "run", refuse)
    with pytest.raises(error):
        session.trial("search", 1.0, 1e6, burst_frames=burst_frames)
    assert kept == []


class Stopped(SimulatedInstrument):
    """A signal comes during its first request of that id; what runs then ends early."""

    def __init__(self, during):
        super().__init__(Truth(5e6))
        self.during, self.asked, self.stops, self.session = during, [], 0, None

    def run(self, request):
        self.asked.append(request.trial_id)
        if request.trial_id == self.during:
            self.session.stop()
        return super().run(request)

    def stop(self):
        self.stops += 1


def stopped(during):
    instrument, kept = Stopped(during), []
    instrument.open()
    session = instrument.session = Session(SCENARIO, instrument, Bracket([]), kept.append, Listener())
    return instrument, session, kept


def test_a_stop_keeps_the_trial_and_then_interrupts():
    instrument, session, kept = stopped("simulated-0001")
    with pytest.raises(Interrupted):
        session.trial("search", 1.0, 1e6)
    assert (len(kept), instrument.stops) == (1, 1)


@pytest.mark.parametrize(("during", "before"), [("priming", []), ("waiting", ["simulated-0001"])])
def test_a_stop_before_the_trial_is_sent_lets_none_be_sent(during, before, monkeypatch):
    """It has ended what it found, so that nothing would end the trial early."""
    instrument, session, kept = stopped(during)
    session.scenario = replace(SCENARIO, validity=replace(SCENARIO.validity, quiet_within_s=0.3))
    monkeypatch.setattr(Widths, "is_slowed", lambda *_: True)
    for _ in before:
        session.trial("search", 1.0, 1e6)
    with pytest.raises(Interrupted):
        session.trial("search", 1.0, 1e6, burst_frames=1000 if during == "priming" else None)
    assert (instrument.asked, instrument.stops) == ([*before, during], 1)
    assert [trial.id for trial in kept] == before


def test_recorded_trials_answer_the_same_questions_and_are_not_run_again():
    first, recorded = bench([])
    for load_fps in (1e6, 8e6, 1e6):
        first.trial("search", 1.0, load_fps)
    log = []
    resumed, kept = bench(log, recorded=recorded)
    again = [resumed.trial("search", 1.0, load_fps) for load_fps in (1e6, 8e6, 1e6)]
    assert again == recorded
    assert [entry for entry in log if not entry.startswith("tell")] == []
    assert resumed.trial("search", 1.0, 2e6).id == "simulated-0004", "numbers go on where the record ends"
    assert len(kept) == 1


def test_an_aborted_trial_of_the_record_is_made_again():
    first, recorded = bench([], dies_at=2)
    with pytest.raises(DutError):
        first.trial("search", 1.0, 1e6)
    resumed, kept = bench([], recorded=recorded)
    assert resumed.trial("search", 1.0, 1e6).id == "simulated-0002"
    assert len(kept) == 1
