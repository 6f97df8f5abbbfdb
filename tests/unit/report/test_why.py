"""The sentences of a tree of causes."""

import io
from dataclasses import replace

from rich.console import Console
from sample import sample_run

from pinchpoint.model.causes import FORWARDED, LOSS, Branch, Experiment, Explanation, Standing, Suspicion, Tried
from pinchpoint.model.measurement import DropReason, FunctionShare, Profile
from pinchpoint.report import render_html, render_markdown, render_table
from pinchpoint.report.view import NO_SYMBOL, profile_view, suspected_view, why_view


def sentence(experiment, figure, gain, pairs=8):
    tried = Tried(experiment, "x.tried", figure, gain, None, None, "", pairs)
    suspicion = Suspicion("c", "a cause", 0.5, (), "mend it", experiment)
    return why_view(Explanation("x", (Branch(suspicion, Standing.CONFIRMED, "", tried),))).branches[0].sentence


def test_a_gain_in_turns_names_its_figure_and_how_many_pairs_show_it():
    assert sentence(Experiment.LARGE_RING, LOSS, 1000.0) == (
        "confirmed: a cause. With a longer ring: loss 1,000 times lower (median of 8 pairs of interleaved trials)"
    )


def test_a_gain_of_the_rate_says_at_least_how_much_of_the_time_is_explained():
    assert "at least 50.0 % of the time for a frame" in sentence(Experiment.FEW_FLOWS, FORWARDED, 2.0)


def test_a_suspicion_says_what_would_tell_only_where_the_bench_allows_it_and_no_share_of_nothing():
    suspicion = Suspicion("own-speed", "its own speed", 0.0, (), "", Experiment.PLAIN)
    told = [suspected_view("x", (suspicion,), allowed).branches[0] for allowed in (None, {Experiment.PLAIN}, ())]
    assert [branch.tried for branch in told] == [
        *(2 * ["Not tried. One rule that forwards and nothing else would tell."]),
        "Not tried: no counter-experiment on this bench can tell.",
    ]
    assert told[0].explains == ""
    assert suspected_view("x", (replace(suspicion, share=0.41),)).branches[0].explains == "would explain 41.0 %"


def profiled(**options):
    functions = tuple(FunctionShare(f"f{place}", "kernel", 50 - place, (50 - place) / 1000) for place in range(20))
    rest = FunctionShare("", "ovs-vswitchd", 190, 0.19)
    return Profile(
        "x", event="cpu-clock", load_fps=1e6, offered=1000, received=400, threads=("main",), samples=1000, unnamed=190,
        functions=(rest, *functions), **options,
    )  # fmt: skip


def test_the_table_of_functions_ends_with_the_rest_so_that_its_shares_add_up():
    function, share, source, samples = profile_view(profiled()).table.columns
    assert [cell.text for cell in function.cells][:2] == [NO_SYMBOL, "f0"]
    assert function.cells[-1].text == "9 further functions"
    assert (share.cells[0].text, source.cells[0].text) == ("19.0 %", "ovs-vswitchd")
    assert sum(int(cell.text.replace(",", "")) for cell in samples.cells) == 1000


def test_missing_symbols_and_a_device_with_time_left_are_said():
    sentences = " ".join(profile_view(profiled()).sentences)
    assert "19.0 % of the samples are in code without symbols (ovs-vswitchd)" in sentences
    assert "may have had idle time" not in sentences
    assert "may have had idle time" in " ".join(profile_view(replace(profiled(), received=999)).sentences)


def test_causes_that_the_kernels_reasons_name_come_with_what_mends_them():
    suspicion = Suspicion("neighbour", "an unknown next hop", 1.0, (), "see ip neighbour")
    profile = profiled(drops=(DropReason("NEIGH_FAILED", 90, 1.0),), suspicions=(suspicion,))
    *_, reasons, cause = profile_view(profile).sentences
    assert reasons == "90 frames that the kernel dropped in a trial of its own, by its own reasons: NEIGH_FAILED 100 %"
    assert cause == "That names an unknown next hop: see ip neighbour"


def test_what_was_not_sampled_is_one_line():
    view = profile_view(Profile("x", "perf is not installed: apt-get install linux-perf"))
    assert view.sentences == ("Time by function: not sampled: perf is not installed: apt-get install linux-perf",)
    assert view.table.columns == ()


def test_names_of_functions_are_no_markup_in_any_report():
    info, result, trials = sample_run()
    name = result.scenarios[0].scenario
    hostile = FunctionShare("<b>[red]|x|", "lib<i>.so", 4, 1.0)
    profile = Profile(name, event="cycles", load_fps=1.0, offered=9, threads=("main",), samples=4, functions=(hostile,))
    result = replace(result, explanations=(Explanation(name, ()),), profiles=(profile,))
    page = render_html(info, result, trials, ())
    assert "&lt;b&gt;[red]|x|" in page
    assert "<b>[red]" not in page
    assert r"\<b\>\[red\]\|x\|" in render_markdown(info, result, trials)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_table(result))
    assert "<b>[red]|x|" in console.export_text()
