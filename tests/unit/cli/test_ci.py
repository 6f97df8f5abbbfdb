"""`pinchpoint ci` at the command line, without a bench: exit codes, JUnit, annotations, summaries, builds."""

import json
import os
import subprocess
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from comparisons import result_of
from stored_runs import history

from pinchpoint.cli import run as command
from pinchpoint.cli.main import main
from pinchpoint.cli.options import program_of
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import Outcome
from pinchpoint.run.run import run_all, unmeasured
from pinchpoint.store.folder import RunFolder

ROOT = Path(__file__).parents[3]
FORWARD = ROOT / "studies" / "quickstart" / "1-forward.toml"


@pytest.fixture
def ci(monkeypatch, tmp_path):
    """Runs `pinchpoint ci BASE HEAD` in turns; HEAD's rate is `factor` times BASE's."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    factors = {}

    def here(context, units, *_):
        def measured_unit(unit, task):
            value = (8e6 + 1e3 * unit.point.repeat) * (factors["B"] if unit.point.group.startswith("B-") else 1.0)
            if unit.point.group.startswith("B-") and factors["ends"] and unit.point.repeat == 8:
                return unmeasured(unit, factors["ends"], "because", 1.0)
            return result_of(unit, value, name="NDR")

        return run_all(context, units, measured_unit, lambda *_: None)

    monkeypatch.setattr(command, "run_all", here)
    monkeypatch.setattr(command, "require_any", lambda *_: None)
    monkeypatch.setattr(command, "held", lambda *_: nullcontext())
    head = tmp_path / "head.toml"
    head.write_text(FORWARD.read_text())

    def run(factor, *more, ends=None):
        """`ends`: how HEAD's last repeat ends instead of being measured."""
        factors["B"], factors["ends"] = factor, ends
        options = ("--method", "turns", "--pairs", 8, "--quiet", "--out", tmp_path / "runs")
        return main(["ci", str(FORWARD), str(head), *map(str, (*options, *more))])

    return run


@pytest.mark.tier1("command:ci")
def test_a_regression_beyond_the_margin_ends_with_8_a_failure_and_an_error(ci, tmp_path, capsys):
    junit, summary = tmp_path / "ci.xml", tmp_path / "ci.md"
    assert ci(0.9, "--junit", junit, "--summary", summary, "--annotations") == 8
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    assert suite[0][0].tag == "failure" and "worse by more than the margin of 3 %" in suite[0][0].get("message")
    out = capsys.readouterr()
    assert "::error title=NDR%3A regression::B-head: NDR: HEAD is worse by more than the margin of 3 %25" in out.out
    assert "HEAD is worse than BASE by more than 3 %" in out.err
    assert "| B-head | ❌ NDR | 8.00 Mpps" in summary.read_text()


def test_a_regression_within_the_margin_ends_with_0_and_a_warning(ci, capsys):
    assert ci(0.98, "--annotations") == 0
    assert "::warning title=NDR%3A within the margin" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("factor", "ends", "code"), [(1.0, Outcome.WRONG, 1), (0.9, Outcome.FAILED, 8), (1.0, Outcome.FAILED, 4)]
)
def test_a_wrong_service_ends_with_1_and_a_regression_is_not_hidden_by_points_that_failed(
    ci, capsys, factor, ends, code
):
    assert ci(factor, ends=ends) == code
    assert ("the service is wrong" if ends is Outcome.WRONG else "1 point failed") in capsys.readouterr().err


def test_a_stored_head_whose_service_is_wrong_ends_with_1(tmp_path, capsys):
    for name in ("a", "b"):
        ((info, result),) = history([3e6])
        folder = RunFolder.create(tmp_path, name)
        folder.write_info(info)
        wrong = replace(result.scenarios[0], scenario="verified", outcome=Outcome.WRONG, reason="because", rates=())
        folder.write_result(replace(result, scenarios=(*result.scenarios, *[wrong] * (name == "b"))))
        folder.path.rename(tmp_path / name)
    assert main(["ci", str(tmp_path / "b"), str(tmp_path / "a")]) != 1
    assert main(["ci", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "verified: the service is wrong: because" in capsys.readouterr().err


def test_the_margin_can_be_chosen(ci):
    assert ci(0.98, "--margin", 1) == 8


def test_no_difference_ends_with_0_and_without_annotations(ci, tmp_path, capsys):
    junit = tmp_path / "ci.xml"
    assert ci(1.0, "--annotations", "--junit", junit) == 0
    assert "::" not in capsys.readouterr().out
    assert ElementTree.parse(junit).getroot()[0][0][0].tag == "system-out"


def test_too_few_pairs_end_with_9_and_an_error_of_junit(ci, tmp_path, capsys):
    junit = tmp_path / "ci.xml"
    assert ci(0.9, "--pairs", 2, "--junit", junit) == 9
    assert ElementTree.parse(junit).getroot()[0].get("errors") == "1"
    assert "could not be decided" in capsys.readouterr().err


def test_github_gets_its_annotations_and_its_summary_from_the_environment(ci, tmp_path, monkeypatch, capsys):
    step = tmp_path / "step.md"
    step.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert ci(0.9) == 8
    assert step.read_text().startswith("before\n### Pinchpoint: HEAD is worse")
    assert "::error" in capsys.readouterr().out
    assert ci(0.9, "--no-annotations", "--json") == 8
    assert json.loads(capsys.readouterr().out)["kind"] == "paired"


def test_two_stored_runs_are_compared_as_they_are(tmp_path, capsys):
    for name, level in (("a", 3e6), ("b", 2e6)):
        ((info, result),) = history([level])
        folder = RunFolder.create(tmp_path, name)
        folder.write_info(info)
        folder.write_result(result)
        folder.path.rename(tmp_path / name)
    assert main(["ci", str(tmp_path / "a"), str(tmp_path / "b")]) in (1, 8)
    assert "HEAD" in capsys.readouterr().err


def test_builds_need_a_scenario_and_two_programs(tmp_path, capsys):
    program_path = tmp_path / "ovs-vswitchd"
    program_path.write_text("#!/bin/sh\n")
    program_path.chmod(0o755)
    assert main(["ci", str(program_path), str(program_path)]) == 2
    assert "need a scenario" in capsys.readouterr().err
    assert main(["ci", str(program_path), str(program_path), "--scenario", str(FORWARD)]) == 2
    assert "the same program" in capsys.readouterr().err


def test_a_program_is_found_in_the_folder_of_a_build(tmp_path):
    program = tmp_path / "usr" / "sbin" / "ovs-vswitchd-dpdk"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    (program.parent / "ovs-vswitchd.8").write_text("a page")
    with ExitStack() as stack:
        assert program_of(tmp_path, "ovs-vswitchd", stack) == program
        second = program.with_name("ovs-vswitchd")
        os.link(program, second)
        with pytest.raises(InputError, match="expected one program called ovs-vswitchd, found"):
            program_of(tmp_path, "ovs-vswitchd", stack)
        with pytest.raises(InputError, match="no program called"):
            program_of(tmp_path, "other", stack)


def test_a_link_that_leads_out_of_a_package_is_refused(tmp_path):
    root = tmp_path / "package"
    for folder in ("DEBIAN", "usr/lib", "usr/sbin"):
        (root / folder).mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(
        "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: a\n"
    )
    program, link, package = root / "usr" / "lib" / "switch-1", root / "usr" / "sbin" / "switch", tmp_path / "a.deb"
    program.write_text("")
    program.chmod(0o755)
    for target, inside in (("../lib/switch-1", True), ("/bin/true", False)):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        package.unlink(missing_ok=True)
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", root, package], check=True, capture_output=True)
        with ExitStack() as stack:
            if inside:
                assert program_of(package, "switch", stack).name == "switch-1"
            else:
                with pytest.raises(InputError, match="/usr/sbin/switch leads out of the package, to /"):
                    program_of(package, "switch", stack)
