"""What `make bench-engine` reads of generators of connections."""

import re
from pathlib import Path
from typing import Any

import connections_rate
import dperf
import pytest
from connections_rate import best_second, while_opening

PACKAGING = Path(__file__).parents[3] / "packaging"
SECOND = "skOpen  {} skClose  {} skCon    12 skErr   {} rtt(us) 13.8\nseconds 3    cpuUsage 100\n"


def test_of_dperf_the_best_second_without_its_errors_counts_and_the_totals_do_not() -> None:
    said = SECOND.format("99", "100", "0") + SECOND.format("999,290", "1,001,200", "\x1b[41;37m1,000\x1b[0m  ")
    totals = "dperf Test Finished\n" + SECOND.format("9,000,000", "9,000,000", "0")
    assert dperf.best_second(said + totals) == 1_000_200


def test_a_dperf_that_completed_nothing_is_an_error_with_its_last_words() -> None:
    with pytest.raises(RuntimeError, match="cannot find gateway"):
        dperf.best_second(SECOND.format("5", "0", "0") + "Error: bad gateway. dperf cannot find gateway's MAC address.")


def test_without_a_build_dperf_is_left_out_with_what_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(dperf.VARIABLE, raising=False)
    assert "packaging/build-dperf" in (dperf.missing() or "")
    monkeypatch.setenv(dperf.VARIABLE, "/nowhere/dperf")
    assert dperf.missing() == "PINCHPOINT_DPERF: not executable: /nowhere/dperf"


def test_of_the_engine_the_best_second_is_the_steepest_rise_between_samples() -> None:
    samples = [{"type": "sample", "elapsed_s": float(n), "completed": done} for n, done in enumerate((0, 10, 300, 320))]
    assert best_second([*samples, {"type": "account", "client": {}}]) == 290


def opened(at_s: float, count: int) -> dict[str, Any]:
    return {"type": "sample", "elapsed_s": at_s, "opened": count, "completed": count}


def test_a_rate_is_of_the_time_in_which_connections_were_opened_and_not_of_time_outs() -> None:
    lines = [opened(0.001, 10), opened(1.001, 1_010), opened(1.901, 1_910), opened(3.5, 2_000)]
    assert while_opening(lines, "opened", 2.0) == pytest.approx(1_000)
    with pytest.raises(RuntimeError, match=r"no connection was completed in 0\.5 s"):
        while_opening(lines, "completed", 0.5)


def test_the_rate_asked_for_is_near_what_a_probe_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def said(argv: list[str]) -> list[dict[str, Any]]:
        asked.append(argv)
        client = {"opened": 900, "shortfall": 100, "timed_out_connecting": 3}
        client |= {"timed_out_answering": 2, "timed_out_closing": 1}
        account: dict[str, Any] = {"type": "connections", "busy_share": 0.5, "elapsed_s": 3.0, "client": client}
        return [opened(0.0, 0), opened(0.1, 100_000), account]

    monkeypatch.setattr(connections_rate, "said", said)
    sample = connections_rate.steady(["connect"], "completed", 2.0, "50ms")
    assert [argv[argv.index("--rate") + 1] for argv in asked] == ["60000000", "1100000"]
    assert [argv[argv.index("--sample") + 1] for argv in asked] == ["0.02s", "0.2s"]
    assert (sample.rate, sample.cpu_share) == (pytest.approx(1e6), 0.75)
    assert sample.notes == {"not opened %": 10.0, "timed out": 6.0}


def test_a_rate_that_was_opened_whole_is_raised_and_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def said(argv: list[str]) -> list[dict[str, Any]]:
        asked.append(int(argv[argv.index("--rate") + 1]))
        short = asked[-1] > 1_150_000
        client = dict.fromkeys(("timed_out_connecting", "timed_out_answering", "timed_out_closing"), 0)
        client |= {"opened": 900, "shortfall": 100 if short else 1}
        account: dict[str, Any] = {"type": "connections", "busy_share": 0.5, "elapsed_s": 3.0, "client": client}
        return [opened(0.0, 0), opened(0.1, 100_000), account]

    monkeypatch.setattr(connections_rate, "said", said)
    assert connections_rate.steady(["connect"], "opened", 2.0, "50ms").rate == pytest.approx(1e6)
    assert asked == [60_000_000, 1_100_000, 60_000_000, 1_210_000]
    monkeypatch.setattr(connections_rate, "NOT_OPENED", 50.0)
    with pytest.raises(RuntimeError, match="its rate is higher"):
        connections_rate.steady(["connect"], "opened", 2.0, "50ms")


def test_what_stands_between_dperf_and_dpdk_is_linked_in() -> None:
    wrapped = set(re.findall(r"__wrap_(\w+)", (PACKAGING / "dperf-ports.c").read_text()))
    (linked,) = re.findall(r"for function in (.+); do\n.+--wrap=", (PACKAGING / "build-dperf").read_text())
    assert wrapped == set(linked.split()) and "neigh_check_gateway" in wrapped
