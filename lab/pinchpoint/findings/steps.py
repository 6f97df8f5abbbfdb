"""The steps of a study that retells a search: question, experiment, answer, and what the original saw; pure."""

from collections.abc import Iterator, Sequence

from pinchpoint.model import units
from pinchpoint.model.result import Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.study import Finding, Study


def steps(study: Study, results: Sequence[ScenarioResult]) -> tuple[Finding, ...]:
    """A sentence for each step of which there is a result, in their order."""
    by_group = {result.group: result for result in reversed(results)}
    numbered = [(number, step, by_group.get(step.group)) for number, step in enumerate(study.steps, 1)]
    return tuple(
        Finding(
            f"{number}. {step.question} {step.experiment}: {'; '.join(_answer(result))}. Published: {step.published}.",
            warning=result.outcome is not Outcome.MEASURED,
        )
        for number, step, result in numbered
        if result is not None
    )


def _answer(result: ScenarioResult) -> Iterator[str]:
    """The rate, what limited it, and what is true of the offload; of a step that was not measured why not."""
    if result.outcome is not Outcome.MEASURED:
        yield f"{result.outcome.words}: {result.reason.partition(chr(10))[0]}"
        return
    yield from map(_rate, result.rates[:1])
    if result.verdict is not None:
        yield result.verdict.headline.rstrip(".")
    if result.offload is not None:
        yield f"offload {result.offload.sentence}"


def _rate(rate: Rate) -> str:
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        return f"loses {units.loss(rate.floor.loss_ratio)} of its frames at any load"
    if rate.quoted_fps is None:
        return f"no {rate.name}: {rate.reason}"
    bound = {RateStatus.AT_LEAST: "at least ", RateStatus.BELOW_MINIMUM: "below "}.get(rate.status, "")
    return f"{rate.name} {bound}{units.fps(rate.quoted_fps)}"
