"""Exported tables: their columns and units are pinned, and every format gives the same cells back."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sample
import sample_measures
from reference.export import document

from pinchpoint.export import TABLES, Stored, csit, frame, tables
from pinchpoint.model.errors import InputError, RequirementError

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "export"


@pytest.fixture(scope="module")
def run():
    info, result, trials = sample.sample_run()
    return Stored(info, result, (*trials[:3], *(trial for trial in trials if trial.ledger.dropped))[:5])


@pytest.fixture(scope="module")
def windows():
    info, result, made = sample_measures.measures_run()
    return Stored(info, result, measurements=made)


@pytest.mark.parametrize("name", ["scenarios", "rates", "latency", "trials", "streams", "drops"])
def test_tables_of_a_run_are_those_of_the_golden_files(run, name):
    assert frame(name, [run]).to_csv() == (GOLDEN / f"{name}.csv").read_text()


def test_names_types_and_units_of_all_columns_are_those_of_the_golden_file():
    lines = [
        f"{t.name}.{column.name} {column.kind} {column.unit or '-'}" for t in TABLES.values() for column in t.columns
    ]
    assert "\n".join(lines) + "\n" == (GOLDEN / "columns.txt").read_text()


def test_the_document_shows_every_table_as_the_code_has_it():
    assert document() in (ROOT / "docs" / "export.md").read_text()


@pytest.mark.parametrize("name", list(TABLES))
def test_parquet_and_arrow_give_every_cell_back(run, windows, name):
    made = frame(name, [run, windows])
    expected = list(made)
    assert pq.read_table(pa.BufferReader(made.to_parquet())).to_pylist() == expected
    assert pa.ipc.open_file(made.to_ipc()).read_all().to_pylist() == expected


def test_units_and_meanings_are_metadata_of_the_fields(run):
    field = frame("trials", [run]).to_arrow().schema.field("load_fps")
    assert field.metadata == {b"unit": b"frames/s", b"description": b"intended, all streams together"}


def test_an_empty_cell_is_none_and_an_empty_text_is_quoted(run):
    rows = list(csv.reader(io.StringIO(frame("trials", [run]).to_csv())))
    burst, reason = (rows[0].index(name) for name in ("burst_frames", "reason"))
    raw = frame("trials", [run]).to_csv().splitlines()[3].split(",")
    assert (raw[burst], raw[reason]) == ("", '""')


def test_frames_of_pandas_and_polars_keep_integers_with_gaps_as_integers(run):
    trials = frame("trials", [run])
    assert str(trials.to_pandas().dtypes["burst_frames"]) == "int64[pyarrow]"
    assert trials.to_polars().schema["burst_frames"] == polars.Int64
    assert trials.to_polars()["started"][0] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_table_that_there_is_not_is_refused_with_those_there_are(run):
    with pytest.raises(InputError, match="there are scenarios, rates"):
        frame("trails", [run])


def test_a_library_that_is_not_installed_is_named_with_the_command():
    with pytest.raises(RequirementError, match="pip install nosuchlibrary"):
        tables.needed("nosuchlibrary")


def test_csits_test_cases_are_those_of_the_golden_file(run):
    import json

    cases = list(csit.of_run(run))
    text = json.dumps([case.document for case in cases], indent=1, sort_keys=True) + "\n"
    assert text == (GOLDEN / "csit.json").read_text()


def test_what_csits_model_cannot_hold_is_named_and_not_invented(run, windows):
    forward, snat, _ = csit.of_run(run)
    assert forward.document["result"] == {"type": "unknown"} and not forward.document["passed"]
    assert any(line.startswith("result: ndr and pdr: no rate with both bounds") for line in forward.left_out)
    assert snat.document["result"]["ndr"]["upper"]["rate"] == {"value": 3.115e6, "unit": "pps"}
    told = "the model requires latency at 0, 10, 50 and 90 % of the PDR; missing: 0 %"
    assert any(told in line for line in snat.left_out)
    kinds = {case.name: case.document and case.document["result"]["type"] for case in csit.of_run(windows)}
    assert kinds == {"stream": "hoststack", "requests": None, "rules": None, "given": None}


@pytest.mark.parametrize(("field", "value"), [("started", "yesterday"), ("offered", 1 << 70)])
def test_stored_values_that_no_column_holds_are_an_error_of_the_input(run, field, value):
    from dataclasses import replace

    with pytest.raises(InputError):
        frame("trials", [replace(run, trials=[replace(run.trials[0], **{field: value})])]).to_arrow()
