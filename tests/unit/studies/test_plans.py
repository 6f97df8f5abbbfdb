"""What `--dry-run` says of every shipped scenario, on a machine that is the same everywhere."""

import pytest
from reference.plans import STORED, STUDIES, plans

from pinchpoint.host.local import Local

FOLDERS = sorted(path.name for path in STUDIES.iterdir() if path.is_dir())


@pytest.mark.parametrize("name", FOLDERS)
def test_the_plans_of_shipped_scenarios_are_those_that_are_stored(name):
    stored = STORED / f"{name}.txt"
    assert stored.read_text() == plans(STUDIES / name), "run: python packaging/reference/plans.py"


def test_a_plan_depends_on_nothing_of_this_machine(monkeypatch):
    before = plans(STUDIES / "quickstart")
    monkeypatch.setattr(Local, "cpus", lambda self: frozenset({0}))
    monkeypatch.setattr(Local, "release", lambda self: "0.1")
    assert plans(STUDIES / "quickstart") == before


def test_every_stored_plan_is_of_a_folder_that_is_there():
    assert sorted(path.stem for path in STORED.glob("*.txt")) == FOLDERS
