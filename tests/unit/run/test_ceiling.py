"""The ceiling test over the simulated engine, and what is kept of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from simulated import CoreDistance, SimulatedInstrument, Truth
from simulated_queue import StallKind, Stalls
from support import RULES, TWO_PORTS, request, scenario_text
from trials import trial

from pinchpoint.account.facts import core_distances
from pinchpoint.cli.run import _Stopper
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.load.run import Load
from pinchpoint.measure.standing import Listener, Task, Undoable
from pinchpoint.model.errors import BenchError, RequirementError, StoreError
from pinchpoint.model.result import Ceiling, Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.warning import Warn
from pinchpoint.run import ceiling as kept
from pinchpoint.run.ceiling import MOST_TRIALS, CeilingTest, TooNoisyError, find_ceilings, held_result, key_of
from pinchpoint.run.run import unmeasured
from pinchpoint.run.scenario import ceilings_of
from pinchpoint.scenario import parse

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def ceiling_of(truth):
    """The ceilings of a simulated engine, and the loads that it took."""
    instrument = SimulatedInstrument(truth)
    instrument.open()
    loads = []

    def run(load_fps):
        loads.append(load_fps)
        return instrument.run(request(load_fps, 0.2))

    return find_ceilings(run, RULES, "a key", lambda: NOW), loads


@pytest.mark.parametrize("ceiling_fps", [3e5, 2e6, 11e6])
@pytest.mark.parametrize("capacity_fps", [1e12, 0.5e6], ids=["fast relay", "slow relay"])
def test_the_ceiling_is_what_the_engine_offers_whatever_comes_back(ceiling_fps, capacity_fps):
    (ceiling,), loads = ceiling_of(Truth(capacity_fps, ceiling_fps=ceiling_fps))
    assert ceiling.fps == pytest.approx(ceiling_fps, rel=0.04)
    assert ceiling.fps <= ceiling_fps * 1.001, "never more than it can"
    assert ceiling.received_fps == pytest.approx(min(ceiling.fps, capacity_fps), rel=0.02)
    assert (ceiling.key, ceiling.measured, ceiling.distance_ns) == ("a key", NOW.isoformat(), None)
    assert len(loads) <= MOST_TRIALS


def test_an_engine_that_keeps_up_with_everything_is_told_by_one_trial():
    (ceiling,), loads = ceiling_of(Truth(1e12))
    assert (ceiling.fps, len(loads)) == (100e6, 1)


@pytest.mark.parametrize("per_second", [5, 60, 200])
def test_a_core_that_stands_still_does_not_lower_the_ceiling(per_second):
    gaps = Stalls(StallKind.ENGINE, per_second, 0.002)
    (ceiling,), _ = ceiling_of(Truth(1e12, ceiling_fps=4e6, stalls=(gaps,), seed=3))
    assert ceiling.fps == pytest.approx(4e6, rel=0.05)


def test_a_core_that_hardly_runs_yields_no_ceiling_and_says_so():
    with pytest.raises(TooNoisyError, match="the engine's core stood still for"):
        ceiling_of(Truth(1e12, ceiling_fps=4e6, stalls=(Stalls(StallKind.ENGINE, 50, 0.05),)))


def test_each_mode_of_the_cores_has_its_own():
    modes = CoreDistance(near_ns=30.0, far_ns=160.0, dwell_s=1.0)
    for seed in range(8):
        ceilings, _ = ceiling_of(Truth(1e12, ceiling_fps=4e6, core_distance=modes, seed=seed))
        assert {ceiling.distance_ns for ceiling in ceilings} <= {30.0, 160.0}
        assert len({ceiling.distance_ns for ceiling in ceilings}) == len(ceilings)


CEILING = Ceiling(10e6, NOW.isoformat(), "", 30.0, 10e6)


class Measuring:
    """In the place of a real measurement: counts its calls."""

    def __init__(self, error=None, distance_ns=30.0):
        self.calls, self.error, self.distance_ns, self.fps = 0, error, distance_ns, CEILING.fps

    def __call__(self, machines, scenario, key, listener):
        self.calls += 1
        if self.error:
            raise self.error
        return (replace(CEILING, fps=self.fps, key=key, distance_ns=self.distance_ns),)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ceilings.json"


def test_a_ceiling_is_measured_once_a_day(path):
    measure, now = Measuring(), [NOW]
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, measure, lambda: now[0])
    for _ in range(2):
        ceilings, why = test.before(TWO_PORTS, Listener())
        assert ([ceiling.fps for ceiling in ceilings], why) == ([10e6], None)
    assert measure.calls == 1
    now[0] += timedelta(days=1)
    assert test.known(TWO_PORTS) == ()


def test_other_streams_another_engine_or_other_cores_are_another_ceiling(path):
    measure = Measuring()
    larger = replace(TWO_PORTS, streams=(replace(TWO_PORTS.streams[0], frame_bytes=512),))
    elsewhere = replace(TWO_PORTS, engine=replace(TWO_PORTS.engine, cpus=(2,)))
    for version, scenario in (("1.0", TWO_PORTS), ("1.0", larger), ("1.0", elsewhere), ("1.1", TWO_PORTS)):
        CeilingTest(Machines(Local()), lambda _, version=version: version, path, measure, lambda: NOW).before(
            scenario, Listener()
        )
    assert measure.calls == 4
    assert len(kept.read_ceilings(path, NOW)) == 4


def test_how_many_flows_there_are_changes_no_ceiling_but_which_fields_move_does():
    (stream,) = TWO_PORTS.streams
    moving = [replace(TWO_PORTS, streams=(replace(stream, ipv4_src=replace(stream.ipv4_src, count=n), flows=n),))
              for n in (1, 256, 65536)]  # fmt: skip
    single, some, many = (key_of(scenario, "1.0", Local()) for scenario in moving)
    assert some == many != single


def test_other_headers_are_another_ceiling_and_plain_streams_keep_their_key():
    texts = ("", "vlan = 5", 'vlan = 5\ntcp_dst = "80-89"', 'frame_bytes = "64-1518"')
    keys = [key_of(parse(scenario_text(more=text), "x.toml"), "1.0", Local()) for text in texts]
    found = [key.split("streams ")[1].split("; ")[0] for key in keys]
    assert found == [
        "left to right 64 B x 1",
        "left to right ethernet/vlan/ipv4/udp 68 B x 1",
        "left to right ethernet/vlan/ipv4/tcp 80 B x 1 varying tcp.dst",
        "left to right 64-1518 B x 1",
    ]


def test_a_capture_of_other_content_is_another_ceiling(tmp_path):
    file, keys = tmp_path / "web.pcap", []
    for content in (b"one", b"two", b"one"):
        file.write_bytes(content)
        keys.append(key_of(parse(scenario_text(more=f'pcap = "{file}"'), "x.toml"), "1.0", Local()))
    assert keys[0] == keys[2] != keys[1]


def test_how_values_follow_each_other_is_another_ceiling():
    texts = (
        'udp_dst = "1-9"', "udp_dst = [1, 9]", 'udp_dst = { random = "1-9", count = 5 }', "burst_frames = 32",
        "udp_dst = { zipf = 1, first = 1, count = 9 }", 'wrong_checksums = ["ipv4", "l4"]',
        'udp_dst = "1-9"\nudp_src = "1-9"\ntogether = true',
    )  # fmt: skip
    keys = [key_of(parse(scenario_text(more=text), "x.toml"), "1.0", Local()) for text in texts]
    assert [key.split("streams left to right ")[1].split("; ")[0] for key in keys] == [
        "64 B x 1 varying udp_dst",
        "ethernet/ipv4/udp 64 B x 1 varying udp.dst from a list",
        "ethernet/ipv4/udp 64 B x 1 varying udp.dst at random",
        "64 B x 1 in bursts of 32",
        "ethernet/ipv4/udp 64 B x 1 varying udp.dst by Zipf's law",
        "64 B x 1 wrong ipv4+l4",
        "64 B x 1 varying udp_src+udp_dst together",
    ]


def test_what_cannot_be_measured_is_said_and_not_tried_again(path):
    measure = Measuring(RequirementError("the generator's ceiling: a NIC needs a cable"))
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, measure, lambda: NOW)
    for _ in range(2):
        ceilings, why = test.before(TWO_PORTS, Listener())
        assert ceilings == ()
        assert why.kind is Warn.CEILING_UNKNOWN and "a NIC needs a cable" in why.text
    assert measure.calls == 1


def test_a_broken_cache_is_measured_anew_and_one_that_cannot_be_written_lasts_for_the_run(path):
    path.write_text("{")
    measure = Measuring()
    CeilingTest(Machines(Local()), lambda _: "1.0", path, measure, lambda: NOW).before(TWO_PORTS, Listener())
    assert len(kept.read_ceilings(path, NOW)) == 1
    blocked = CeilingTest(Machines(Local()), lambda _: "1.0", path / "below a file", measure, lambda: NOW)
    assert blocked.before(TWO_PORTS, Listener())[0] == blocked.before(TWO_PORTS, Listener())[0] != ()
    assert measure.calls == 2


def test_measures_without_a_search_have_none(path):
    measure = Measuring()
    loads = replace(TWO_PORTS, measure=Load((1e5,), 1.0, 1))
    assert CeilingTest(Machines(Local()), lambda _: "1.0", path, measure, lambda: NOW).before(loads, Listener()) == (
        (),
        None,
    )
    assert measure.calls == 0


def result(fps=9.9e6, distance_ns=30.0, most_offered_fps=None) -> ScenarioResult:
    empty = unmeasured(TWO_PORTS, Outcome.MEASURED, "", 1.0)
    rate = Rate(0.0, RateStatus.FOUND, fps, 1.01 * fps, 1.0, 0.0, "")
    cores = None if distance_ns is None else core_distances([trial(cache_line=(distance_ns, distance_ns))])
    return replace(empty, rates=(rate,), generator_ceiling_fps=fps, cache_line=cores, most_offered_fps=most_offered_fps)


def test_a_result_of_a_mode_without_a_ceiling_is_held_against_a_new_one(path):
    near = CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(), lambda: NOW)
    near.before(TWO_PORTS, Listener())
    far = Measuring(distance_ns=160.0)
    held = CeilingTest(Machines(Local()), lambda _: "1.0", path, far, lambda: NOW).after(
        TWO_PORTS, result(distance_ns=160.0), Listener()
    )
    assert far.calls == 1
    assert held.rates[0].status is RateStatus.AT_LEAST
    assert held.ceiling.distance_ns == 160.0
    assert len(kept.read_ceilings(path, NOW)) == 2


def test_a_mode_that_does_not_come_back_is_told(path):
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(), lambda: NOW)
    test.before(TWO_PORTS, Listener())
    held = test.after(TWO_PORTS, result(distance_ns=160.0), Listener())
    assert held.rates[0].status is RateStatus.FOUND
    assert held.warnings[-1].kind is Warn.CEILING_OF_OTHER_MODES


def test_a_result_that_was_held_already_is_left_alone(path):
    measure = Measuring()
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, measure, lambda: NOW)
    test.before(TWO_PORTS, Listener())
    done = held_result(result(), test.known(TWO_PORTS))
    assert done.rates[0].status is RateStatus.AT_LEAST
    assert test.after(TWO_PORTS, done, Listener()) is done
    assert measure.calls == 1


def test_a_ceiling_that_was_surpassed_is_dropped_and_measured_anew_once(path):
    measure = Measuring()
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, measure, lambda: NOW)
    for calls in (1, 2):
        before, why = test.before(TWO_PORTS, Listener())
        assert (len(before), why, measure.calls) == (1, None, calls)
        done = held_result(result(most_offered_fps=10.6e6), before)
        assert test.after(TWO_PORTS, done, Listener()) is done
        assert test.known(TWO_PORTS) == kept.read_ceilings(path, NOW) == ()
        measure.fps += 1e5
    none, why = test.before(TWO_PORTS, Listener())
    assert (none, why.kind) == ((), Warn.CEILING_UNKNOWN)
    assert why.text.endswith("twice the engine offered more than its test had found")
    assert measure.calls == 2


@pytest.mark.parametrize(
    ("fps", "distance_ns"), [(10.2e6, 30.0), (10.4e6, 160.0), (10.4e6, None)], ids=["no", "other mode", "not probed"]
)
def test_a_ceiling_that_was_not_surpassed_for_certain_is_kept(path, fps, distance_ns):
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(), lambda: NOW)
    before, _ = test.before(TWO_PORTS, Listener())
    refused = replace(result(distance_ns=distance_ns, most_offered_fps=fps), rates=())
    test.after(TWO_PORTS, refused, Listener())
    assert test.known(TWO_PORTS) == kept.read_ceilings(path, NOW) == before


def test_a_surpassed_ceiling_that_the_file_does_not_let_go_is_not_used_all_the_same(path, monkeypatch):
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(), lambda: NOW)
    before, _ = test.before(TWO_PORTS, Listener())

    def full(path, ceilings):
        raise StoreError(f"{path}: no space left")

    monkeypatch.setattr(kept, "write_ceilings", full)
    test.after(TWO_PORTS, held_result(result(most_offered_fps=10.4e6), before), Listener())
    assert kept.read_ceilings(path, NOW) == before
    assert test.known(TWO_PORTS) == ()


class Pressed(Measuring):
    """The user presses Ctrl-C while it measures."""

    def __init__(self, stopper):
        super().__init__(distance_ns=160.0)
        self.stopper = stopper

    def __call__(self, machines, scenario, key, listener):
        self.stopper.handle(2, None)
        return super().__call__(machines, scenario, key, listener)


class Finished:
    """A measurer whose trials are over: stopping it ends nothing."""

    def stop(self):
        return


def test_ctrl_c_ends_a_test_after_the_trials_at_once(path):
    CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(), lambda: NOW).before(TWO_PORTS, Listener())
    stopper = _Stopper()
    stopper.remember(Finished())
    pressed = Pressed(stopper)
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, pressed, lambda: NOW)
    with pytest.raises(KeyboardInterrupt):
        test.after(TWO_PORTS, result(distance_ns=160.0), Listener(), stopper.remember)
    assert pressed.calls == 0


def test_ctrl_c_once_the_test_is_over_does_not_cut_the_storing_of_the_result_short(path):
    CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(), lambda: NOW).before(TWO_PORTS, Listener())
    stopper = _Stopper()
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(distance_ns=160.0), lambda: NOW)
    held = test.after(TWO_PORTS, result(distance_ns=160.0), Listener(), stopper.remember)
    assert held.ceiling is not None
    stopper.handle(2, None)
    with pytest.raises(KeyboardInterrupt):
        stopper.remember(Undoable())


KNOWN = (replace(CEILING, key="what the search began with"),)


@pytest.mark.parametrize("ceilings", [(), KNOWN])
def test_a_resumed_search_goes_on_with_the_ceilings_that_it_began_with(path, ceilings):
    measure = Measuring()
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, measure, lambda: NOW)
    task = Task(records=[trial()], ceilings=ceilings)
    unknown = None if ceilings else Warn.CEILING_UNKNOWN_BEFORE.of()
    assert ceilings_of(TWO_PORTS, task, test) == (ceilings, unknown)
    assert ceilings_of(TWO_PORTS, task, None) == (ceilings, None)
    assert measure.calls == 0


@pytest.mark.parametrize("task", [Task(ceilings=KNOWN), Task(records=[trial()])], ids=["no trial", "old"])
def test_without_a_record_the_ceilings_are_those_of_today(path, task):
    test = CeilingTest(Machines(Local()), lambda _: "1.0", path, Measuring(), lambda: NOW)
    ((ceiling,), why) = ceilings_of(TWO_PORTS, task, test)
    assert (ceiling.fps, why) == (10e6, None)
    assert ceilings_of(TWO_PORTS, task, None) == ((), None)


def test_a_bench_that_breaks_costs_the_run_nothing_but_a_warning(path):
    test = CeilingTest(
        Machines(Local()), lambda _: "1.0", path, Measuring(BenchError("relay did not start")), lambda: NOW
    )
    _, why = test.before(TWO_PORTS, Listener())
    assert why == Warn.CEILING_UNKNOWN.of("relay did not start")
