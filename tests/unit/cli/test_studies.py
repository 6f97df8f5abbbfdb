"""Studies and sweeps at the command line: found, told, estimated, completed."""

import re
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from support import served_text

from pinchpoint.cli import options
from pinchpoint.cli.main import cli, main
from pinchpoint.cli.options import duration, setting
from pinchpoint.cli.program import of_paths, of_study
from pinchpoint.dut.ovs.device import OvsDevice
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import InputError
from pinchpoint.run.budget import expected_s

REPOSITORY = Path(__file__).parents[3] / "studies"
QUICKSTART = REPOSITORY / "quickstart"
FACTOR = """
[sweep]
repeats = 2
[[sweep.factor]]
name = "five-tuples"
keys = ["stream[1].flows"]
levels = [1, 4, 16, 64, 128, 255]
quick = [1, 255]
"""

MACHINES = Machines(Local())


@pytest.fixture
def swept(tmp_path):
    """A sweep over a shipped scenario."""
    path = tmp_path / "swept.toml"
    path.write_text((options.study_folder("quickstart") / "2-snat-255.toml").read_text() + FACTOR)
    return path


@pytest.fixture
def mine(swept):
    """A study with one group that sweeps and one that does not."""
    (swept.parent / "plain.toml").write_text((options.study_folder("quickstart") / "1-forward.toml").read_text())
    text = 'title = "Mine"\nabout = "About it."\nsource = "their machine"\nscenarios = ["plain", "swept"]\n'
    (swept.parent / "study.toml").write_text(text)
    return swept.parent


def output(*arguments):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exception is None, result.exception
    return result.output


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("1h30m", 5400), ("2m5s", 125)])
def test_a_budget_is_a_time(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "0s", "-5m", "10 minutes", "1.5h", "s90"])
def test_what_is_no_time_is_refused_with_an_example(text, capsys):
    assert main(["run", "x.toml", "--budget", text]) == 2
    assert "such as 90s, 10m or 1h30m" in capsys.readouterr().err or text.startswith("-")


def test_a_plain_file_is_one_plain_scenario():
    program = of_paths([options.study_folder("quickstart") / "1-forward.toml"])
    assert program.plain
    assert program.infos == ()
    assert [unit.name for unit in program.units] == ["1-forward"]


def test_repeats_make_a_sweep_of_it():
    program = of_paths([options.study_folder("quickstart") / "1-forward.toml"]).repeated(3)
    assert not program.plain
    assert [unit.name for unit in program.units] == ["1-forward", "1-forward.r2", "1-forward.r3"]
    assert program.describe(MACHINES).startswith("1 point, 3 repeats each: 3 units, about ")


def test_a_sweep_has_its_levels_and_repeats_and_its_short_form_fewer(swept):
    full, quick = of_paths([swept]), of_paths([swept], quick=True)
    assert (len(full.units), len(quick.units)) == (12, 4)
    assert full.expected_s(MACHINES) > 2 * quick.expected_s(MACHINES)
    assert list(full.sources) == [str(swept)]


def test_the_short_full_nat_takes_less_than_a_quarter_of_an_hour_on_two_cpus():
    quick = of_study(REPOSITORY / "full-nat", quick=True)
    assert sum(expected_s(unit) for unit in quick.units if max(unit.dut.cpus) <= 1) < 900


def test_a_study_is_its_groups_or_those_asked_for(mine):
    assert [sweep.group for sweep in of_study(mine).sweeps] == ["plain", "swept"]
    assert [sweep.group for sweep in of_study(mine, only=["swept"]).sweeps] == ["swept"]
    assert of_paths([mine]) == of_study(mine), "a study's folder is a study to `run` as well"
    with pytest.raises(InputError, match="nope"):
        of_study(mine, only=["nope"])


def test_a_study_beside_other_files_is_refused(mine, swept):
    with pytest.raises(InputError, match="this is a study, not a scenario"):
        of_paths([mine, swept])


def test_a_folder_without_study_toml_is_a_study_of_its_files():
    quickstart = options.study_folder("quickstart")
    assert len(of_study(quickstart).units) == 3
    assert [unit.name for unit in of_study(quickstart, only=["2-snat-255"]).units] == ["2-snat-255"]
    with pytest.raises(InputError, match="no group nope") as error:
        of_study(quickstart, only=["nope"])
    assert "1-forward" in error.value.hint


def test_problems_of_all_files_are_told_at_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text("nonsense = 1\n")
    with pytest.raises(InputError) as error:
        of_paths([tmp_path])
    assert "a.toml:1" in str(error.value)
    assert "b.toml:1" in str(error.value)


def test_a_study_is_found_by_name_or_path_and_else_the_names_are_told(mine):
    assert options.study_folder("quickstart").name == "quickstart"
    assert options.study_folder(str(mine)) == mine
    with pytest.raises(InputError, match="no such study") as error:
        options.study_folder("quickstrat")
    assert error.value.hint.startswith("did you mean quickstart?")


def test_the_package_carries_the_studies():
    assert options._PACKAGED.resolve() == REPOSITORY.resolve()


@pytest.mark.tier1("command:study list")
def test_the_list_tells_title_source_points_and_times(monkeypatch, mine):
    monkeypatch.setattr(options, "study_folders", lambda: {"mine": mine, "quickstart": QUICKSTART})
    told = output("study", "list")
    assert "mine\n  Mine\n  reproduces: their machine\n  groups: plain, swept\n" in told
    assert "7 points in 2 groups, repeated: 13 units, about " in told
    assert "; --quick: 3 points in 2 groups" in told
    assert "quickstart\n  1-forward: Forwarding, one five-tuple\n  2-snat-255: Source NAT, 255 five-tuples\n" in told
    assert "changes nothing" not in told


def test_a_study_that_cannot_be_read_does_not_hide_the_others(monkeypatch, mine):
    (mine / "swept.toml").write_text("nonsense = 1\n")
    monkeypatch.setattr(options, "study_folders", lambda: {"mine": mine, "quickstart": QUICKSTART})
    told = output("study", "list")
    assert "cannot be read" in told
    assert "quickstart\n" in told


def test_check_tells_points_and_time_of_sweeps_and_studies(mine, swept):
    assert f"{swept}: ok. 6 points: five-tuples 1, 4, 16, 64, 128, 255, 2 repeats" in output("check", swept)
    told = output("check", mine)
    assert f"{mine / 'plain.toml'}: ok. 2 ports, 1 OpenFlow rules" in told
    assert "7 points in 2 groups, repeated: 13 units, about " in told
    assert "2 points: five-tuples 1, 255, 2 repeats" in output("check", swept, "--quick")


def test_check_takes_what_only_the_command_line_may_say(tmp_path, capsys):
    path = tmp_path / "xdp.toml"
    path.write_text(served_text("xdp", 'attach = "native"'))
    assert main(["check", str(path)]) == 2
    assert "without dut.object" in capsys.readouterr().err
    assert main(["check", str(path), "--set", "dut.object=/tmp/lb.o"]) == 0
    assert f"{path}: ok." in capsys.readouterr().out


def test_check_warns_of_cpus_that_this_machine_has_not(swept, monkeypatch, capsys):
    monkeypatch.setattr(Local, "cpus", lambda _: frozenset({0}))
    assert main(["check", str(swept)]) == 0
    told = "dut.pmd_cpus: CPU 1 cannot be used on this machine (usable: 0); change it or use --set 'dut.pmd_cpus=[0]'"
    assert f"{swept}: warning: {told}\n" in capsys.readouterr().err


def test_check_refuses_what_a_program_of_this_machine_refuses(swept, monkeypatch, capsys):
    monkeypatch.setattr(OvsDevice, "refused", lambda *_: iter(["x.toml:3: refused", "x.toml:4: refused"]))
    assert main(["check", str(swept)]) == 2
    told = capsys.readouterr().err
    assert "x.toml:3: refused\nx.toml:4: refused" in told
    assert "rule syntax: ovs-actions(7)" in told
    assert main(["check", "--json", str(swept)]) == 2
    assert '"x.toml:4: refused"' in capsys.readouterr().out


def test_a_dry_run_prints_the_plan_of_every_point_once(swept):
    told = output("run", swept, "--dry-run", "--quick", "-q")
    assert told.count(f"# {swept}: swept.five-tuples-") == 2
    assert "ovs-vswitchd" in told


def test_a_dry_run_says_which_points_are_impossible_and_goes_on(swept):
    path = swept.with_name("queues.toml")
    text = (options.study_folder("io-paths") / "queues.toml").read_text()
    path.write_text(text.replace("[0, 2]", "[0]").replace("[0, 2, 4, 6]", "[0]"))
    told = output("run", path, "--dry-run", "-q")
    assert told.count("\n# impossible: ") == 4
    assert "port left has 2 queues, but the engine has 1 CPU\n#     hint: list 2 CPUs in engine.cpus" in told
    points = [line for line in told.splitlines() if line.startswith(f"# {path}: ")]
    assert len(points) == 6


def test_only_is_refused_on_resuming(tmp_path, capsys):
    assert main(["study", "run", "--resume", str(tmp_path), "--only", "raw"]) == 2
    assert "--only applies to new runs only" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--quick"], ["--repeats", "2"], ["--budget", "10m"]])
def test_a_resumed_run_stays_what_it_was(tmp_path, options, capsys):
    assert main(["run", "--resume", str(tmp_path), *options]) == 2
    assert "apply to new runs only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "incomplete", "completions"),
    [
        (["study", "run"], "qui", ["quickstart"]),
        (["study", "run", "quickstart", "--only"], "", ["1-forward", "2-snat-255", "3-snat-65536"]),
        (["study", "run", "quickstart", "--only"], "1-forward,2", ["1-forward,2-snat-255"]),
        (["study", "run", "nowhere", "--only"], "", []),
        (["study"], "li", ["list"]),
    ],
)
def test_the_shell_completes_studies_and_groups(arguments, incomplete, completions):
    completion = ShellComplete(cli, {}, "pinchpoint", "_PINCHPOINT_COMPLETE")
    assert [item.value for item in completion.get_completions(arguments, incomplete)] == completions


def test_a_shipped_study_or_file_is_named_where_nothing_of_its_name_lies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert output("check", "quickstart").count(": ok.") == 3
    assert output("check", "quickstart/1-forward.toml").count(": ok.") == 1
    assert main(["run", "quikstart"]) == 2
    assert "did you mean the shipped study quickstart?" in capsys.readouterr().err
    assert main(["pilot", "quickstart", "--dry-run"]) == 2
    assert "is a directory" in capsys.readouterr().err
    (tmp_path / "quickstart").mkdir()
    assert main(["check", "quickstart"]) == 2
    assert "no scenario (*.toml) in this folder" in capsys.readouterr().err


def test_a_setting_takes_the_place_of_what_the_files_say(mine):
    program = of_study(mine, changes={"dut.pmd_cpus": [3]})
    assert {unit.dut.pmd_cpus for unit in program.units} == {(3,)}
    assert of_paths([mine], changes={"dut.pmd_cpus": [3]}) == program


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dut.pmd_cpu": [3]}, 'like "search.duration_sum_s"; did you mean dut.pmd_cpus?'),
        ({"sockets.client": "a"}, "sockets.client: expected a key that one of the study's files reads; none does"),
        ({"dut.pmd_cpus": ["x"]}, "expected a list of CPU numbers"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(mine, changes, words):
    with pytest.raises(InputError, match=re.escape(words)):
        of_study(mine, changes=changes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dut.datapath=af_xdp", ("dut.datapath", "af_xdp")),
        ("engine.cpus=[2, 3]", ("engine.cpus", [2, 3])),
        ("search.trial_duration_s = 0.5", ("search.trial_duration_s", 0.5)),
        ('dut.rules="actions=NORMAL"', ("dut.rules", "actions=NORMAL")),
        ("dut.smc=true", ("dut.smc", True)),
    ],
)
def test_settings_are_toml_and_bare_words_are_texts(text, expected):
    assert setting(text) == expected


@pytest.mark.parametrize("text", ["dut.datapath", "=3", "a=1\nb=2"])
def test_what_is_no_setting_is_refused(text):
    with pytest.raises(click.BadParameter, match="expected KEY=VALUE"):
        setting(text)


def test_a_short_form_that_is_the_long_one_is_said(swept, capsys):
    of_paths([swept], quick=True)
    assert capsys.readouterr().err == ""
    of_paths([options.study_folder("quickstart") / "1-forward.toml"], quick=True)
    assert "--quick changes nothing" in capsys.readouterr().err


def test_two_files_of_one_name_are_named_both(tmp_path):
    paths = [tmp_path / "x" / "1-forward.toml", tmp_path / "y" / "1-forward.toml"]
    for path in paths:
        path.parent.mkdir()
        path.write_text((options.study_folder("quickstart") / "1-forward.toml").read_text())
    with pytest.raises(InputError) as error:
        of_paths(paths)
    assert all(str(path) in str(error.value) for path in paths)


def test_what_there_is_one_of_is_not_many():
    (line,) = (line for line in output("check", options.study_folder("quickstart")).splitlines() if "1-forward" in line)
    assert "2 ports" in line and " 1 five-tuple," in line
