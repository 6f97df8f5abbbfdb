"""The arithmetic of `make bench-engine`, with contenders that take no time."""

from collections.abc import Iterator
from contextlib import contextmanager

import contest
import peers
import pytest
from contest import Aim, Contender, Contest, Line, Outcome, Sample
from engine_profile import shares
from table import as_data, cells

CLOCK_HZ = 2_000_000_000
LINE = Line("work", "ours", "peer", (Aim("ratio", 1.5), Aim("PMD busy %", 95.0)))


def hold(*contenders: Contender, rounds: int = 3, own_rounds: int | None = None) -> Outcome:
    match = Contest("name", "frames", contenders, (LINE,), rounds=own_rounds)
    return contest.hold(match, rounds, lambda *_: None, lambda *_: None)


def test_every_other_round_goes_backwards() -> None:
    order: list[str] = []

    def noted(name: str) -> Contender:
        return Contender(name, lambda _: order.append(name) or Sample(1.0))  # type: ignore[func-returns-value]

    hold(noted("a"), noted("b"))
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_a_contest_may_want_fewer_rounds_but_gets_no_more_than_asked_for() -> None:
    contender = Contender("ours", lambda _: Sample(1.0))
    assert len(hold(contender, rounds=3, own_rounds=1).samples["ours"]) == 1
    assert len(hold(contender, rounds=1, own_rounds=5).samples["ours"]) == 1


def test_who_fails_is_out_and_keeps_no_samples_and_the_others_go_on() -> None:
    runs = iter([Sample(1.0)])
    outcome = hold(Contender("ours", lambda _: Sample(2.0)), Contender("peer", lambda _: next(runs)))
    assert list(outcome.samples) == ["ours"]
    assert len(outcome.samples["ours"]) == 3
    assert outcome.failures == {"peer": "StopIteration: "}


def test_who_is_missing_never_runs_and_the_table_says_what_mends_it() -> None:
    absent = Contender("peer", lambda _: pytest.fail("it ran"), "not installed: apt-get install peer")
    outcome = hold(Contender("ours", lambda _: Sample(2e6)), absent)
    row = cells(outcome, LINE, CLOCK_HZ)
    assert row[2:5] == ("2.00 Mpps\n(2.00-2.00)", "not installed: apt-get install peer", "-")
    assert row[7] == "1.5 x: not measured\nPMD busy 95 %: not measured"


def test_the_bench_stands_for_all_rounds_and_not_at_all_if_nobody_can_run() -> None:
    stood: list[str] = []

    @contextmanager
    def bench() -> Iterator[str]:
        stood.append("up")
        yield "bench"
        stood.append("down")

    seen: list[object] = []
    contender = Contender("ours", lambda bench: seen.append(bench) or Sample(1.0))  # type: ignore[func-returns-value]
    contest.hold(Contest("name", "frames", (contender,), (), bench), 2, lambda *_: None, lambda *_: None)
    assert seen == ["bench", "bench"]
    nobody = Contender("ours", lambda _: Sample(1.0), "not built")
    contest.hold(Contest("name", "frames", (nobody,), (), bench), 2, lambda *_: None, lambda *_: None)
    assert stood == ["up", "down"]


def test_ratios_are_taken_within_a_round_and_not_of_medians() -> None:
    ours, theirs = [Sample(rate) for rate in (2.0, 4.0, 90.0)], [Sample(rate) for rate in (1.0, 4.0, 30.0)]
    assert contest.ratios(ours, theirs) == contest.Spread(2.0, 1.0, 3.0)
    assert contest.ratios(ours, []) is None


def test_rounds_of_two_core_distances_are_not_compared() -> None:
    near, far = {contest.APART: 30.0}, {contest.APART: 150.0}
    ours = [Sample(8.0, notes=near), Sample(2.0, notes=far), Sample(3.0, notes=far)]
    theirs = [Sample(4.0, notes=near), Sample(8.0, notes=near), Sample(1.0, notes=far)]
    assert contest.ratios(ours, theirs) == contest.Spread(2.5, 2.0, 3.0)
    assert contest.ratios(ours[:1], theirs[2:]) is None


def test_cycles_count_cpu_time_and_not_time() -> None:
    half = [Sample(1e6, cpu_share=0.5)]
    assert contest.cycles(half, CLOCK_HZ) == contest.Spread(1000.0, 1000.0, 1000.0)
    assert contest.ratios_per_cpu(half, [Sample(1e6, cpu_share=1.0)]) == contest.Spread(2.0, 2.0, 2.0)
    assert contest.ratios_per_cpu(half, [Sample(1e6)]) is None
    assert contest.cycles([Sample(1e6)], CLOCK_HZ) is None


def test_a_row_tells_rates_ratio_cycles_limit_and_aims() -> None:
    ours = Contender("ours", lambda _: Sample(3e6, 1.0, 0.25, {"PMD busy %": 97.0}))
    outcome = hold(ours, Contender("peer", lambda _: Sample(1e6, 0.5, 0.0)))
    assert cells(outcome, LINE, CLOCK_HZ) == (
        "work",
        "peer",
        "3.00 Mpps\n(3.00-3.00)",
        "1.00 Mpps\n(1.00-1.00)",
        "3.00 x (3.00-3.00)\nper CPU s: 1.50 x",
        "667 / 1000",
        "ours: PMD busy 97 %, CPU 100 %, of it kernel 25 %\npeer: CPU 50 %",
        "1.5 x: met\nPMD busy 95 %: met",
    )
    (line,) = as_data([outcome], 3, CLOCK_HZ)["contests"][0]["lines"]
    expected = {"what": "ratio", "at_least": 1.5, "at_most": False, "of_peers": False, "reached": 3.0}
    assert line["aims"][0] == expected


def test_an_aim_may_be_a_note_beside_the_peers_in_the_same_round() -> None:
    aim = Aim("cycles", 1.0, at_most=True, of_peers=True)
    ours = [Sample(1.0, notes={"cycles": cycles}) for cycles in (90.0, 210.0, 100.0)]
    theirs = [Sample(1.0, notes={"cycles": cycles}) for cycles in (100.0, 200.0, 125.0)]
    assert contest.reached(aim, ours, theirs) == 0.9
    assert contest.reached(aim, ours, [Sample(1.0)] * 3) is None
    outcome = Outcome(Contest("name", "frames", (), ()), {"ours": ours, "peer": theirs})
    row = cells(outcome, Line("work", "ours", "peer", (aim,)), CLOCK_HZ)
    assert row[7] == "cycles 1 x the peer's at most: met"


def test_what_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.shutil, "which", lambda program: None if program == "trafgen" else "/bin/x")
    assert peers.missing("trafgen", "nft") == "not installed: apt-get install netsniff-ng"
    assert peers.missing("nft") is None


def test_testpmd_is_believed_in_the_median_of_its_reports_without_its_first_zero() -> None:
    said = "".join(f"  Tx-pps: {rate:>12}  Tx-bps: 5\n" for rate in (0, 7, 9, 8))
    assert peers.testpmd_rate(said) == 8.0
    with pytest.raises(RuntimeError, match="no rate"):
        peers.testpmd_rate("Tx-pps:            0\n")


def test_functions_without_names_are_one_in_a_profile() -> None:
    report = """# Overhead  Shared Object  Symbol
    30.50%  librte_net_null.so.23.0  [.] 0x0000000000004467      -      -
    20.25%  librte_net_null.so.23.0  [.] 0x000000000000448a      -      -
    10.00%  [kernel.kallsyms]        [k] veth_xmit               -      -
"""
    assert shares(report) == {
        ("librte_net_null.so.23.0", "(no symbols)"): 50.75,
        ("[kernel.kallsyms]", "veth_xmit"): 10.0,
    }


def test_an_aim_may_be_the_most_that_something_may_be():
    memory = Aim("peak MB", 500, at_most=True)
    assert memory.met(499)
    assert not memory.met(501)
    assert Aim("ratio", 1.0).met(1.0)
