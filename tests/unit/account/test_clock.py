"""A rate, and what a packet costs at it, fit the clock."""

from dataclasses import replace
from pathlib import Path

import pytest
from reference.studies import small
from sample_study import study_run

from pinchpoint.account.facts import over_clock
from pinchpoint.model.measurement import CYCLES
from pinchpoint.store.folder import RESULT

GOLDEN = Path(__file__).parents[2] / "golden"
STORED = [GOLDEN / "study-schema-2" / "result.json", *sorted((GOLDEN / "studies").glob("*.json"))]
_, SAMPLE, _ = study_run()
RATED = [result for result in SAMPLE.scenarios if any(metric.name == CYCLES for metric in result.metrics)]


def costing(result, factor):
    metrics = (
        replace(metric, value=factor * metric.value) if metric.name == CYCLES else metric for metric in result.metrics
    )
    return replace(result, metrics=tuple(metrics))


def test_cycles_of_the_load_of_the_rate_fit_the_clock() -> None:
    assert len(RATED) == 14
    assert [over_clock(result) for result in RATED] == [None] * 14


def test_cycles_of_a_slower_trial_are_told() -> None:
    full = RATED[0]  # 700 cycles at 2.6 GHz
    assert over_clock(costing(full, 1.04)) is None
    assert str(over_clock(costing(full, 2.0))) == (
        "1,400 cycles per packet at the NDR make 5.20 GHz; the forwarding threads were busy for 2.60 GHz"
    )


def test_a_thread_that_was_idle_had_as_much_less() -> None:
    full = RATED[0]
    (thread,) = full.threads
    shares = {"pmd core 1": 1.0, "pmd core 2": 0.2}
    threads = tuple(replace(thread, name=name, busy_share=share) for name, share in shares.items())
    two = replace(full, threads=threads)
    assert over_clock(costing(two, 1.2)) is None
    assert str(over_clock(costing(two, 1.5))).endswith("; the forwarding threads were busy for 3.12 GHz")


def test_what_is_not_stated_is_not_judged() -> None:
    far = costing(RATED[0], 9.0)
    assert over_clock(replace(far, rates=())) is None
    assert over_clock(replace(far, threads=())) is None
    assert over_clock(replace(far, threads=tuple(replace(load, clock_hz=None) for load in far.threads))) is None


def test_what_is_stored_of_a_study_is_judged_alike() -> None:
    kept = RESULT.decode(RESULT.encode(small(SAMPLE), ""), "").scenarios
    assert over_clock(costing(next(result for result in kept if result.scenario == RATED[0].scenario), 2.0))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_the_numbers_of_stored_studies_fit_the_clock(path) -> None:
    scenarios = RESULT.decode(path.read_bytes(), str(path)).scenarios
    assert [told for result in scenarios if (told := over_clock(result))] == []
    costed = [result for result in scenarios if any(metric.name == CYCLES for metric in result.metrics)]
    assert not costed or any(over_clock(costing(result, 3.0)) for result in costed), "nothing was held against a clock"
