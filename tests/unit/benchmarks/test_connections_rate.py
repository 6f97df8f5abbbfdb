"""What `make bench-engine` reads of generators of connections."""

import dperf
import pytest
from connections_rate import best_second

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
