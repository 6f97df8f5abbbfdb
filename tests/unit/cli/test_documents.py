"""The commands that the documents show are commands, with these options; their exit codes are those of the help."""

import re
import shlex
from pathlib import Path

import click
import pytest
from reference.manual import ENVIRONMENT, EXIT_CODES

from pinchpoint.cli.main import EPILOG, cli
from pinchpoint.cli.options import study_folders
from pinchpoint.host.processes import ENVIRONMENT_MARK

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(pinchpoint [^`]+)`")


def shown(text):
    """Every command line of pinchpoint in a document, without the comment behind it."""
    lines = [line.strip() for block in BLOCK.findall(text) for line in block.splitlines()]
    lines += [" ".join(command.split()) for command in INLINE.findall(BLOCK.sub("", text))]
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("pinchpoint ")]


def wrong(line):
    """What a command line has that there is not; empty if it is all there."""
    words = shlex.split(re.sub(r"[][|]", " ", line))[1:]
    command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            return f"no command {name}"
        command = command.commands[name]
    known = {"--help"} | {option for param in command.params for option in param.opts}
    return ", ".join(word for word in words if word.startswith("-") and word.partition("=")[0] not in known)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_a_document_shows_exists_with_its_options(path):
    assert {line: wrong(line) for line in shown(path.read_text()) if wrong(line)} == {}


def test_commands_are_found_and_what_is_not_there_is_noticed():
    text = "See `pinchpoint trend\nRUNS`.\n\n```\npinchpoint run FILE --quick  # short\nls\n```\n"
    assert shown(text) == ["pinchpoint run FILE --quick", "pinchpoint trend RUNS"]
    assert [wrong(line) for line in shown(text)] == ["", ""]
    assert wrong("pinchpoint rum FILE") == "no command rum"
    assert wrong("pinchpoint study run NAME [--quik | --only GROUP]") == "--quik"
    assert len(shown((ROOT / "README.md").read_text())) > 10


def test_exit_codes_of_the_help_are_those_of_the_table():
    codes = re.findall(r"^ {2,3}(\d+) ", EXIT_CODES, re.MULTILINE)
    table = (ROOT / "docs" / "results.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == codes
    assert len(codes) == 11
    assert sorted(re.findall(r"(\d+) [a-z]", EPILOG), key=int) == codes


def test_environment_variables_of_the_code_are_in_the_help_and_in_the_table():
    code = "".join(path.read_text() for path in (ROOT / "lab").rglob("*.py"))
    table = (ROOT / "docs" / "results.md").read_text().partition("## Environment variables")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert named == re.findall(r"^  ([A-Z_]{5,})  ", ENVIRONMENT, re.MULTILINE)
    read = set(re.findall(r'"(PINCHPOINT_[A-Z_]+)"', code)) - {ENVIRONMENT_MARK}
    assert read and read <= set(named)


@pytest.mark.parametrize("name", ["compare", "trend", "repeats"])
def test_pages_of_commands_with_codes_of_their_own_name_codes_of_the_table(name):
    table = (ROOT / "docs" / f"{name}.md").read_text().partition("| exit code |")[2].partition("\n\n")[0]
    codes = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    assert codes[:2] == ["0", "2"]
    assert set(codes) <= set(re.findall(r"^ {2,3}(\d+) ", EXIT_CODES, re.MULTILINE))


def test_every_study_that_readme_names_ships_and_no_number_of_them_is_told():
    text = (ROOT / "README.md").read_text()
    named = re.findall(
        r"^\| `([\w-]+)` \|", text.partition("| study | question |")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert len(named) > 3 and set(named) <= set(study_folders())
    assert not re.search(r"\b(\d+|five|six|seven|eight|nine|ten|eleven|twelve) studies\b", text)
