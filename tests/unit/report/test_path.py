"""The path of a trial's frames: each loss at its place, and nothing made of what is not known."""

from dataclasses import replace

import pytest
from sample import sample_run
from support import scenario_of
from trials import engine_result, port, stream_counts

from pinchpoint.account import ledger
from pinchpoint.dut import registry
from pinchpoint.model.hops import PORT, Party
from pinchpoint.model.result import RunResult
from pinchpoint.model.trial import Drop, Hop, Ledger, TrialValidity
from pinchpoint.report import render_html, render_markdown
from pinchpoint.report.trial_views import FOREIGN, UNEXPLAINED, PathView, path_of, paths

INFO, RESULT, TRIALS = sample_run()
SNAT = tuple(trial for trial in TRIALS if trial.scenario == "snat-255")
NAMES = ("engine sends", "switch reads", "datapath", "switch sends", "engine receives")
HOSTILE = "</text><script>alert(1)</script>"


def of_hops(*hops: Hop, offered: int = 100, received: int = 90, resets: tuple[str, ...] = ()) -> PathView:
    return path_of(replace(SNAT[3], offered=offered, received=received, ledger=Ledger(offered, received, hops, resets)))


def losses(path: PathView) -> list[tuple[str, str, int]]:
    """Each as (where, kind, frames): the place's name, or `-> ` and the name of the place that was not reached."""
    return [
        (f"{lead}{place.name}", loss.kind, loss.frames)
        for place in path.places
        for lead, there in (("-> ", place.on_the_way), ("", place.inside))
        for loss in there
    ]


def planted(where: str, party: Party) -> PathView:
    """Ten of 100 frames are dropped at one place, and named there."""
    drop = Drop("planted", 10, "a/counter", str(party))
    hops, frames = [], 100
    for name in NAMES:
        left = frames - (10 if name == where else 0)
        hops.append(Hop(name, frames, left, (drop,) if name == where else ()))
        frames = left
    return of_hops(*hops)


@pytest.mark.parametrize("where", NAMES)
@pytest.mark.parametrize("party", Party)
def test_a_named_drop_is_drawn_at_its_place_as_its_partys(where: str, party: Party) -> None:
    path = planted(where, party)
    assert losses(path) == [(where, str(party), 10)]
    (mark,), box = path.marks, path.boxes[NAMES.index(where)]
    assert mark.kind == party and mark.inside and mark.said == ("10 planted",)
    assert box.y <= mark.y < box.y + box.height


IO = {"wire": 'io = "vhost-user"'}


@pytest.mark.parametrize("kind", registry.kinds())
def test_a_loss_at_every_counter_of_every_kind_of_device_is_drawn_at_its_place(kind: str) -> None:
    graph = registry.device(kind).graph(scenario_of(kind, IO.get(kind, "")))
    ends = [port("left", sent=100), port("right", received=90)]
    engine = engine_result([stream_counts(offered=100, received=90)], ends)
    drops = [(place, drop) for place in graph.places for drop in (*place.drops, place.rest) if drop is not None]
    for place, drop in drops:
        seen = {drop.counter.replace(PORT, "left").replace("*", "x"): 10}
        account = ledger.build(engine, seen, ("left", "right"), graph)
        path = path_of(replace(SNAT[3], offered=100, received=90, ledger=account))
        assert [where for where, kind, _ in losses(path) if kind == drop.party] == [place.name], drop.counter
        assert not [kind for _, kind, _ in losses(path) if kind == UNEXPLAINED], drop.counter
        assert [place.name for place in path.places[1:-1]] == [place.name for place in graph.places]


@pytest.mark.parametrize("first", range(1, len(NAMES)))
def test_frames_that_no_counter_names_are_drawn_where_they_are_first_missed(first: int) -> None:
    counts = [100 if place < first else 90 for place in range(len(NAMES))]
    path = of_hops(*(Hop(name, frames, frames) for name, frames in zip(NAMES, counts, strict=True)))
    assert losses(path) == [(f"-> {NAMES[first]}", UNEXPLAINED, 10)]
    (mark,) = path.marks
    assert path.boxes[first - 1].y + path.boxes[first - 1].height <= mark.y < path.boxes[first].y
    assert not mark.inside


def test_frames_vanishing_inside_a_place_beyond_its_drops_are_drawn_there() -> None:
    path = of_hops(Hop("one", 100, 90, (Drop("ring full", 4, "a/counter", "engine"),)))
    assert losses(path) == [("one", "engine", 4), ("one", UNEXPLAINED, 6)]


def test_a_place_that_counts_nothing_does_not_hide_where_frames_are_missed() -> None:
    dropped = Drop("policy", 3, "a/counter", "rules")
    path = of_hops(Hop("one", 100, 100), Hop("blind", None, None, (dropped,)), Hop("two", 90, 90))
    assert losses(path) == [("blind", "rules", 3), ("-> two", UNEXPLAINED, 7)]


def test_an_unknown_count_is_said_to_be_unknown_and_its_line_is_dashed() -> None:
    path = of_hops(Hop("one", 100, None), Hop("two", None, None), Hop("three", 90, 90))
    assert [box.counts for box in path.boxes[:2]] == [
        ("in 100 frames", "out unknown"),
        ("in unknown", "out unknown"),
    ]
    assert [link.known for link in path.links] == [False, True]
    assert "two unknown" in path.line and " 0" not in path.line


def test_a_count_of_zero_is_zero() -> None:
    path = of_hops(Hop("one", 100, 0), Hop("two", 0, 0), received=0)
    assert path.boxes[1].counts == ("in 0 frames", "out 0 frames") and path.links[0].known


def test_counts_have_thousands_separators_and_their_unit() -> None:
    path = of_hops(Hop("one", 1234567, 1234000), offered=1234567, received=1234000)
    assert path.boxes[0].counts == ("in 1,234,567 frames", "out 1,234,000 frames")


def test_frames_of_others_that_come_and_go_are_no_loss() -> None:
    path = of_hops(Hop("one", 100, 103), Hop("two", 103, 103), Hop("three", 100, 90))
    assert losses(path) == [("one", FOREIGN, 3), ("-> three", FOREIGN, 3), ("three", UNEXPLAINED, 10)]


def test_frames_that_one_place_did_not_count_are_said_to_be_there_again() -> None:
    path = of_hops(Hop("one", 100, 100), Hop("two", 95, 95), Hop("three", 100, 100), received=100)
    assert losses(path) == [("-> two", UNEXPLAINED, 5), ("-> three", FOREIGN, 5)]
    assert path.marks[1].about == ("as many as were missing before",)
    more = of_hops(Hop("one", 100, 100), Hop("two", 95, 95), Hop("three", 107, 100), received=100)
    assert losses(more) == [("-> two", UNEXPLAINED, 5), ("-> three", FOREIGN, 12), ("three", FOREIGN, 7)]


def test_all_that_is_drawn_as_unexplained_is_what_the_ledger_leaves_open() -> None:
    dropped = Drop("ring full", 3, "a/counter", "dut")
    path = of_hops(Hop("one", 100, 95), Hop("two", 93, None, (dropped,)), Hop("three", 90, 88), received=80)
    assert losses(path) == [
        ("one", UNEXPLAINED, 5),
        ("-> two", UNEXPLAINED, 2),
        ("two", "dut", 3),
        ("three", UNEXPLAINED, 2),
        ("three", UNEXPLAINED, 8),
    ]
    assert path.trial.ledger.unexplained == 17


def test_an_old_ledger_without_places_has_its_two_ends() -> None:
    path = of_hops()
    assert [place.name for place in path.places] == ["engine sends", "engine receives"]
    assert losses(path) == [("engine receives", UNEXPLAINED, 10)]
    assert not path.links[0].known


def test_the_width_of_a_line_is_the_share_of_the_offered_frames() -> None:
    path = of_hops(Hop("one", 100, 100), Hop("two", 50, 50), Hop("three", 50, 50), received=50)
    assert path.links[1].width == 7.0 and path.links[0].width == 7.0


def test_paths_are_of_the_highest_clean_and_the_lowest_losing_valid_trial() -> None:
    clean, losing = paths(SNAT)
    assert (clean.trial.id, losing.trial.id) == ("snat-255-0007", "snat-255-0008")
    assert losses(clean) == []


def test_without_a_valid_trial_the_last_one_is_shown_as_what_it_is() -> None:
    (last,) = paths([replace(trial, validity=TrialValidity.NOISY_HOST) for trial in SNAT])
    assert (last.trial.id, last.title) == (SNAT[-1].id, "Last trial, noisy host")
    assert paths([replace(SNAT[0], offered=0)]) == () == paths([])


def test_the_line_names_every_place_with_what_left_it_and_what_was_lost() -> None:
    path = of_hops(Hop("one", 100, 96, (Drop("ring full", 4, "c", "dut"),)), Hop("two", 90, 90))
    assert path.line == ("100 offered → one 96 (4 ring full) → (6 unexplained: vanish on the way to two) → two 90")


def test_a_loss_without_a_known_party_is_still_drawn() -> None:
    path = of_hops(Hop("one", 100, 90, (Drop("old", 10, "a/counter", "somebody"),)))
    assert losses(path) == [("one", "other", 10)] and path.marks[0].about == ("somebody; a/counter",)


def _with(path: PathView) -> tuple[str, str]:
    own = replace(path.trial, scenario=RESULT.scenarios[1].scenario, validity=TrialValidity.VALID)
    result: RunResult = replace(RESULT, scenarios=(RESULT.scenarios[1],))
    return render_html(INFO, result, (own,)), render_markdown(INFO, result, (own,))


def test_the_page_and_markdown_say_where_frames_were_lost() -> None:
    page, written = _with(planted("datapath", Party.RULES))
    assert '<g class="loss rules">' in page and "datapath 90 (10 planted)" in page
    assert f"Path of {SNAT[3].id}: 100 offered → engine sends 100" in written and "(10 planted)" in written


def test_counters_that_went_back_are_named() -> None:
    page, _ = _with(of_hops(Hop("one", None, 90), resets=("ovs/port/left/rx_packets",)))
    assert "their counts are unknown: ovs/port/left/rx_packets." in page


def test_hostile_names_stay_text() -> None:
    drop = Drop(HOSTILE, 10, HOSTILE, HOSTILE)
    page, written = _with(of_hops(Hop(HOSTILE, 100, 90, (drop,)), resets=(HOSTILE,)))
    assert HOSTILE not in page and "<script>alert(1)" not in page
    assert "<script>" not in written.replace("\\<", "")
