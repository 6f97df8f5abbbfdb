"""A study that retells a search says of each step what was asked, done and found, and what the original saw."""

from dataclasses import replace

from points import rate, result

from pinchpoint.findings.steps import steps
from pinchpoint.model.offload import Offload, OffloadLimit, OffloadTruth
from pinchpoint.model.result import LossFloor, Outcome, RateStatus
from pinchpoint.model.study import Step, Study

STEPS = (
    Step("slow", "Is the generator too slow?", "The generator alone", "0.49 Mpps (row 1)"),
    Step("lying", "Is the flag true?", "Frames counted in software", "0.4 Mpps (row 7)"),
)
STUDY = Study("story", "", "", "", (), (), quick=False, steps=STEPS)
CLAIMED = OffloadTruth(Offload.CLAIMED, 1.0, 0.0, limits={OffloadLimit.ONE_WAY: 1.0})


def of_group(group, *rates, **changes):
    return replace(result({}, (), rates=rates), group=group, **changes)


def texts(*results):
    return [finding.text for finding in steps(STUDY, results)]


def test_each_step_is_a_sentence_with_rate_limit_and_offload():
    slow = of_group("slow", rate(RateStatus.AT_LEAST, 390e3, None))
    lying = of_group("lying", rate(RateStatus.FOUND, 50e3, 51e3), offload=CLAIMED)
    assert texts(lying, slow) == [
        "1. Is the generator too slow? The generator alone: NDR at least 390 kpps; PMD core 1 is saturated. "
        "Published: 0.49 Mpps (row 1).",
        "2. Is the flag true? Frames counted in software: NDR 50.0 kpps; PMD core 1 is saturated; offload claimed, not "
        "real: hardware forwarded 0.00 % of the frames, and 100 % of the flows are said to be offloaded; known to "
        "stay in software: UDP whose connection saw no reply (100 % of the frames). Published: 0.4 Mpps (row 7).",
    ]


def test_a_device_that_loses_always_has_the_share_and_one_without_a_rate_the_reason():
    floor = LossFloor(0.25, 0.24, 0.26, 1e3, 9)
    always = of_group("slow", replace(rate(RateStatus.LOSES_ALWAYS, None, None), floor=floor))
    assert "The generator alone: loses 25 % of its frames at any load;" in texts(always)[0]
    refused = of_group("slow", rate(RateStatus.REFUSED, None, None, "noisy host"))
    assert "The generator alone: no NDR: noisy host;" in texts(refused)[0]


def test_a_step_that_could_not_run_is_a_warning_and_one_without_a_result_is_not_there():
    reason = "no hugepages\n  hint: reserve some"
    impossible = of_group("lying", outcome=Outcome.IMPOSSIBLE, reason=reason, verdict=None)
    (finding,) = steps(STUDY, (impossible,))
    assert finding.warning
    assert finding.text.startswith("2. Is the flag true? Frames counted in software: impossible here: no hugepages.")
