"""Trials as typed signs; what was not observed is absent."""

from dataclasses import replace

from pytest import approx
from trials import stream_counts, thread_load, trial

from pinchpoint.causes.signs import of_trials
from pinchpoint.model.causes import Sign
from pinchpoint.model.hops import DropKind
from pinchpoint.model.trial import Drop, Hop

ENDS = Hop("engine sends", 1000, 1000), Hop("engine receives", 900, 900)


def losing(*drops, threads=(), observed=None, middle=(None, None), **options):
    counts = stream_counts(offered=1000, received=900)
    hops = [ENDS[0], Hop("device", *middle, drops), ENDS[1]]
    made = trial(1000.0, hops=hops, counts=counts, threads=threads, **options)
    return replace(made, observed=observed or {})


def signs(*trials, ring=100, **options):
    return of_trials(trials, ring, **options)


class CountsSubtables:
    """A device that says how many subtables it searched."""

    def signs(self, seen):
        return {Sign.SUBTABLES: seen["x"]}


def test_the_busiest_thread_speaks_for_the_device():
    idle = replace(thread_load(0.2, 900.0), cpu=2)
    values = signs(losing(threads=[thread_load(0.97, 640.0), idle])).values
    assert (values[Sign.BUSY], values[Sign.IDLEST], values[Sign.CYCLES]) == (0.97, 0.2, 640.0)


def test_passes_and_lookups_by_the_slow_path_are_of_frames():
    load = replace(thread_load(0.97), recirculated=500, slow_path=25)
    values = signs(losing(threads=[load])).values
    assert values[Sign.PASSES] == 1.5
    assert values[Sign.SLOW_PATH] == approx(0.025)


def test_what_no_counter_told_is_absent():
    load = replace(thread_load(), recirculated=None, slow_path=None, cycles_per_packet=None, busy_share=None)
    values = signs(losing(threads=[load])).values
    absent = (Sign.PASSES, Sign.WILDCARD_SHARE, Sign.SLOW_PATH, Sign.BUSY, Sign.CYCLES, Sign.COPIES, Sign.WAITED)
    assert not set(absent) & set(values)


def test_copies_are_counted_at_the_place_that_makes_them():
    drop = Drop("full", 200, "c", "engine", kind=DropKind.TRANSMIT_RING)
    seen = signs(losing(drop, middle=(1000, 2000)))
    assert seen.values[Sign.COPIES] == 2.0
    assert seen.lost == {DropKind.TRANSMIT_RING: 1.0}, "200 drops of copies for 100 lost frames"


def test_frames_that_no_stream_answers_go_one_way():
    there = stream_counts(offered=300, received=300)
    back = replace(there, stream=1, tx_port=there.rx_port, rx_port=there.tx_port)
    made = losing()
    shares = [signs(replace(made, streams=streams)).values[Sign.ONE_WAY] for streams in ((there,), (there, back))]
    assert shares == [1.0, 0.0]
    aside = replace(there, stream=2, rx_port="aside", sent=100)
    assert signs(replace(made, streams=(there, back, aside))).values[Sign.ONE_WAY] == approx(1 / 7)


def test_times_are_set_against_what_the_ring_holds():
    silent = {"engine/port/right/longest_silence_s": 0.25, "engine/pacing/largest_burst": 32.0}
    values = signs(losing(observed=silent, run_delay_ns=50_000_000)).values
    assert values[Sign.RING_S] == 0.1
    assert values[Sign.SILENCE] == 2.0, "0.05 s of the 0.25 s were waits"
    assert values[Sign.WAITED] == 0.5
    assert values[Sign.WAITED_SHARE] == 0.05
    assert values[Sign.BURST_OF_RING] == 0.32


def test_of_several_trials_the_median_speaks():
    values = signs(*(losing(threads=[thread_load(busy)]) for busy in (0.5, 0.97, 0.98))).values
    assert values[Sign.BUSY] == 0.97


def test_a_device_adds_what_its_own_counters_say():
    seen = signs(losing(observed={"x": 3.0}), device=CountsSubtables())
    assert seen.values[Sign.SUBTABLES] == 3.0


def test_a_sign_is_written_as_the_same_number_is_elsewhere():
    assert Sign.CYCLES.shown(1677.4) == "1,677" and Sign.CYCLES.shown(309.4) == "309"
    assert Sign.RING.shown(1024.0) == "1,024" and Sign.RING_S.shown(1.1e-3) == "1.10 ms"
