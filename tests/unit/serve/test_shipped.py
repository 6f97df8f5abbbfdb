from pathlib import Path

import pytest
from reference.scenario import LAYERS_EXAMPLE
from served import SHIPPED, answered

from pinchpoint.cli import program
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import InputError
from pinchpoint.serve import form
from pinchpoint.serve.shelf import Studies

HERE = Machines(Local())
BROKEN = '[dut]\nkind = "ovs"\ndatapath = "none such"\n'


@pytest.mark.parametrize("study", ["quickstart", "bridge-scale", "full-nat"])
def test_the_form_of_a_shipped_file_makes_that_file_again(study):
    for path in sorted((SHIPPED / study).glob("*.toml")):
        if path.name != "study.toml":
            fields = form.fields_of(path.read_text(), path.name)
            made = form.text_of(form.shape_of(fields), fields)
            assert form.checked(made, path.stem)[1] == (), path


def test_listed_points_of_a_sweep_keep_the_keys_that_they_set():
    text = (SHIPPED / "quickstart" / "2-snat-255.toml").read_text()
    text += '\n[[sweep.point]]\nname = "small"\n"stream[1].flows" = 1\n\n[[sweep.point]]\nname = "many"\n'
    text += '"stream[1].flows" = 255\n'
    fields = form.fields_of(text, "mine.toml")
    sweep, problems = form.checked(form.text_of(form.shape_of(fields), fields), "mine")
    assert problems == () and len(sweep.scenarios) == 2


def test_headers_that_are_tables_and_lists_survive_the_form():
    fields = form.fields_of(LAYERS_EXAMPLE, "mine.toml")
    sweep, problems = form.checked(form.text_of(form.shape_of(fields), fields), "mine")
    assert problems == () and [stream.flows for stream in sweep.scenarios[0].streams] == [1000, 100_000, 9]


def test_a_file_that_a_form_cannot_hold_is_refused():
    with pytest.raises(InputError, match="cannot hold all of it"):
        form.fields_of("[other]\nx = 1\n", "mine.toml")


def test_a_study_is_checked_with_the_words_of_check(tmp_path):
    (tmp_path / "bad.toml").write_text(BROKEN)
    studies = Studies(lambda: {"mine": tmp_path}, HERE)
    shown = studies.checked("mine", (), quick=False)
    assert shown.groups == ("bad",) and any("bad.toml" in line and "datapath" in line for line in shown.problems)


@pytest.mark.parametrize("study", ["bridge-scale", "flow-rules"])
def test_a_study_takes_as_long_in_the_browser_as_on_the_terminal(study):
    shown = Studies(lambda: {study: SHIPPED / study}, HERE).checked(study, (), quick=False)
    assert (
        shown.length.partition("about ")[2] == program.of_study(SHIPPED / study).describe(HERE).partition("about ")[2]
    )


def test_a_study_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="no such study"):
        Studies(dict, HERE).checked("../quickstart", (), quick=False)
    with pytest.raises(InputError, match="no group"):
        Studies(lambda: {"quickstart": SHIPPED / "quickstart"}, HERE).text("quickstart", "../bridge-scale/rules")


def test_groups_of_a_study_are_started_as_one_would_type_it(tmp_path: Path):
    fields = {"study": "quickstart", "group-1-forward": "on", "quick": "on", "budget": "10m", "do": "start"}
    answer, said = answered(tmp_path, "study", **fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/started/quickstart")
    assert f"study run quickstart --out {tmp_path}/runs --quiet --only 1-forward --quick --budget 10m" in said()


@pytest.mark.parametrize("budget", ["1 h", "--help", "10", "m"])
def test_a_budget_that_is_no_time_starts_nothing(tmp_path: Path, budget):
    answer, _ = answered(tmp_path, "study", study="quickstart", budget=budget, do="start")
    assert answer.status_code == 404 and "is no time" in answer.text


def test_checking_a_study_starts_nothing(tmp_path: Path):
    answer, _ = answered(tmp_path, "study", study="quickstart", do="check")
    assert answer.status_code == 200 and "Nothing was built" in answer.text
    assert not (tmp_path / "runs" / "scenarios").exists()
