"""The stored formats are pinned, described by a schema, and documented to the last field."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from reference.results import results_schema, schema_text
from sample import sample_run
from sample_study import study_run

from pinchpoint.dut.registry import device, kinds
from pinchpoint.findings.findings import KINDS
from pinchpoint.measure.registry import measures
from pinchpoint.model import errors
from pinchpoint.model.comparison import Comparison, ComparisonKind, Decision
from pinchpoint.model.measurement import Bound, Measurement, Metric
from pinchpoint.model.result import Limit, Outcome, RateStatus, RunInfo, RunResult
from pinchpoint.model.study import Curve
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.store.folder import INFO, MEASUREMENT, RESULT, TRIAL, RunFolder

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
RUN_INFO, RUN_RESULT, TRIALS = sample_run()
PINNED_TRIALS = tuple(trial for trial in TRIALS if trial.id in ("snat-255-0006", "snat-255-0008"))
MEASURED = Measurement(
    id="flows-0001", scenario="flows.items-1000", kind="build", repeat=1, started="2026-01-02T03:04:05Z", wall_s=0.41,
    metrics=(Metric("time per item", "s", 1e-5, 9e-6, 1.1e-5, "lowest and highest of 4 quarters"),),
    account={"items": 1000, "seconds": [0.0, 0.01]}, observed={"ovs/flows/count": 1000.0}, threads=(),
    validity=TrialValidity.VALID, reason="",
)  # fmt: skip
STORED = {
    "measurements.jsonl": (MEASUREMENT.encode(MEASURED, "") + b"\n",),
    "run.json": (INFO.encode(RUN_INFO, "") + b"\n",),
    "result.json": (RESULT.encode(RUN_RESULT, "") + b"\n",),
    "trials.jsonl": tuple(TRIAL.encode(trial, "") + b"\n" for trial in PINNED_TRIALS),
}


@pytest.mark.parametrize("name", list(STORED))
def test_a_file_is_written_byte_for_byte_as_pinned(name: str) -> None:
    path = GOLDEN / "run" / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(STORED[name]))
    assert path.read_bytes() == b"".join(STORED[name])


def test_pinned_files_are_read_as_what_they_were() -> None:
    read = [TRIAL.decode(line, "") for line in (GOLDEN / "run/trials.jsonl").read_bytes().splitlines()]
    assert tuple(read) == PINNED_TRIALS
    assert MEASUREMENT.decode((GOLDEN / "run/measurements.jsonl").read_bytes(), "") == MEASURED
    assert INFO.decode((GOLDEN / "run/run.json").read_bytes(), "") == RUN_INFO
    assert RESULT.decode((GOLDEN / "run/result.json").read_bytes(), "") == RUN_RESULT


def test_a_study_with_its_curves_and_findings_is_read_as_it_was_written() -> None:
    info, result, _ = study_run()
    assert INFO.decode(INFO.encode(info, ""), "") == info
    assert RESULT.decode(RESULT.encode(result, ""), "") == result
    validator = jsonschema.Draft202012Validator(results_schema())
    validator.validate(json.loads(RESULT.encode(result, "")))
    validator.validate(json.loads(INFO.encode(info, "")))


SCHEMA_2 = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/results.schema.2.json").read_text()))
OF_SCHEMA_2 = GOLDEN / "run-schema-2"


@pytest.mark.parametrize("name", list(STORED))
def test_files_of_the_schema_before_are_those_that_its_description_allows(name: str) -> None:
    for line in (OF_SCHEMA_2 / name).read_bytes().splitlines():
        SCHEMA_2.validate(json.loads(line))
        assert json.loads(line)["schema"] == 2


def test_files_of_the_schema_before_are_read_as_if_they_had_been_written_today() -> None:
    folder = RunFolder.open(OF_SCHEMA_2)
    assert (folder.read_trials(), folder.read_measurements()) == (PINNED_TRIALS, (MEASURED,))
    assert (folder.read_info(), folder.read_result()) == (RUN_INFO, RUN_RESULT)


def test_warnings_of_a_run_of_schema_3_were_sentences_and_are_of_no_kind() -> None:
    data = (GOLDEN / "run-schema-3/result.json").read_bytes()
    described = json.loads((ROOT / "docs/results.schema.3.json").read_text())
    jsonschema.Draft202012Validator(described).validate(json.loads(data))
    assert RESULT.decode(data, "") == RUN_RESULT
    assert [warning.kind for scenario in RUN_RESULT.scenarios for warning in scenario.warnings] == [Warn.OTHER]


def test_the_curves_and_published_figures_of_a_study_of_the_schema_before_are_in_todays_words() -> None:
    """Of its scenarios the first of each group, and nothing of how they were made."""
    folder, (info, result, _) = RunFolder.open(GOLDEN / "study-schema-2"), study_run()
    assert folder.read_info() == replace(info, scenarios=(), plans={}, sources={})
    firsts = {scenario.group: scenario for scenario in result.scenarios[::-1]}
    read = folder.read_result()
    assert read is not None
    assert {scenario.group: scenario for scenario in read.scenarios} == firsts
    assert read.curves == tuple(map(_without_later_fields, result.curves))
    then, now = "something else than the switch ended first", "something other than the switch was the limit"
    texts = (finding.text.replace("PMD core at", "forwarding core at") for finding in read.findings)
    texts = (text.replace(then, now).replace("loses most between", "drops most between") for text in texts)
    said = [text.replace("time per item at items", "build, time per item at items") for text in texts]
    assert said == [finding.text for finding in result.findings], "a stored sentence stays as it was written"


def _without_later_fields(curve: Curve) -> Curve:
    """Without how often an interval holds, and without the limits of repeats after the first."""
    points = (
        replace(
            point,
            limits=(),
            estimates={name: replace(estimate, level=None) for name, estimate in point.estimates.items()},
        )
        for point in curve.points
    )
    return replace(curve, points=tuple(points))


OLD_RUN = RunFolder.open(GOLDEN / "run-before-loopback")


def test_a_run_from_before_later_keys_is_read_and_they_are_not_measured() -> None:
    trials, result = OLD_RUN.read_trials(), OLD_RUN.read_result()
    assert result is not None
    # Scenarios in run.json are plain data in the words of their time.
    old = OLD_RUN.read_info()
    assert replace(old, scenarios=()) == replace(RUN_INFO, scenarios=())
    assert [scenario["name"] for scenario in old.scenarios] == [scenario["name"] for scenario in RUN_INFO.scenarios]
    assert (old.sweeps, old.study, result.curves, result.findings) == ((), None, (), ())
    assert {(scenario.group, scenario.outcome, scenario.repeat) for scenario in result.scenarios} == {
        ("", Outcome.MEASURED, 1)
    }
    assert [trial.id for trial in trials] == [trial.id for trial in PINNED_TRIALS]
    for trial in trials:
        (counts,), (worker,) = trial.streams, trial.witness.workers
        assert (counts.late, counts.reorder_distance_max, counts.largest_jump, counts.jitter) == (None,) * 4
        assert (worker.ports, worker.gaps_longest, worker.frequency_hz) == ((), (), None)
        assert trial.witness.loopback is None
    assert {point.loopback for scenario in result.scenarios for point in scenario.latency} == {None}


def test_the_description_of_the_schema_before_allows_still_older_runs() -> None:
    for name in ("run.json", "trials.jsonl", "result.json"):
        for line in (OLD_RUN.path / name).read_bytes().splitlines():
            SCHEMA_2.validate(json.loads(line))


def test_every_figure_of_a_devices_threads_is_documented() -> None:
    text = (ROOT / "docs/results.md").read_text()
    for kind in kinds():
        for key, figure in device(kind).figures.items():
            assert f"| `{key}` | {figure.answers} | {figure.meaning} |" in text


def test_the_schema_in_docs_is_current() -> None:
    assert (ROOT / "docs/results.schema.json").read_text() == schema_text()


@pytest.mark.parametrize("name", list(STORED))
def test_pinned_files_satisfy_the_schema_and_no_other_root(name: str) -> None:
    validator = jsonschema.Draft202012Validator(results_schema())
    for line in (GOLDEN / "run" / name).read_bytes().splitlines():
        validator.validate(json.loads(line))


def test_the_schema_refuses_unknown_keys() -> None:
    plain = json.loads(STORED["trials.jsonl"][0])
    plain["witness"]["colour"] = 1
    assert not jsonschema.Draft202012Validator(results_schema()).is_valid(plain)


def _stored_kinds(kind: Any, seen: dict[str, Any]) -> dict[str, Any]:
    """Every dataclass that a stored object is made of, by name."""
    for argument in get_args(kind):
        _stored_kinds(argument, seen)
    if is_dataclass(kind) and isinstance(kind, type) and kind.__name__ not in seen:
        seen[kind.__name__] = kind
        for hint in get_type_hints(kind).values():
            _stored_kinds(hint, seen)
    return seen


def _documented() -> dict[str, dict[str, list[str]]]:
    """`### Name` headings of docs/results.md with the rows of their table by field."""
    text = (ROOT / "docs/results.md").read_text()
    tables: dict[str, dict[str, list[str]]] = {}
    for part in re.split(r"^### ", text, flags=re.M)[1:]:
        name = part.split("\n", 1)[0].strip().strip("`")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if "|" in line]
        tables[name] = {row[0].strip("`"): row[1:] for row in rows if row[0].startswith("`")}
    return tables


def _all_fields() -> Iterator[tuple[str, set[str]]]:
    seen: dict[str, Any] = {}
    for root in (RunInfo, Trial, Measurement, RunResult, Comparison):
        _stored_kinds(root, seen)
    for name, kind in seen.items():
        yield name, {item.name for item in fields(kind)} | ({"schema"} if kind in (Trial, Measurement) else set())


@pytest.mark.parametrize(("name", "names"), [pytest.param(*field, id=field[0]) for field in _all_fields()])
def test_every_stored_field_is_documented_with_unit_and_meaning(name: str, names: set[str]) -> None:
    documented = _documented().get(name, {})
    assert set(documented) == names
    assert all(len(row) == 2 and row[0] and row[1] for row in documented.values())


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs/results.md").read_text()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    for kind in kinds:
        assert issubclass(kind, errors.PinchpointError)
        assert re.search(rf"^\| {kind.exit_code} \| [^|]+ \|$", text, flags=re.M), kind
    assert re.search(r"^\| 0 \| ", text, flags=re.M) and re.search(r"^\| 130 \| ", text, flags=re.M)


def test_every_word_of_an_enum_is_documented() -> None:

    text = (ROOT / "docs/results.md").read_text()
    for kind in (TrialValidity, RateStatus, Limit, Outcome, Bound, ComparisonKind, Decision):
        for word in kind:
            assert f"`{word.value}`" in text
    for measure in measures():
        assert f"`{measure.name}`" in text
    for request in KINDS:
        assert f"`{request}`" in text
    for warning in Warn:
        assert f"| `{warning.value}` | {warning.advice or '-'} |" in text
