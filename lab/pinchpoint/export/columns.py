"""Every exported table, column by column: the names, kinds and units that other programs rely on."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final

from pinchpoint.export.tables import Column, Frame, Kind, Stored, Table, when
from pinchpoint.model import former
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import ScenarioResult

TEXT, COUNT, NUMBER, TRUTH, TIME = Kind


@dataclass(frozen=True)
class _Row:
    """What a row is made of."""

    run: Stored
    of: Any  # the result, trial, measurement or stretch that it belongs to
    own: Any  # what the table has one row for
    hop: Any = None  # of a drop


def _field(owner: str, name: str, kind: Kind, unit: str, doc: str, field: str = "") -> Column:
    """A field of what a row has as `owner`; None where that is, or what the field's path leads over."""
    return Column(name, kind, unit, doc, lambda row: _read(row, f"{owner}.{field or name}"))


def _read(value: Any, path: str) -> object:
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return str(value) if isinstance(value, str) else value


_own, _of = partial(_field, "own"), partial(_field, "of")
_RUN: Final = _field("run", "run", TEXT, "", "the run's id", "info.run_id")
_SCENARIO: Final = (
    _RUN,
    _of("scenario", TEXT, "", "its name, unique within the run"),
    _of("group", TEXT, "", "the scenario file's stem: points of one sweep share it"),
    _of("repeat", COUNT, "", "from 1"),
    Column("levels", TEXT, "", "its level of each factor of the sweep: a JSON object",
           lambda row: json.dumps(dict(row.of.levels), ensure_ascii=False, sort_keys=True)),
)  # fmt: skip
_TRIAL: Final = (
    _RUN,
    _of("trial", TEXT, "", "its id, unique within the run", "id"),
    _of("scenario", TEXT, "", "that it belongs to"),
)
_BEGAN: Final = Column("started", TIME, "", "when it began", lambda row: when(row.of.started))


def _each(of: str, field: str = "") -> Callable[[Stored], Iterator[_Row]]:
    """A row for each of these of a run, or for each object in that field of one."""

    def rows(run: Stored) -> Iterator[_Row]:
        for owner in attrgetter(of)(run):
            yield from (_Row(run, owner, own) for own in (getattr(owner, field) if field else (owner,)))

    return rows


SCENARIOS: Final = Table(
    "scenarios", "a row for each scenario, point or repeat of a run", _each("result.scenarios"),
    (
        *_SCENARIO,
        Column("started", TIME, "", "when the run started", lambda row: when(row.run.info.started)),
        _own("title", TEXT, "", "what the scenario shows"),
        Column("device", TEXT, "", "the kind of the device under test",
               lambda row: row.run.device(row.of.scenario).get("kind")),
        _own("measure", TEXT, "", "what was measured"),
        _own("outcome", TEXT, "", "`measured`, `impossible`, `skipped`, `failed` or `wrong`"),
        _own("reason", TEXT, "", "why it was not measured; empty if it was"),
        Column("limit", TEXT, "", "what limited the number; null: no verdict",
               lambda row: row.own.verdict and former.exported_limit(row.own.verdict.limit)),
        _own("verdict", TEXT, "", "the same in a sentence", "verdict.headline"),
        Column("causes", TEXT, "", "likely causes, the one that explains most first: a JSON array of names",
               lambda row: _causes(row.own)),
        _own("trials", COUNT, "", "trials or measurements that were made"),
        Column("invalid_trials", COUNT, "", "of these, those whose account is not usable",
               lambda row: sum(row.own.invalid_trials.values())),
        _own("traffic_s", NUMBER, "s", "of sending"),
        _own("wall_s", NUMBER, "s", "in all"),
        _own("generator_ceiling_fps", NUMBER, "frames/s", "the highest rate that the engine was seen to offer"),
        _own("mrr_fps", NUMBER, "frames/s", "forwarded at the highest load that the engine offers", "mrr.estimate_fps"),
        _own("mrr_low_fps", NUMBER, "frames/s", "lower end of its interval", "mrr.lower_fps"),
        _own("mrr_high_fps", NUMBER, "frames/s", "upper end", "mrr.upper_fps"),
        _own("mrr_load_fps", NUMBER, "frames/s", "that load, offered", "mrr.load_fps"),
        _own("longest_pause_borne_s", NUMBER, "s", "that the rings bear at an NDR far below the MRR", "gap.pause_s"),
        _own("unexplained_share", NUMBER, "share", "of the offered frames that no counter accounts for"),
        Column("pinchpoint", TEXT, "", "version that measured", lambda row: row.run.info.versions.get("pinchpoint")),
    ),
)  # fmt: skip


def _causes(result: ScenarioResult) -> str | None:
    if result.verdict is None:
        return None
    return json.dumps([former.exported_cause(suspicion.cause) for suspicion in result.verdict.suspicions])


RATES: Final = Table(
    "rates", "a row for each NDR and PDR", _each("result.scenarios", "rates"),
    (
        *_SCENARIO,
        _own("rate", TEXT, "", "`NDR`, or `PDR` with its loss ratio", "name"),
        _own("loss_ratio", NUMBER, "share", "that the rate allows; 0 for the NDR"),
        _own("status", TEXT, "", "`found`, `at_least`, `below_minimum`, `loses_always` or `refused`"),
        _own("fps", NUMBER, "frames/s", "the number to quote, offered; null: there is none", "quoted_fps"),
        _own("low_fps", NUMBER, "frames/s", "lower end of its interval", "lower_fps"),
        _own("high_fps", NUMBER, "frames/s", "upper end", "upper_fps"),
        _own("confidence", NUMBER, "share", "that the rate lies between them; null: the method does not say"),
        _own("band_low_fps", NUMBER, "frames/s", "at this load 10 % of the trials lose", "band.low_fps"),
        _own("band_high_fps", NUMBER, "frames/s", "at this load 90 % of the trials lose", "band.high_fps"),
        _own("losing_at_half", NUMBER, "share", "of the trials near half of the rate that lose", "at_half.share"),
        _own("claim_holds", TRUTH, "", "the trials beside the rate lose as it claims", "claim.holds"),
        _own("unusable_share", NUMBER, "share", "of the trials in which the engine's receiving core stood still"),
        _own("loss_at_any_load", NUMBER, "share", "that the device loses at any load", "floor.loss_ratio"),
        _own("trial_duration_s", NUMBER, "s", "of a trial that decides"),
        _own("method", TEXT, "", "of the search"),
        _own("limited_by", TEXT, "", "what limited a rate that is `at_least`"),
        _own("reason", TEXT, "", "why there is no number, or only a bound"),
    ),
)  # fmt: skip


_METRIC: Final = (
    Column("metric", TEXT, "", "its name", lambda row: former.exported_metric(row.own.name)),
    _own("unit", TEXT, "", "of value, low and high: `fps`, `bit/s`, `1/s`, `s`, `ns`, `cycles`, `share`, `count`, "
         "`bytes` or `x`"),
    _own("value", NUMBER, "see unit", "the figure"),
    _own("low", NUMBER, "see unit", "lower end of its interval; null: none is known"),
    _own("high", NUMBER, "see unit", "upper end"),
    _own("bound", TEXT, "", "how to read the value: `found`, `at_least`, `below`, `between` or `refused`; null: by its "
         "ends"),
    _own("disturbed", TRUTH, "", "no valid trial or window stands behind it"),
    _own("note", TEXT, "", "what the value and its interval are"),
)  # fmt: skip
METRICS: Final = Table(
    "metrics", "a row for each figure of a scenario", _each("result.scenarios", "metrics"), (*_SCENARIO, *_METRIC)
)


_QUANTILES: Final = ("min", "mean", "p50", "p90", "p99", "p999", "p9999", "max")


def _latency(field: str) -> tuple[Column, ...]:
    return (
        _own("latency_frames", COUNT, "frames", "whose latency was measured", f"{field}.count"),
        *(_own(f"latency_{name}_ns", NUMBER if name == "mean" else COUNT, "ns", f"one way, {_words(name)}",
               f"{field}.{name}_ns") for name in _QUANTILES),
    )  # fmt: skip


def _words(quantile: str) -> str:
    if not quantile.startswith("p"):
        return {"min": "lowest", "mean": "mean", "max": "highest"}[quantile]
    digits = quantile[1:]
    return f"{digits[:2]}{'.' if len(digits) > 2 else ''}{digits[2:]} % of the frames took no longer"


LATENCY: Final = Table(
    "latency", "a row for each share of the NDR at which latency was measured", _each("result.scenarios", "latency"),
    (
        *_SCENARIO,
        _own("share_of_ndr", NUMBER, "share", "the load as a share of the NDR", "share"),
        _own("load_fps", NUMBER, "frames/s", "intended"),
        _own("trial", TEXT, "", "the trial that it was measured in", "trial_id"),
        _own("validity", TEXT, "", "of that trial"),
        *_latency("latency"),
        _own("note", TEXT, "", "why there is none, or a warning"),
    ),
)  # fmt: skip


TRIALS: Final = Table(
    "trials", "a row for each transmission of frames", _each("trials"),
    (
        *_TRIAL,
        _own("phase", TEXT, "", "e.g. `warm-up`, `search`, `latency`"),
        _own("repeat", COUNT, "", "how many trials of this phase had this load before"),
        _BEGAN,
        _own("duration_s", NUMBER, "s", "intended"),
        _own("sent_duration_s", NUMBER, "s", "as the engine measured it"),
        _own("load_fps", NUMBER, "frames/s", "intended, all streams together"),
        _own("offered_fps", NUMBER, "frames/s", "presented to the ports"),
        _own("intended", COUNT, "frames", "as the load and the duration say"),
        _own("offered", COUNT, "frames", "presented to the ports"),
        _own("received", COUNT, "frames", "distinct ones that came back"),
        _own("lost", COUNT, "frames", "offered and not received"),
        _own("loss_ratio", NUMBER, "share", "lost over offered"),
        _own("dropped", COUNT, "frames", "of the lost, at places that counters name", "ledger.dropped"),
        _own("unexplained", COUNT, "frames", "of the lost, those that no counter accounts for", "ledger.unexplained"),
        _own("burst_frames", COUNT, "frames", "of one burst; null: a load for its duration"),
        _own("validity", TEXT, "", "whether the account can be used: `valid`, or why not"),
        _own("cause", TEXT, "", "what made it unusable; null: it is valid"),
        _own("reason", TEXT, "", "the same in a sentence"),
        *_latency("latency"),
        Column("gap_max_ns", COUNT, "ns", "the longest in which an engine core did not run its loop",
               lambda row: max((worker.gap_max_ns for worker in row.own.witness.workers), default=None)),
        _own("cache_line_ns", NUMBER, "ns", "one way from the engine's core to the device's, before the trial",
             "witness.cache_line_before_ns"),
    ),
)  # fmt: skip


STREAMS: Final = Table(
    "streams", "a row for each stream of a trial", _each("trials", "streams"),
    (
        *_TRIAL,
        _own("stream", COUNT, "", "its number, from 0"),
        _own("tx_port", TEXT, "", "port that sends"),
        _own("rx_port", TEXT, "", "port that receives; null: nobody counts them"),
        *(_own(name, COUNT, "frames", doc) for name, doc in (
            ("intended", "as the load and the duration say"), ("offered", "presented to the port"),
            ("refused", "of those, that the port's ring did not take"), ("sent", "taken by the port"),
            ("received", "distinct ones that came back"), ("lost", "offered and not received"),
            ("duplicated", "that came back more than once"), ("reordered", "after a later one"),
            ("reordered_in_flow", "after a later one with the same headers"),
            ("corrupt", "with a payload that is not theirs"), ("late", "of an earlier trial, or past the drain"),
        )),
        *_latency("latency"),
    ),
)  # fmt: skip


def _of_drops(run: Stored) -> Iterator[_Row]:
    for trial in run.trials:
        for hop in trial.ledger.hops:
            for drop in hop.drops:
                yield _Row(run, trial, drop, hop)


DROPS: Final = Table(
    "drops", "a row for each place of a trial's path that dropped frames", _of_drops,
    (
        *_TRIAL,
        _field("hop", "hop", TEXT, "", "where on the path", "name"),
        _own("drop", TEXT, "", "the reason", "name"),
        _own("frames", COUNT, "frames", "dropped"),
        _own("responsible", TEXT, "", "who could not keep up: `dut`, `engine` or `host`; or the `rules` that say so",
             "limits"),
        _own("counter", TEXT, "", "where the count was read"),
        _own("port", TEXT, "", "of the device; empty: at none"),
    ),
)  # fmt: skip


SAMPLES: Final = Table(
    "samples", "a row for each instant of a trial that is looked at over time; counts are totals since its start",
    _each("trials", "samples"),
    (
        *_TRIAL,
        _own("elapsed_s", NUMBER, "s", "since the start of the trial"),
        _own("offered", COUNT, "frames", "so far"),
        _own("received", COUNT, "frames", "so far; null: not recorded"),
        _own("lost", COUNT, "frames", "so far; null: not countable"),
        _own("gaps_s", NUMBER, "s", "in gaps of the engine's cores so far"),
        _own("gap_max_s", NUMBER, "s", "the longest of them since the sample before"),
    ),
)  # fmt: skip


MEASUREMENTS: Final = Table(
    "measurements", "a row for each figure of a window, load or build that is no transmission of frames",
    _each("measurements", "metrics"),
    (
        _RUN,
        _of("measurement", TEXT, "", "its id, unique within the run", "id"),
        _of("scenario", TEXT, "", "that it belongs to"),
        _of("kind", TEXT, "", "the measure"),
        _of("repeat", COUNT, "", "from 1"),
        _BEGAN,
        _of("wall_s", NUMBER, "s", "that it took"),
        _of("validity", TEXT, "", "`valid`, or why it cannot be used"),
        _of("reason", TEXT, "", "the same in a sentence"),
        *_METRIC[:5],
    ),
)  # fmt: skip


SLICES: Final = Table(
    "slices", "a row for each slice of a duet: two benches measured in turns of milliseconds",
    _each("stretches", "slices"),
    (
        _RUN,
        _of("stretch", TEXT, "", "the request that the slice belongs to", "id"),
        _of("phase", TEXT, "", "`calibration` or `measured`"),
        _of("bench", COUNT, "", "which pair of benches, from 1", "benches"),
        _of("load_fps", NUMBER, "frames/s", "offered to the bench whose turn it is"),
        _own("side", TEXT, "", "`A` or `B`"),
        _own("at_s", NUMBER, "s", "since the stretch began"),
        _own("length_s", NUMBER, "s", "of what is counted"),
        _own("offered", COUNT, "frames", "presented to the port"),
        _own("refused", COUNT, "frames", "of those, that the port's ring did not take"),
        _own("received", COUNT, "frames", "that came back"),
        _own("gap_s", NUMBER, "s", "in which the engine's core stood still"),
        _own("thawed", TRUTH, "", "the slice before was of the other bench"),
    ),
)  # fmt: skip

_EVERY: Final = (SCENARIOS, RATES, METRICS, LATENCY, TRIALS, STREAMS, DROPS, SAMPLES, MEASUREMENTS, SLICES)
TABLES: Final[Mapping[str, Table]] = {table.name: table for table in _EVERY}
"""By name, in the order of docs/export.md."""


def frame(name: str, runs: Iterable[Stored]) -> Frame:
    """The rows of one table, run after run. Raises InputError if there is no such table."""
    if name not in TABLES:
        raise InputError(f"{name}: no such table", f"there are {', '.join(TABLES)}")
    table = TABLES[name]
    rows = (row for run in runs for row in table.rows(run))
    return Frame(table, tuple(tuple(column.of(row) for column in table.columns) for row in rows))
