"""`pinchpoint trend` over run folders: its table, exit code, JUnit file and refusals."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from stored_runs import history, stored_run

from pinchpoint.cli.main import main
from pinchpoint.store.folder import RunFolder


def _store(root: Path, runs) -> Path:  # type: ignore[no-untyped-def]
    for info, result in runs:
        folder = RunFolder.create(root, info.run_id)
        folder.write_info(info)
        folder.write_result(result)
    return root


@pytest.mark.tier1("command:trend")
def test_a_fall_ends_with_code_8_and_a_failed_test_case(tmp_path, capsys):
    runs = _store(tmp_path / "runs", history([3.0e6] * 12 + [2.8e6] * 8))
    junit = tmp_path / "trend.xml"
    assert main(["trend", str(runs), "--junit", str(junit)]) == 8
    printed = capsys.readouterr().out
    assert "worse since 2026-01-14 03:04: -" in printed
    assert "3.0" in printed and "█" not in printed and "\x1b" not in printed
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
        "1-forward",
        "1",
        "1",
        "0",
    )
    assert suite[0].get("name") == "NDR"
    assert (suite[0][0].tag, suite[0][0].get("type")) == ("failure", "worse")


def test_a_steady_series_ends_with_code_0(tmp_path, capsys):
    runs = _store(tmp_path, history([3.0e6] * 20))
    junit = tmp_path / "trend.xml"
    assert main(["trend", *(str(path) for path in sorted(runs.iterdir())), "--junit", str(junit)]) == 0
    assert "no change over 20 runs" in capsys.readouterr().out
    assert ElementTree.parse(junit).getroot()[0][0][0].tag == "system-out"


def test_too_few_runs_are_a_skipped_test_case(tmp_path, capsys):
    runs = _store(tmp_path, history([3.0e6] * 4))
    junit = tmp_path / "trend.xml"
    assert main(["trend", str(runs), "--junit", str(junit)]) == 9, "it could not be decided"
    assert "too few runs to tell a change from chance: 4 of 10" in capsys.readouterr().out
    assert ElementTree.parse(junit).getroot()[0].get("skipped") == "1"


def test_what_is_not_compared_and_what_changed_is_printed(tmp_path, capsys):
    runs = [
        *history([3e6] * 3),
        stored_run(10, 3e6, ring=64),
        stored_run(11, 3e6, ring=64),
        stored_run(12, 3e6, host={}),
    ]
    assert main(["trend", str(_store(tmp_path, runs)), "--metric", "NDR"]) == 9
    printed = capsys.readouterr().out
    assert "not compared: forward-010 and 1 more: another scenario: port[1].ring 64, now 4,096" in printed
    assert "forward-012: same level; changed there: kernel 6.1.0 -> not recorded" in printed


def test_json_is_for_machines(tmp_path, capsys):
    assert main(["trend", str(_store(tmp_path, history([3e6] * 3))), "--json"]) == 9
    (trend,) = json.loads(capsys.readouterr().out)
    assert (trend["scenario"], trend["metric"], len(trend["runs"]), trend["changes"]) == ("1-forward", "NDR", 3, [])


def test_a_run_of_which_nothing_finished_is_passed_over(tmp_path, capsys):
    info, _ = stored_run(30, 3e6)
    _store(tmp_path, history([3e6] * 3))
    RunFolder.create(tmp_path, info.run_id).write_info(info)
    assert main(["trend", str(tmp_path)]) == 9
    assert "too few" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{folder}/empty"], 2, "neither a run folder nor a folder of run folders"),
        (["{folder}/runs", "--scenario", "absent"], 2, "no run has measured absent"),
        (["{folder}/runs", "--junit", "{folder}/absent/x.xml"], 7, "cannot write"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path, capsys, arguments, code, words):
    (tmp_path / "empty").mkdir()
    _store(tmp_path / "runs", history([3e6] * 2))
    assert main(["trend", *(argument.format(folder=tmp_path) for argument in arguments)]) == code
    assert words in capsys.readouterr().err
