"""What pinched the number, and on which evidence."""

from dataclasses import replace

import pytest
from trials import stream_counts, thread_load, trial, worker

from pinchpoint.causes import verdict as diagnosis
from pinchpoint.model.hops import DropKind
from pinchpoint.model.result import Limit, Rate, RateStatus
from pinchpoint.model.trial import Drop, Hop, TrialValidity

RING = 505


def verdict(rate, trials):
    return diagnosis.verdict(rate, trials, RING)


FOUND = Rate(0.0, RateStatus.FOUND, 1000.0, 1010.0, 1.0, 21.0, "")


RECEIVE_RING = "receive ring of left full"


KINDS = {
    RECEIVE_RING: DropKind.RECEIVE_RING,
    "transmit ring of right full": DropKind.TRANSMIT_RING,
    "drop action of pipeline": DropKind.RULE,
}


def losing(name=RECEIVE_RING, limits="dut", lost=100, named=None, number=2, load_fps=1010.0, offered=1010, **options):
    frames = lost if named is None else named
    drop = Drop(name, frames, "a counter", limits, port="left", kind=KINDS.get(name, DropKind.OTHER))
    counts = stream_counts(offered=offered, received=offered - lost)
    return trial(load_fps, hops=[Hop("h", None, None, (drop,))], counts=counts, number=number, **options)


def overloaded(forwarded=1000, **options):
    """A trial at four times the rate, of which the device forwards so much."""
    return losing(lost=4000 - forwarded, load_fps=4000.0, offered=4000, number=9, **options)


def test_a_device_that_forwards_no_more_than_it_carries_without_loss_is_the_limit():
    full = replace(thread_load(0.99, 300.0), received=1010, clock_hz=1010 * 226.0)
    reached = verdict(FOUND, [trial(1000.0), losing(threads=[full]), overloaded(threads=[thread_load(1.0, 226.0)])])
    assert reached.limit is Limit.FORWARDING_CORE
    assert "it forwards 1.00 kpps however much is offered, 226 cycles per packet" in reached.headline
    assert reached.trial_ids == ("t-0002",)
    assert [suspicion.cause for suspicion in reached.suspicions] == ["own-speed"]


def test_a_thread_that_is_busy_all_the_time_is_no_limit_of_a_device_that_forwards_more_under_overload():
    """At a third of its load a polling thread is as busy: its batches are small."""
    needed = replace(thread_load(0.98, 821.0), received=1010, clock_hz=1010 * 226 / 0.6)
    reached = verdict(FOUND, [losing(threads=[needed]), overloaded(forwarded=1667, threads=[thread_load(1.0, 226.0)])])
    assert reached.limit is Limit.NAMED_DROP
    assert reached.headline.startswith("receive ring of left full; PMD core 1 needed only 60.0 % of its time")
    assert "PMD core 1 needed 60.0 % of its time, at the 226 cycles per packet of overloads" in str(reached)
    assert "821" not in str(reached), "a packet has one cost on a page"
    (ring,) = reached.suspicions
    assert (ring.cause, round(ring.share, 2)) == ("short-of-ring", 0.4)
    assert "time for which the smallest ring holds this load: 500 ms" in ring.evidence


def test_a_ring_of_few_frames_is_named_before_a_thread_that_is_busy_with_turns_for_few_frames_each():
    bursts = {"engine/pacing/largest_burst": 64.0}
    trials = [replace(losing(threads=[thread_load(0.99)]), observed=bursts), overloaded()]
    assert diagnosis.verdict(FOUND, trials, RING).limit is Limit.FORWARDING_CORE
    reached = diagnosis.verdict(FOUND, trials, 64)
    assert reached.limit is Limit.NAMED_DROP
    assert reached.headline.startswith("receive ring of left full; likely: a ring too short for this host's pauses")


def test_what_no_overload_shows_is_nobodys_own_speed():
    reached = verdict(FOUND, [losing(threads=[thread_load(0.99, 640.0)])])
    assert (reached.limit, reached.suspicions) == (Limit.NAMED_DROP, ())


def test_trials_of_an_engine_that_fell_short_count_at_what_it_offered():
    short = overloaded(validity=TrialValidity.GENERATOR_LIMITED)
    assert verdict(FOUND, [losing(threads=[thread_load(0.99)]), short]).limit is Limit.FORWARDING_CORE
    assert verdict(FOUND, [losing(), replace(short, validity=TrialValidity.NOISY_HOST)]).limit is Limit.NAMED_DROP


def test_of_two_pmds_the_one_that_polls_the_losing_port_is_asked():
    busy = replace(thread_load(0.99, 640.0), name="PMD core 1", ports=("left",))
    idle = replace(thread_load(0.4), name="PMD core 2", ports=("right",))
    drop = Drop("receive ring of right full", 100, "a counter", "dut", port="right", kind=DropKind.RECEIVE_RING)
    lost = losing(threads=[busy, idle])
    at_right = replace(lost, ledger=replace(lost.ledger, hops=(Hop("h", None, None, (drop,)),)))
    reached = verdict(FOUND, [at_right, overloaded()])
    assert reached.limit is Limit.NAMED_DROP
    assert "PMD core 2 was only 40.0 % busy" in reached.headline
    unknown = [replace(busy, ports=()), replace(idle, ports=())]
    assert verdict(FOUND, [replace(at_right, threads=tuple(unknown)), overloaded()]).limit is Limit.FORWARDING_CORE


def test_a_port_of_the_main_thread_beside_threads_that_poll_is_named_with_its_cause():
    main = replace(thread_load(0.99), name="main thread", cpu=None, ports=("vm",))
    idle = replace(thread_load(0.01), received=3, ports=("uplink",))
    drop = Drop("packet socket of vm full", 100, "a counter", "dut", port="vm", kind=DropKind.RECEIVE_RING)
    lost = losing(threads=[main, idle])
    reached = verdict(FOUND, [replace(lost, ledger=replace(lost.ledger, hops=(Hop("h", None, None, (drop,)),)))])
    assert reached.headline.startswith("packet socket of vm full; likely: the device's main thread forwards")
    assert reached.suspicions[0].cause == "main-thread"


def test_a_full_transmit_ring_before_a_busy_engine_is_the_generator():
    reached = verdict(
        FOUND, [losing("transmit ring of right full", "engine", engine_busy=0.99, threads=[thread_load(0.7)])]
    )
    assert reached.limit is Limit.GENERATOR
    assert "99.0 % busy" in reached.headline


def test_a_full_transmit_ring_before_an_idle_engine_is_not_blamed_on_it():
    reached = verdict(
        FOUND, [losing("transmit ring of right full", "engine", engine_busy=0.3, threads=[thread_load(0.7)])]
    )
    assert reached.limit is Limit.NAMED_DROP


def link(port, sent, received, gbit=1):
    """What a trial observes of one NIC's link."""
    begin = f"engine/port/{port}"
    return {f"{begin}/tx_share": sent, f"{begin}/rx_share": received, f"{begin}/speed_bps": gbit * 1e9}


def on_links(*links, sends=(), device=(), receives=()):
    """A losing trial between NICs, with its drops where the engine sends, in the device, and where it receives."""
    lost = losing(lost=100, threads=[thread_load(0.4)])
    hops = tuple(
        Hop(name, None, None, tuple(drops))
        for name, drops in (("engine sends", sends), ("switch sends", device), ("engine receives", receives))
    )
    observed = {name: value for link in links for name, value in link.items()}
    return replace(lost, observed=observed, ledger=replace(lost.ledger, hops=hops))


def dropped(name, limits, port, kind=DropKind.TRANSMIT_RING):
    return [Drop(name.format(port=port), 100, "c", limits, name, port, kind)]


FULL_LINK, FULL_QUEUE, MISSED = (
    "the link of {port} is full",
    "transmit queues of the NIC {port} full",
    "engine missed on {port}",
)


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (on_links(link("left", 0.996, 0.1), sends=dropped(FULL_LINK, "wire", "left")), "towards the switch"),
        (on_links(link("left", 0.1, 0.996), device=dropped(FULL_QUEUE, "dut", "left")), "from the switch"),
    ],
)
def test_a_full_link_is_the_limit_whichever_of_its_ends_had_no_room(lost, words):
    reached = verdict(FOUND, [lost])
    assert reached.limit is Limit.WIRE
    link_words = f"the link of left, 1 Gbit/s, is at 99.6 % of its line rate {words}"
    assert f"{link_words}; PMD core 1 was only 40.0 % busy" in reached.headline
    assert reached.suspicions[0].cause == "line-rate"


@pytest.mark.parametrize(
    "lost",
    [
        on_links(link("left", 0.9, 0.9), device=dropped(FULL_QUEUE, "dut", "left")),
        # Between ports of two speeds: what waits for the fast port does not wait for the slow one, which is full.
        on_links(
            link("left", 0.999, 0.1, gbit=1),
            link("right", 0.1, 0.1, gbit=10),
            device=dropped(FULL_QUEUE, "dut", "right"),
        ),
        on_links(link("left", 0.999, 0.1), device=dropped(FULL_QUEUE, "dut", "left")),
        # It came over the link.
        on_links(link("left", 0.1, 0.999), receives=dropped(MISSED, "engine", "left")),
    ],
    ids=["with room", "another port", "the other direction", "behind the link"],
)
def test_a_link_is_no_limit_of_frames_that_did_not_wait_for_it(lost):
    reached = verdict(FOUND, [lost])
    assert reached.limit is Limit.NAMED_DROP
    assert "line-rate" not in [suspicion.cause for suspicion in reached.suspicions]


def test_of_two_links_the_full_one_is_named_for_which_the_frames_waited():
    slow, fast = link("left", 0.5, 0.995, gbit=1), link("right", 0.9999, 0.05, gbit=10)
    reached = verdict(FOUND, [on_links(slow, fast, device=dropped(FULL_QUEUE, "dut", "left"))])
    assert reached.limit is Limit.WIRE
    assert "the link of left, 1 Gbit/s, is at 99.5 % of its line rate from the switch" in reached.headline


def test_a_switch_that_loses_frames_itself_is_the_limit_however_full_the_link():
    ring = dropped("receive queues of the NIC {port} full", "dut", "left", DropKind.RECEIVE_RING)
    assert verdict(FOUND, [on_links(link("left", 0.999, 0.1), device=ring)]).limit is Limit.NAMED_DROP


@pytest.mark.parametrize(("port", "is_named"), [("left", True), ("right", False)])
def test_pause_frames_explain_what_the_port_lost_that_received_them(port, is_named):
    ring = dropped("receive queues of the NIC {port} full", "dut", "left", DropKind.RECEIVE_RING)
    pauses = {f"engine/port/{port}/rx_xoff_packets": 5.0}
    reached = verdict(FOUND, [on_links(link("left", 0.2, 0.2), link("right", 0.2, 0.2), pauses, device=ring)])
    assert ("flow-control" in [suspicion.cause for suspicion in reached.suspicions]) is is_named


def test_a_search_that_ends_at_the_line_rate_ends_at_the_wire():
    rate = replace(FOUND, status=RateStatus.AT_LEAST, reason="nothing was lost at the highest load")
    full = replace(trial(1000.0), observed=link("left", 0.999, 0.0, gbit=10))
    assert verdict(rate, [full]).limit is Limit.WIRE
    assert verdict(rate, [trial(1000.0)]).limit is Limit.SEARCH_MAXIMUM


def test_a_generator_that_fell_short_was_not_held_by_a_link_that_only_brings_frames_back():
    rate = replace(FOUND, status=RateStatus.AT_LEAST, reason="it fell short", limited_by=Limit.GENERATOR)
    back, sent = (replace(trial(1000.0), observed=link("left", *shares)) for shares in ((0.1, 0.999), (0.999, 0.1)))
    assert verdict(rate, [back]).limit is Limit.GENERATOR
    assert verdict(rate, [sent]).limit is Limit.WIRE


def test_runs_that_recorded_one_share_for_both_directions_keep_their_verdict():
    older = {"engine/port/left/line_share": 0.996, "engine/port/left/speed_bps": 1e9}
    assert verdict(FOUND, [on_links(older, sends=dropped(FULL_LINK, "wire", "left"))]).limit is Limit.WIRE


def engine_of_two(sender_busy, receiver_busy):
    """A losing trial whose left port is driven by core 0, its right one by core 2."""
    lost = losing("transmit ring of right full", "engine", threads=[thread_load(0.7)])
    sender, receiver = (
        replace(worker(busy), core=core, ports=(port,))
        for busy, core, port in ((sender_busy, 0, "left"), (receiver_busy, 2, "right"))
    )
    return replace(lost, witness=replace(lost.witness, workers=(sender, receiver)))


def test_of_two_engine_cores_the_one_that_receives_is_asked():
    slow = verdict(FOUND, [engine_of_two(sender_busy=0.2, receiver_busy=0.99)])
    assert slow.limit is Limit.GENERATOR
    assert "99.0 % busy" in slow.headline
    idle = verdict(FOUND, [engine_of_two(sender_busy=0.99, receiver_busy=0.2)])
    assert idle.limit is Limit.NAMED_DROP
    assert "the engine's cores were 99.0 % (core 0), 20.0 % (core 2) busy" in idle.evidence


def test_losses_that_mostly_no_counter_names_are_unexplained_however_few_they_are():
    reached = verdict(FOUND, [losing(lost=100, named=40, threads=[thread_load(0.99)])])
    assert reached.limit is Limit.UNEXPLAINED
    assert "60 of 100 lost frames" in reached.headline


def losing_at(drops, lost=90):
    """A losing trial with these drops: (name, frames, whose doing, reason)."""
    hop = Hop("h", None, None, tuple(Drop(name, frames, "c", limits, reason) for name, frames, limits, reason in drops))
    return trial(1010.0, hops=[hop], counts=stream_counts(offered=1010, received=1010 - lost), number=2)


def rings(*frames, limits="engine"):
    """Full transmit rings of as many ports."""
    return [
        (f"transmit ring of {port} full", count, limits, "transmit ring of {port} full")
        for port, count in zip("abcd", frames, strict=False)
    ]


def test_one_reason_at_three_ports_is_one_limit_that_names_the_worst_port():
    reached = verdict(FOUND, [losing_at(rings(30, 25, 35))])
    assert reached.limit is Limit.NAMED_DROP
    assert reached.headline == "transmit ring of 3 ports full, 38.9 % of them: transmit ring of c full"
    assert [line.split(" of them")[0] for line in reached.evidence[1:4]] == ["35", "30", "25"]


def test_three_reasons_at_once_are_named_with_their_shares():
    drops = [
        ("receive ring of left full", 40, "dut", "receive ring of {port} full"),
        ("dropped by meter", 30, "rules", "dropped by meter"),
        ("transmit ring of right full", 20, "engine", "transmit ring of {port} full"),
    ]
    reached = verdict(FOUND, [losing_at(drops)])
    assert reached.limit is Limit.NAMED_DROP
    assert reached.headline == (
        "several at once: 44.4 % receive ring of left full, 33.3 % dropped by meter, 22.2 % transmit ring of right full"
    )


def test_drops_of_runs_that_recorded_no_reason_are_told_apart_by_name():
    reached = verdict(FOUND, [losing_at([(name, frames, limits, "") for name, frames, limits, _ in rings(50, 40)])])
    assert reached.headline == "transmit ring of a full"


def of_a_search(rate, trials, limit=1e-4):
    return diagnosis.verdict(rate, trials, RING, unexplained_ratio=limit)


def test_more_unnamed_losses_than_a_search_bears_refuse_the_verdict_and_name_the_place():
    """At the bound everything is named; 6 % of what the search offered in all is not."""
    at_bound, flood = (
        losing(threads=[thread_load(0.99)]),
        losing(lost=500, named=300, number=3, load_fps=2000.0, offered=2000),
    )
    quiet = trial(1000.0)
    assert verdict(FOUND, [quiet, at_bound, overloaded()]).limit is Limit.FORWARDING_CORE
    reached = of_a_search(FOUND, [quiet, at_bound, flood])
    assert reached.limit is Limit.UNEXPLAINED
    assert "no counter names 200 of 600 lost frames (4.99 % of 4,010 offered)" in reached.headline
    assert "at a place that no counter shows" in reached.headline
    assert "validity.unexplained_ratio" in reached.evidence[0]
    assert reached.trial_ids == ("t-0003",)


def test_as_many_unnamed_losses_as_a_search_bears_leave_the_verdict_as_it_is():
    few = losing(lost=100, named=99, threads=[thread_load(0.99)])
    assert of_a_search(FOUND, [trial(9000.0), few], limit=1e-4).limit is Limit.NAMED_DROP
    assert of_a_search(FOUND, [trial(8000.0), few], limit=1e-4).limit is Limit.UNEXPLAINED


def test_the_generators_limit_comes_before_anything_about_unexplained_frames():
    rate = Rate(0.0, RateStatus.AT_LEAST, 1000.0, None, 1.0, 21.0, "reached", limited_by=Limit.GENERATOR)
    assert of_a_search(rate, [losing(named=0)]).limit is Limit.GENERATOR


def test_only_the_first_losses_are_evidence():
    flood = losing("transmit ring of right full", "engine", number=3, load_fps=5000.0, engine_busy=1.0)
    reached = verdict(FOUND, [losing(threads=[thread_load(0.99)]), flood])
    assert "receive ring of left full" in reached.headline
    assert reached.trial_ids == ("t-0002",)


def test_a_stray_loss_far_below_the_bound_is_no_evidence():
    stray = losing(number=5, load_fps=500.0, threads=[thread_load(0.4)], offered=500, lost=1)
    reached = verdict(FOUND, [losing(threads=[thread_load(0.99)]), stray])
    assert reached.trial_ids == ("t-0002",)


def test_losses_below_the_published_rate_are_no_evidence_although_they_are_within_its_interval():
    between = replace(FOUND, lower_fps=900.0, estimate_fps=1000.0)
    pause = losing(number=5, load_fps=950.0, threads=[thread_load(0.4)], offered=950, lost=1)
    assert verdict(between, [losing(threads=[thread_load(0.99)]), pause]).trial_ids == ("t-0002",)


def test_invalid_trials_are_no_evidence():
    noisy = losing("transmit ring of right full", "engine", number=4, validity=TrialValidity.NOISY_HOST)
    assert verdict(FOUND, [losing(threads=[thread_load(0.99)]), noisy]).trial_ids == ("t-0002",)


def test_a_generators_ceiling_is_told_with_the_switchs_headroom():
    rate = Rate(0.0, RateStatus.AT_LEAST, 1000.0, None, 1.0, 21.0, "...", limited_by=Limit.GENERATOR)
    reached = verdict(rate, [trial(1000.0, threads=[thread_load(0.7)])])
    assert reached.limit is Limit.GENERATOR
    assert "PMD core 1 was still 30.0 % idle" in reached.headline


def test_the_searchs_own_maximum_is_told_as_such():
    rate = Rate(0.0, RateStatus.AT_LEAST, 1000.0, None, 1.0, 21.0, "generator-limited: no")
    assert verdict(replace(rate, limited_by=Limit.SEARCH_MAXIMUM), [trial(1000.0)]).limit is Limit.SEARCH_MAXIMUM
    assert verdict(rate, [trial(1000.0)]).limit is Limit.SEARCH_MAXIMUM, "sentences decide nothing"


def test_a_refused_rate_on_a_noisy_host_names_the_host():
    rate = Rate(0.0, RateStatus.REFUSED, None, None, 1.0, 21.0, "no valid trial at 1 Mpps in 9 tries")
    reached = verdict(rate, [trial(validity=TrialValidity.NOISY_HOST)])
    assert reached.limit is Limit.HOST
    assert reached.headline == rate.reason


def test_a_refused_rate_beside_a_neighbour_names_the_host():
    rate = Rate(0.0, RateStatus.REFUSED, None, None, 1.0, 21.0, "the trials contradict each other")
    reached = diagnosis.verdict(
        rate, [trial(1000.0)], RING, "a neighbour slowed the switch's core in 60 % of 50 trials"
    )
    assert reached.limit is Limit.HOST
    assert reached.evidence == ("a neighbour slowed the switch's core in 60 % of 50 trials",)
    assert diagnosis.verdict(rate, [trial(1000.0)], RING).limit is Limit.UNEXPLAINED


def test_frames_that_the_switch_is_set_to_drop_are_told_so_whatever_the_host_does():
    rate = Rate(0.0, RateStatus.REFUSED, None, None, 1.0, 21.0, "100% of 1 s trials at 10% load lose frames")
    trials = [losing("drop action of pipeline", "rules", lost=5), trial(validity=TrialValidity.NOISY_HOST)]
    reached = verdict(rate, trials)
    assert reached.limit is Limit.NAMED_DROP
    assert "drop action of pipeline: the switch's settings drop 5 of 5 lost frames" in reached.headline
    assert rate.reason in reached.headline
    mixed = [losing("drop action of pipeline", "rules", lost=5, named=2), trials[1]]
    assert verdict(rate, mixed).limit is Limit.HOST


def test_frames_that_the_rules_drop_are_no_pauses():
    reached = verdict(FOUND, [losing("drop action of pipeline", "rules", threads=[thread_load(0.6)])])
    assert reached.limit is Limit.NAMED_DROP
    assert not any("pause" in line for line in reached.evidence)


ALWAYS = Rate(0.0, RateStatus.LOSES_ALWAYS, None, None, 1.0, 21.0, "")


def of_a_rule(load, others=0, number=1, **options):
    """A trial in which a rule drops a quarter of the frames, and the receive ring some."""
    by_rule = Drop("drop rule", load // 4, "a counter", "rules", "drop rule", "", DropKind.RULE)
    by_ring = Drop(RECEIVE_RING, others, "another", "dut", RECEIVE_RING, "left", DropKind.RECEIVE_RING)
    drops = (by_rule, by_ring) if others else (by_rule,)
    counts = stream_counts(offered=load, received=load - load // 4 - others)
    return trial(float(load), hops=[Hop("h", None, None, drops)], counts=counts, number=number, **options)


def test_a_second_cause_is_named_where_a_rule_drops_frames_at_any_load():
    waiting = {"threads": [thread_load(0.99)], "run_delay_ns": 400_000_000}
    low = [of_a_rule(load, threads=[thread_load(0.3)]) for load in (100, 200, 500)]
    reached = verdict(ALWAYS, [*low, of_a_rule(1000, others=300, **waiting), of_a_rule(2000, others=900, **waiting)])
    assert [suspicion.cause for suspicion in reached.suspicions] == ["rule-drop", "preempted"]
    assert "drop rule" in reached.headline
    assert "apart from these, frames are lost from 1.00 kpps on: 300 in 1 trial" in reached.evidence


def test_a_stray_loss_beside_a_rule_that_drops_accuses_nobody():
    stray = of_a_rule(200, others=5, threads=[thread_load(0.3)], run_delay_ns=400_000_000)
    low = [of_a_rule(load, threads=[thread_load(0.3)]) for load in (100, 200, 200, 500, 1000)]
    reached = verdict(ALWAYS, [*low, stray])
    assert [suspicion.cause for suspicion in reached.suspicions] == ["rule-drop"]
    assert not any("apart from" in line for line in reached.evidence)


def test_drops_of_copies_are_shares_of_what_was_dropped():
    hop = Hop("out", 2000, 1000, (Drop("policer", 600, "a", "rules"), Drop("ring", 400, "b", "dut")))
    twice = trial(1000.0, hops=[hop], counts=stream_counts(offered=1000, received=750))
    twice = replace(twice, ledger=replace(twice.ledger, copies=1000))
    reached = verdict(replace(FOUND, lower_fps=500.0), [twice])
    assert (twice.ledger.unexplained, reached.limit) == (0, Limit.NAMED_DROP)
    assert reached.headline.startswith("policer")


def test_the_host_is_ruled_out_only_as_far_as_the_kernel_saw_the_switchs_threads():
    quiet = verdict(FOUND, [losing(threads=[thread_load(0.99)], run_delay_ns=40_000)])
    stolen = verdict(FOUND, [losing(threads=[thread_load(0.99)], run_delay_ns=40_000, steal_s={1: 0.02})])
    unseen = verdict(FOUND, [losing(threads=[thread_load(0.99)])])
    waited = verdict(FOUND, [losing(threads=[thread_load(0.99)], run_delay_ns=400_000_000)])
    assert any("waited at most 40.0 us" in line for line in quiet.ruled_out)
    assert not any("waited" in line for line in waited.ruled_out), "a hog had the core"
    assert not any("waited" in line for line in (*stolen.ruled_out, *unseen.ruled_out))
