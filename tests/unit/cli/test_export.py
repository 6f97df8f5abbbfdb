"""`pinchpoint export`, `pack`, `unpack` and `report --form` at the command line."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pinchpoint.cli.main import main

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "run"


@pytest.fixture
def packed(tmp_path):
    target = tmp_path / "run.zip"
    assert main(["pack", str(GOLDEN), "-o", str(target)]) == 0
    return target


def test_each_table_with_rows_becomes_a_file_and_runs_are_joined(packed, tmp_path):
    out = tmp_path / "tables"
    assert main(["export", str(GOLDEN), str(packed), "-o", str(out)]) == 0
    assert "samples.parquet" not in {path.name for path in out.iterdir()}
    assert pq.read_table(out / "scenarios.parquet").num_rows == 6
    assert main(["export", str(GOLDEN), "-o", str(out)]) == 2, "nothing is overwritten"


def test_one_table_goes_to_standard_output(capfd):
    assert main(["export", str(GOLDEN), "--format", "csv", "--table", "rates"]) == 0
    assert capfd.readouterr().out.startswith("run,scenario,group,repeat,levels,rate,")


def test_csit_writes_a_file_a_scenario_and_names_what_is_left_out(tmp_path, capsys):
    out = tmp_path / "csit"
    assert main(["export", str(GOLDEN), "--format", "csit", "-o", str(out)]) == 0
    assert "left out: latency_forward" in capsys.readouterr().err
    document = json.loads((out / "synthetic-sample-20260102T030405Z.snat-255.json").read_text())
    assert (document["version"], document["result"]["type"]) == ("1.5.1", "ndrpdr")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "csv"], "give -o FOLDER"),
        (["--format", "csit", "--table", "rates"], "csit has no tables"),
    ],
)
def test_what_cannot_be_written_is_refused_with_what_to_give(words, said, capsys):
    assert main(["export", str(GOLDEN), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.tier1("command:unpack")
def test_a_bundle_is_shown_and_unpacked_with_a_report_made_anew(packed, tmp_path, capsys):
    assert main(["show", str(packed)]) == 0
    assert "snat-255" in capsys.readouterr().out
    assert main(["unpack", str(packed), "-o", str(tmp_path / "runs")]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "report.html").exists()
    assert (run / "trials.jsonl").read_bytes() == (GOLDEN / "trials.jsonl").read_bytes()


def test_an_anonymous_bundle_is_still_a_run(tmp_path, capsys):
    target = tmp_path / "run.zip"
    assert main(["pack", str(GOLDEN), "-o", str(target), "--anonymous", "--name", "ovs-vswitchd"]) == 0
    assert main(["show", str(target)]) == 0
    assert main(["pack", str(GOLDEN), "-o", str(tmp_path / "x.zip"), "--name", "x"]) == 2


@pytest.mark.parametrize(("form", "section"), [("rfc2544", "26.6 Reset"), ("rfc9411", "7.1 Throughput performance")])
def test_a_form_is_written_into_the_run_folder(packed, tmp_path, form, section):
    main(["unpack", str(packed), "-o", str(tmp_path / "runs")])
    (run,) = (tmp_path / "runs").iterdir()
    assert main(["report", str(run), "--form", form]) == 0
    page = (run / f"{form}.html").read_text()
    assert section in page and "Not measured" in page and "<script" not in page
