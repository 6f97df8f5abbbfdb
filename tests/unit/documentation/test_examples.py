"""What the documents show as examples is what the programs accept: scenarios, and commands that need no bench."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinchpoint.cli.main import cli
from pinchpoint.scenario import load_sweep

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
STUDY_KEYS = {"scenarios", "published", "finding"}  # of a study.toml, which names files beside it
ONLY_LOOKS = ("pinchpoint check studies/", "pinchpoint study list", "pinchpoint completion ", "pinchpoint --help")


def blocks(kind):
    for path in DOCUMENTS:
        for block in BLOCK.finditer(path.read_text()):
            if block[1] == kind:
                line = path.read_text().count("\n", 0, block.start()) + 1
                yield pytest.param(block[2], id=f"{path.name}:{line}")


SCENARIOS = [block for block in blocks("toml") if not STUDY_KEYS & tomllib.loads(block.values[0]).keys()]


@pytest.mark.parametrize("text", SCENARIOS)
def test_every_scenario_that_a_document_shows_passes_check(text, tmp_path):
    path = tmp_path / "example.toml"
    path.write_text(text)
    assert load_sweep(path).scenarios


DEVICE = (ROOT / "lab/pinchpoint/dut/redirect/__init__.py").read_text()


@pytest.mark.parametrize("code", [block for block in blocks("python") if block.id.startswith("adding-a-device")])
def test_the_code_that_the_page_on_devices_shows_is_that_of_its_device(code):
    assert code in DEVICE


def test_the_device_and_the_page_on_devices_stay_short():
    assert len(DEVICE.splitlines()) <= 200
    assert len((ROOT / "docs/adding-a-device.md").read_text().split()) <= 1200


def looking():
    commands = {line.partition(" #")[0].strip() for block in blocks("console") for line in block.values[0].splitlines()}
    return sorted(line for line in commands if line.startswith(ONLY_LOOKS) or line == "pinchpoint study list")


@pytest.mark.parametrize("line", [*looking(), "pinchpoint check studies/quickstart"])
def test_commands_that_only_look_do_what_a_document_says(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(cli, shlex.split(line)[1:], standalone_mode=False)
    assert result.exception is None and not result.return_value
