"""Which trials are discarded: those whose account is unusable, and no others."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.account.validity import Judgement, judge
from pinchpoint.engine.instrument import EngineResult
from pinchpoint.model.scenario import Validity
from pinchpoint.model.trial import (
    Cause,
    Drop,
    Hop,
    Ledger,
    StreamCounts,
    ThreadWitness,
    TrialValidity,
    Witness,
    WorkerWitness,
)

LOAD = 1e6  # one frame a microsecond, so that a ring of 1,024 absorbs 1.024 ms
RING = 1024
MS = 1_000_000


def stream(shortfall: int | None = 0, intended: int | None = 1_000_000) -> StreamCounts:
    offered = (intended or 1_000_000) - (shortfall or 0)
    return StreamCounts(0, "left", "right", intended, offered, 0, shortfall, offered, offered, 0, 0, 0, 0, None)


def worker(total_ns: int = 0, longest_ns: int | None = None, steal_s: float | None = None) -> WorkerWitness:
    longest = total_ns if longest_ns is None else longest_ns
    return WorkerWitness(0, 0.5, 20_000, 1 if total_ns else 0, total_ns, longest, 0.42, steal_s, 0, 0)


def witness(
    *workers: WorkerWitness,
    delay_ns: int | None = 0,
    steal: dict[int, float] | None = None,
    before: float | None = None,
    after: float | None = None,
) -> Witness:
    threads = (ThreadWitness("pmd-c01", 1, delay_ns, 0),)
    return Witness(workers or (worker(),), threads, steal or {}, before, after)


def ledger(lost: int = 0, unexplained: int = 0, limits: str = "dut") -> Ledger:
    drops = (Drop("a ring full", lost, "a counter", limits),)
    return Ledger(1_000_000, 1_000_000 - lost - unexplained, (Hop("dut", None, None, drops),))


def judged(**changes: Any) -> Judgement:
    facts: dict[str, Any] = {
        "completed": True,
        "aborted": None,
        "streams": (stream(),),
        "ledger": ledger(),
        "witness": witness(),
        "duration_s": 1.0,
    }
    facts |= changes
    lasted_s, streams = facts["duration_s"], facts["streams"]
    result = EngineResult(facts["completed"], lasted_s, streams, (), (), None, None, reason=facts["aborted"])
    rules = Validity(shortfall_ratio=0.001, gap_shortfall_ratio=0.05, quiet_within_s=0.0, unexplained_ratio=1e-4)
    return judge(result, facts["ledger"], facts["witness"], LOAD, RING, rules, died=facts.get("died", ""))


def verdict(**changes: Any) -> tuple[TrialValidity, str]:
    judgement = judged(**changes)
    return judgement.validity, judgement.reason


def test_a_whole_and_quiet_trial_is_valid_without_a_reason() -> None:
    assert verdict() == (TrialValidity.VALID, "")


def test_a_loss_on_a_quiet_host_is_the_duts() -> None:
    assert verdict(ledger=ledger(lost=500)) == (TrialValidity.VALID, "")


def test_a_stopped_trial_is_aborted_before_anything_else() -> None:
    validity, reason = verdict(completed=False, ledger=ledger(unexplained=5), duration_s=0.3)
    assert (validity, reason) == (TrialValidity.ABORTED, "stopped after 0.30 s")


@pytest.mark.parametrize("why", ["left: its link went down", "the engine was told to end (SIGTERM)"])
def test_an_aborted_trial_says_why_it_could_not_continue_and_when(why: str) -> None:
    judgement = judged(completed=False, aborted=why, ledger=ledger(unexplained=5), duration_s=0.31)
    assert (judgement.validity, judgement.cause) == (TrialValidity.ABORTED, Cause.ENDED)
    assert judgement.reason == f"{why}, after 0.31 s"


def test_a_trial_in_which_the_device_died_says_so_whatever_else_is_known_of_it() -> None:
    died = judged(streams=(stream(shortfall=90_000),), died="the switch has died")
    assert died == Judgement(TrialValidity.ABORTED, Cause.DEVICE_DIED, "the switch has died")
    ended = judged(completed=False, aborted="left: its link went down", duration_s=0.31, died="the switch has died")
    assert ended.reason == "left: its link went down, after 0.31 s; the switch has died"


def test_a_trial_that_was_stopped_on_request_is_told_from_one_that_could_not_continue() -> None:
    assert judged(completed=False, duration_s=0.3).cause is Cause.STOPPED


@pytest.mark.parametrize("unexplained", [1, 60, 500_000])
def test_lost_frames_that_no_counter_names_do_not_discard_a_trial(unexplained: int) -> None:
    assert verdict(ledger=ledger(unexplained=unexplained)) == (TrialValidity.VALID, "")


def test_counters_that_saw_more_than_was_sent_discard_a_trial_beyond_the_share_allowed() -> None:
    assert verdict(ledger=ledger(lost=100, unexplained=-100))[0] is TrialValidity.VALID
    judgement = judged(ledger=ledger(lost=101, unexplained=-101))
    assert (judgement.validity, judgement.cause) == (TrialValidity.COUNTER_MISMATCH, Cause.CONTRADICTION)
    assert "101 frames dropped by name, 0 lost" in judgement.reason
    assert "validity.unexplained_ratio" in judgement.reason


def test_more_frames_received_of_a_stream_than_sent_are_a_contradiction_even_if_others_lost_as_many() -> None:
    more, fewer = replace(stream(), received=1_000_005), replace(stream(), stream=1, received=999_995)
    judgement = judged(streams=(more, fewer))
    assert judgement.cause is Cause.CONTRADICTION
    assert "stream 0: 1,000,005 frames received of 1,000,000 sent" in judgement.reason


@pytest.mark.parametrize("unexplained", [5, -500])
def test_a_generator_that_fell_short_is_the_cause_before_anything_about_unexplained_frames(unexplained: int) -> None:
    judgement = judged(ledger=ledger(unexplained=unexplained), streams=(stream(500_000),))
    assert (judgement.validity, judgement.cause) == (TrialValidity.GENERATOR_LIMITED, Cause.GENERATOR)


def test_a_shortfall_is_the_generators_limit_from_the_allowed_share_on() -> None:
    assert verdict(streams=(stream(1000),))[0] is TrialValidity.VALID
    validity, reason = verdict(streams=(stream(200_000),))
    assert validity is TrialValidity.GENERATOR_LIMITED
    assert reason == "offered 20.0 % too few of 1,000,000 frames: the engine reached 800 kpps of 1.00 Mpps"


def test_the_shortfall_is_that_of_all_streams_together() -> None:
    assert verdict(streams=(stream(1500), stream(400)))[0] is TrialValidity.VALID
    assert verdict(streams=(stream(1500), stream(600)))[0] is TrialValidity.GENERATOR_LIMITED


def test_an_unpaced_stream_cannot_fall_short() -> None:
    assert verdict(streams=(stream(None, None),))[0] is TrialValidity.VALID


@pytest.mark.parametrize(
    ("shortfall", "gap_ns", "validity"),
    [
        (40_000, 40 * MS, TrialValidity.VALID),
        (41_000, 40 * MS, TrialValidity.VALID),
        (50_000, 50 * MS, TrialValidity.VALID),
        (50_001, 51 * MS, TrialValidity.NOISY_HOST),
        (200_000, 100 * MS, TrialValidity.NOISY_HOST),
        (200_000, 99 * MS, TrialValidity.GENERATOR_LIMITED),
        (40_000, 10 * MS, TrialValidity.GENERATOR_LIMITED),
    ],
    ids=["covered", "nearly covered", "just allowed", "too much", "half covered", "less than half", "little covered"],
)
def test_a_shortfall_in_gaps_of_the_engine_is_the_hosts_and_allowed_to_a_point(
    shortfall: int, gap_ns: int, validity: TrialValidity
) -> None:
    assert verdict(streams=(stream(shortfall),), witness=witness(worker(gap_ns)))[0] is validity


BEHIND: dict[str, Any] = {
    "limits": "engine"
}  # frames that the DUT had forwarded, lost in the ring that the engine empties
LOSSES = (0, 1, 1500, 2001, 900_000)


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize(
    "disturbed",
    [
        witness(delay_ns=500 * MS),
        witness(steal={1: 0.5}),
        witness(before=30.0, after=160.0),
        replace(witness(), ipc={1: (4.0, 1.0)}),
    ],
    ids=["waited", "stolen", "moved", "neighbour"],
)
def test_what_the_host_did_to_the_device_discards_nothing(lost: int, disturbed: Witness) -> None:
    assert judged(ledger=ledger(lost=lost), witness=disturbed) == Judgement(TrialValidity.VALID)


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("limits", ["dut", "engine"])
def test_a_core_that_sends_what_it_receives_loses_nothing_by_standing_still(lost: int, limits: str) -> None:
    still = witness(worker(40 * MS, steal_s=0.04), steal={0: 0.04})
    assert verdict(ledger=ledger(lost=lost, limits=limits), witness=still)[0] is TrialValidity.VALID


def test_gaps_of_the_engine_alone_leave_a_lossless_trial_valid() -> None:
    assert verdict(witness=witness(worker(500 * MS), steal={0: 1.0})) == (TrialValidity.VALID, "")


def test_what_could_not_be_observed_excuses_nothing() -> None:
    unknown = witness(worker(steal_s=None), delay_ns=None)
    assert verdict(ledger=ledger(lost=500), witness=unknown)[0] is TrialValidity.VALID


def two_cores(sender: WorkerWitness, receiver: WorkerWitness) -> Witness:
    """Core 0 drives left and sends, core 2 drives right and receives."""
    return witness(replace(sender, ports=("left",)), replace(receiver, core=2, ports=("right",)))


def test_of_two_cores_only_the_senders_gap_explains_a_shortfall() -> None:
    short = (stream(100_000),)
    sender, receiver = two_cores(worker(100 * MS), worker()), two_cores(worker(), worker(100 * MS))
    validity, reason = verdict(streams=short, witness=sender)
    assert validity is TrialValidity.NOISY_HOST
    assert reason.endswith("the engine's core stood still for 100 ms in all")
    assert verdict(streams=short, witness=receiver)[0] is TrialValidity.GENERATOR_LIMITED
    assert verdict(streams=(stream(50_000),), witness=sender)[0] is TrialValidity.VALID


@pytest.mark.parametrize("lost", LOSSES)
def test_of_two_cores_only_the_receivers_gap_discards_since_frames_keep_coming(lost: int) -> None:
    sender, receiver = two_cores(worker(3 * MS), worker()), two_cores(worker(), worker(3 * MS))
    validity, reason = verdict(ledger=ledger(lost=lost, **BEHIND), witness=receiver)
    assert validity is TrialValidity.NOISY_HOST
    assert reason.startswith("the engine's core 2 stood still for 3.00 ms at 0.42 s, longer than its rings absorb")
    assert verdict(ledger=ledger(lost=lost, **BEHIND), witness=sender)[0] is TrialValidity.VALID


def test_a_receivers_gap_that_the_ring_absorbs_discards_nothing() -> None:
    many_short = two_cores(worker(), worker(40 * MS, longest_ns=1_024_000))
    assert verdict(ledger=ledger(lost=1, **BEHIND), witness=many_short)[0] is TrialValidity.VALID
    one_longer = two_cores(worker(), worker(40 * MS, longest_ns=1_024_001))
    assert verdict(ledger=ledger(lost=1, **BEHIND), witness=one_longer)[0] is TrialValidity.NOISY_HOST


def test_a_core_that_the_switchs_own_threads_took_from_the_engine_names_them() -> None:
    still = replace(two_cores(worker(), worker(3 * MS)), siblings_s={2: 0.0028, 0: 1.0})
    _, reason = verdict(witness=still)
    assert "(other threads of the switch ran there for 2.80 ms of the trial)" in reason
    assert judged(witness=still).cause is Cause.RECEIVER_TAKEN
    assert judged(witness=replace(still, siblings_s={2: 0.0002})).cause is Cause.RECEIVER_STOOD_STILL
    elsewhere = replace(still, workers=tuple(replace(worker, host="gen") for worker in still.workers))
    assert judged(witness=elsewhere).cause is Cause.RECEIVER_STOOD_STILL, "core 2 of gen is another one"
    short = replace(witness(worker(100 * MS)), siblings_s={0: 0.08, 1: 1.0})
    assert "ran there for 80.0 ms of the trial" in verdict(streams=(stream(100_000),), witness=short)[1]


def both_ways(shortfall: int = 0) -> tuple[StreamCounts, ...]:
    """Half a million frames each way; those left to right fall short."""
    forth, back = stream(shortfall, 500_000), stream(0, 500_000)
    return forth, replace(back, stream=1, tx_port="right", rx_port="left")


@pytest.mark.parametrize(
    ("left_ms", "right_ms", "shortfall", "validity"),
    [
        (80, 0, 40_000, TrialValidity.VALID),
        (0, 80, 40_000, TrialValidity.VALID),  # which stream fell short does not matter, only how many frames
        (40, 40, 40_000, TrialValidity.VALID),
        (30, 0, 40_000, TrialValidity.GENERATOR_LIMITED),  # 15,000 fell due in 30 ms of half the load
        (0, 0, 40_000, TrialValidity.GENERATOR_LIMITED),
    ],
)
def test_each_core_answers_for_its_own_part_of_the_load(
    left_ms: int, right_ms: int, shortfall: int, validity: TrialValidity
) -> None:
    witnessed = two_cores(worker(left_ms * MS, MS), worker(right_ms * MS, MS))  # gaps that the rings absorb
    assert verdict(streams=both_ways(shortfall), witness=witnessed)[0] is validity


def test_a_gap_of_a_core_that_half_the_load_comes_to_costs_half_as_much() -> None:
    for longest_ns, validity in ((2_048_000, TrialValidity.VALID), (2_049_000, TrialValidity.NOISY_HOST)):
        assert verdict(streams=both_ways(), witness=two_cores(worker(), worker(longest_ns)))[0] is validity


@given(
    losses=st.tuples(st.integers(0, 1_000_000), st.integers(0, 1_000_000)),
    gap_ns=st.integers(0, 10**9),
    delay_ns=st.integers(0, 10**9),
    steal_s=st.floats(0, 1),
    behind=st.sampled_from(["dut", "engine"]),
    after_ns=st.sampled_from([None, 30.0, 160.0]),
)
def test_the_loss_never_changes_what_is_discarded(
    losses: tuple[int, int], gap_ns: int, delay_ns: int, steal_s: float, behind: str, after_ns: float | None
) -> None:
    quiet = two_cores(worker(), worker(gap_ns))
    threads = witness(delay_ns=delay_ns).dut_threads
    witnessed = replace(
        quiet, dut_threads=threads, steal_s={1: steal_s}, cache_line_before_ns=30.0, cache_line_after_ns=after_ns
    )
    verdicts = {verdict(ledger=ledger(lost=lost, limits=behind), witness=witnessed)[0] for lost in losses}
    assert len(verdicts) == 1
