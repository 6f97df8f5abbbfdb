"""A run as typed objects; docs/results.md explains what a number means, "How to read the numbers"."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pinchpoint.export import Frame, Stored, frame
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import LatencyPoint, Limit, Outcome, RateStatus, ReceiveRate, RunInfo, ScenarioResult
from pinchpoint.model.result import Rate as StoredRate
from pinchpoint.model.scenario import Level


def _same(stored: object, *names: str) -> dict[str, Any]:
    """Fields that are what they are in the stored object."""
    return {name: getattr(stored, name) for name in names}


@dataclass(frozen=True)
class Rate:
    """An NDR or PDR; frames per second, offered. None: there is no such number, which `status` and `reason` explain."""

    name: str  # "NDR", "PDR 0.5 %"
    loss_ratio: float
    status: RateStatus
    trial_duration_s: float  # T: rates of different trial lengths are not comparable
    median_fps: float | None  # the number to quote: half of the trials lose at this load
    interval_fps: tuple[float | None, float | None]  # that the median lies in, at `confidence`; one end: a bound
    confidence: float | None
    band_fps: tuple[float, float] | None  # loads at which 10 % and 90 % of the trials lose
    reason: str

    @classmethod
    def of(cls, rate: StoredRate) -> "Rate":
        """Of a stored one."""
        same = _same(rate, "name", "loss_ratio", "status", "trial_duration_s", "confidence", "reason")
        ends = (rate.lower_fps, rate.upper_fps)
        band = None if rate.band is None else (rate.band.low_fps, rate.band.high_fps)
        return cls(**same, median_fps=rate.quoted_fps, interval_fps=ends, band_fps=band)


@dataclass(frozen=True)
class Result:
    """What was found about one scenario, point or repeat; `stored` is all of it."""

    stored: ScenarioResult = field(repr=False)
    name: str
    title: str
    measure: str
    outcome: Outcome
    reason: str  # why it was not measured
    levels: Mapping[str, Level]
    rates: tuple[Rate, ...]
    mrr: ReceiveRate | None  # forwarded under overload; None: not measured
    metrics: Mapping[str, Metric] = field(repr=False)
    latency: tuple[LatencyPoint, ...] = field(repr=False)
    limit: Limit | None  # what limited the number; None: no verdict
    verdict: str  # the same in a sentence; empty: none
    causes: tuple[str, ...]  # likely causes, the one that explains most first
    run: "Run | None" = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, result: ScenarioResult, run: "Run | None" = None) -> "Result":
        """Of a stored one."""
        verdict = result.verdict
        return cls(
            **_same(result, "title", "measure", "outcome", "reason", "levels", "mrr", "latency"),
            stored=result,
            name=result.scenario,
            rates=tuple(map(Rate.of, result.rates)),
            metrics={metric.name: metric for metric in result.metrics},
            limit=None if verdict is None else verdict.limit,
            verdict="" if verdict is None else verdict.headline,
            causes=() if verdict is None else tuple(suspicion.title for suspicion in verdict.suspicions),
            run=run,
        )

    @property
    def ndr(self) -> Rate | None:
        """The no-drop rate; None for a measure without one."""
        return next((rate for rate in self.rates if rate.loss_ratio == 0), None)

    @property
    def trials(self) -> Frame | None:
        """The scenario's own rows of `Run.trials`; None for a result without its run."""
        if self.run is None:
            return None
        whole = self.run.trials
        index = whole.columns.index("scenario")
        return Frame(whole.table, tuple(row for row in whole.rows if row[index] == self.name))


@dataclass(frozen=True)
class Run:
    """One run: its results as objects, and everything in it as frames (docs/export.md has their columns)."""

    path: Path
    data: Stored = field(repr=False)

    @property
    def id(self) -> str:
        """The run's id: the name of its folder."""
        return self.data.info.run_id

    @property
    def info(self) -> RunInfo:
        """What was run, on what."""
        return self.data.info

    @property
    def finished(self) -> bool:
        """False: it was interrupted, or is still going on."""
        return self.data.result.finished

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """One for each scenario, point and repeat, in the order they ran."""
        return tuple(Result.of(scenario, self) for scenario in self.data.result.scenarios)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __getitem__(self, name: str) -> Result:
        """The result of a scenario by its name. Raises KeyError."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"{name}; there are {', '.join(result.name for result in self.results)}")

    def frame(self, name: str) -> Frame:
        """One of the tables of docs/export.md. Raises InputError if there is no such table."""
        return frame(name, [self.data])

    @cached_property
    def trials(self) -> Frame:
        """A row for each transmission of frames."""
        return self.frame("trials")

    @cached_property
    def samples(self) -> Frame:
        """A row for each instant of a trial that is looked at over time."""
        return self.frame("samples")

    @cached_property
    def rates(self) -> Frame:
        """A row for each NDR and PDR."""
        return self.frame("rates")

    @cached_property
    def metrics(self) -> Frame:
        """A row for each figure."""
        return self.frame("metrics")

    @cached_property
    def measurements(self) -> Frame:
        """A row for each figure of a window, load or build."""
        return self.frame("measurements")
