"""A measurement begins, is announced, and ends with its account: the one place that makes them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pinchpoint.measure.standing import Standing
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import ThreadLoad, TrialValidity


def _now() -> str:
    return datetime.now(UTC).isoformat()


@dataclass(frozen=True)
class Begun:
    """A measurement that is under way."""

    scenario: Scenario
    id: str  # unique within the run
    repeat: int  # from 1
    started: str = field(default_factory=_now)  # ISO 8601, UTC
    began_s: float = field(default_factory=time.monotonic)

    def ended(
        self,
        metrics: Sequence[Metric],
        account: Mapping[str, object],
        observed: Mapping[str, float],
        *,
        threads: Sequence[ThreadLoad] = (),
        validity: TrialValidity = TrialValidity.VALID,
        reason: str = "",
    ) -> Measurement:
        """The whole measurement; `reason` says why it is not valid."""
        return Measurement(
            id=self.id,
            scenario=self.scenario.name,
            kind=self.scenario.measure.kind,
            repeat=self.repeat,
            started=self.started,
            wall_s=time.monotonic() - self.began_s,
            metrics=tuple(metrics),
            account=account,
            observed=observed,
            threads=tuple(threads),
            validity=validity,
            reason=reason,
        )


def begin(bench: Standing, number: int, expected_s: float, repeat: int | None = None) -> Begun:
    """Announce a measurement of about `expected_s` seconds; `number` counts within the scenario, as does `repeat`."""
    begun = Begun(bench.scenario, f"{bench.scenario.name}-{number:04d}", number if repeat is None else repeat)
    bench.listener.measurement_begins(begun.id, expected_s)
    return begun


def keep(bench: Standing, measurement: Measurement) -> Measurement:
    """Store it and announce that it has ended; returns it."""
    bench.record.keep_measurement(measurement)
    bench.listener.measurement_ends(measurement)
    return measurement


def once(bench: Standing, measure: Callable[[], Measurement]) -> Measurement:
    """The measurement of a measure that takes one: an interrupted run's, unless it was aborted, else a new one."""
    usable = (
        measurement for measurement in bench.recorded.measurements if measurement.validity is not TrialValidity.ABORTED
    )
    return next(usable, None) or keep(bench, measure())
