"""--help fits a screen, lists every command under a topic, and every command has its own."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pinchpoint.cli.main import TOPICS, cli, main

SCREEN_LINES = 50


def every(group, words=()):
    for name, command in group.commands.items():
        yield (*words, name)
        if isinstance(command, click.Group):
            yield from every(command, (*words, name))


def helped(words, columns):
    return CliRunner().invoke(cli, [*words, "--help"], terminal_width=columns).output


def test_the_commands_fit_a_screen_of_80_columns():
    lines = helped((), 80).splitlines()
    assert len(lines) <= SCREEN_LINES
    assert max(map(len, lines)) <= 80


def test_no_command_is_without_a_topic_nor_under_two():
    names = [command.name for commands in TOPICS.values() for command in commands]
    assert sorted(names) == sorted(cli.commands)


def test_no_short_help_is_cut_at_80_columns():
    assert "..." not in helped((), 80).partition("Options:")[2]


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("words", list(every(cli)), ids=" ".join)
def test_every_command_has_a_help_that_fits(words, columns):
    lines = helped(words, columns).splitlines()
    assert lines[0].startswith("Usage: ")
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize(
    ("words", "wrong", "hint"),
    [
        (["frob"], "No such command 'frob'", "pinchpoint --help"),
        (["comapre"], "No such command 'comapre'. Did you mean 'compare'?", "pinchpoint --help"),
        (["run", "no.toml"], "no.toml: no such file or folder", "pinchpoint run --help"),
        (
            ["run", "--quikc"],
            "No such option '--quikc'. (Did you mean one of: '--quick', '--quiet'?)",
            "pinchpoint run --help",
        ),
        (["check"], "Missing argument 'SCENARIO...'", "pinchpoint check --help"),
        (["show"], "Missing argument 'RUN'", "pinchpoint show @last takes the newest run, pinchpoint runs lists them"),
    ],
)
def test_a_wrong_command_line_ends_with_what_to_do(words, wrong, hint, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert wrong in said
    assert said.endswith(f"\n  hint: {hint}\n")


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 2
    assert "Begin:" in capsys.readouterr().err


SPEAKS_TO_PEOPLE = {"report", "serve", "otg", "clean", "init", "import", "completion", "study"}
FOR_PROGRAMS = {"export", "pack", "unpack", "mcp"}


def test_whatever_prints_findings_has_json():
    without = {words[0] for words in every(cli) if "--json" not in helped(words, 80)}
    assert without == SPEAKS_TO_PEOPLE | FOR_PROGRAMS


def test_check_prints_effective_values_for_machines(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    (answer,) = json.loads(CliRunner().invoke(cli, ["check", "studies/quickstart/1-forward.toml", "--json"]).output)
    assert answer["engine"]["memory_mb"] > 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_pinchpoint(shell):
    result = CliRunner().invoke(cli, ["completion", shell])
    assert f"_PINCHPOINT_COMPLETE={shell}_complete" in result.output


def test_no_help_shows_a_mark_of_its_own_source():
    assert not [words for words in every(cli) if "\\b" in helped(words, 80)]


def test_problems_are_printed_for_machines_as_well(tmp_path, capsys):
    (tmp_path / "a.toml").write_text("nonsense = 1\n")
    assert main(["check", "--json", str(tmp_path)]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["problems"][0].startswith(f"{tmp_path}/a.toml:1: ")
    assert main(["check", "--json", str(tmp_path / "absent.toml")]) == 2
    assert json.loads(capsys.readouterr().out)["problems"] == [f"{tmp_path}/absent.toml: No such file or directory"]


def test_a_pilot_prints_its_plan_and_stops(capsys):
    quickstart = Path(__file__).parents[3] / "studies" / "quickstart" / "1-forward.toml"
    assert main(["pilot", "--dry-run", str(quickstart)]) == 0
    assert " + mkdir " in capsys.readouterr().out


def test_a_watch_of_a_bench_that_is_gone_says_why(capsys, tmp_path):
    assert main(["watch", str(tmp_path / "run")]) == 2
    assert "is removed when its run ends" in capsys.readouterr().err
