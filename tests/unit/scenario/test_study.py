"""Studies: what a folder's study.toml means, and what is said when it or its figures are wrong."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference.scenario import EXAMPLE, HOSTS_EXAMPLE, STUDY_EXAMPLE

from pinchpoint.model.errors import InputError
from pinchpoint.model.study import Conclusion, FindingRequest, Need, Published, PublishedPoint
from pinchpoint.scenario import load_study
from pinchpoint.scenario.sweep_keys import FINDING_KINDS

CSV = """\
factor,level,numa,streams,gbit_per_s
bridges,2,any,32,178.5
bridges,10,any,32,176
bridges,20,any,32,
bridges,2,same,32,120
ports,2,any,32,1
"""

CURVE = """\
[[published]]
group = "cascade"
metric = "goodput"
unit = "bit/s"
factor = "bridges"
title = "x"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    study = tmp_path / "rows"
    written(study)
    return study


def written(folder: Path, study: str = STUDY_EXAMPLE, figures: str = CSV) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(study)
    (folder / "cascade.toml").write_text(HOSTS_EXAMPLE)
    (folder / "snat.toml").write_text(EXAMPLE)
    (folder / "throughput.csv").write_text(figures)


def problems(folder: Path, study: str | None = None, quick: bool = False) -> list[str]:
    if study is not None:
        (folder / "study.toml").write_text(study)
    with pytest.raises(InputError) as error:
        load_study(folder, quick)
    return error.value.message.replace(f"{folder}/", "").split("\n")


def test_a_study_is_its_sweeps_published_curves_and_findings(folder: Path) -> None:
    study, (sweep,) = load_study(folder)
    assert (study.name, study.title, study.quick) == ("rows", "Bridges in a row", False)
    assert study.about == "What each further bridge costs, by NUMA placement."
    assert (sweep.group, len(sweep.scenarios), sweep.repeats) == ("cascade", 16, 7)
    assert study.findings == (FindingRequest("fall", "cascade", "goodput", "bridges", ""),)
    assert [(step.group, step.question) for step in study.steps] == [("cascade", "Is it the bridges?")]
    first, second = study.published
    assert first == Published(
        "cascade",
        "goodput",
        "bit/s",
        "bridges",
        "iperf 2, 32 streams",
        (
            PublishedPoint({"bridges": 2}, 178.5e9, "throughput.csv:2"),
            PublishedPoint({"bridges": 10}, 176e9, "throughput.csv:3"),
        ),
    )
    assert [(dict(point.levels), point.value) for point in second.points] == [
        ({"extra rules": 0, "bridges": 2}, 178e9),
        ({"extra rules": 500_000, "bridges": 2}, 177e9),
    ]


def test_each_published_figure_says_where_it_stands(folder: Path) -> None:
    study, _ = load_study(folder)
    line = STUDY_EXAMPLE.split("\n").index("points = [[0, 178e9], [500_000, 177e9]]") + 1
    assert [point.source for point in study.published[1].points] == [f"study.toml:{line}"] * 2


def test_a_conclusion_is_a_comparison_with_an_expected_outcome(folder: Path) -> None:
    study, _ = load_study(folder)
    request = FindingRequest("compare", "cascade", "goodput", "", "", {"bridges": 10}, {"bridges": 2})
    needs = {Need.KERNEL_DATAPATH: 1, Need.CPUS: 64}
    says = "Ten bridges carry what two carry."
    assert study.conclusions == (Conclusion(says, "throughput.csv", request, 0.95, 1.05, needs, None),)


def test_the_short_form_puts_its_values_over_the_files(folder: Path) -> None:
    study, (sweep,) = load_study(folder, quick=True)
    assert study.quick
    assert (len(sweep.scenarios), sweep.repeats) == (4, 2)
    assert {scenario.measure.duration_s for scenario in sweep.scenarios} == {1.0}


def test_the_short_form_changes_only_files_that_read_the_key(folder: Path) -> None:
    text = STUDY_EXAMPLE.replace('["cascade"]', '["snat", "cascade"]').replace(
        "[quick]", '[quick]\n"search.duration_sum_s" = 5\n"stream[1].frame_bytes" = 128'
    )
    (folder / "study.toml").write_text(text)
    _, (snat, cascade) = load_study(folder, quick=True)
    (scenario,) = snat.scenarios
    assert (scenario.search.duration_sum_s, scenario.streams[0].frame_bytes, snat.repeats) == (5.0, 128, 1)
    assert cascade.scenarios[0].streams == ()
    _, (snat, _) = load_study(folder)
    assert snat.scenarios[0].search.duration_sum_s == 21.0


def test_the_short_form_of_a_file_with_a_wrong_measure_is_refused(folder: Path) -> None:
    (folder / "snat.toml").write_text(f'measure = ["rates"]\n{EXAMPLE}\n[sweep]\nrepeats = 2\n')
    text = STUDY_EXAMPLE.replace('["cascade"]', '["snat", "cascade"]')
    lines = problems(folder, text.replace("[quick]", '[quick]\n"sweep.relative" = "alone"'), quick=True)
    assert any(line.startswith("snat.toml:1: measure: expected ") for line in lines), lines


def test_only_some_files_leave_out_what_rests_on_others(folder: Path) -> None:
    more = '[[finding]]\nkind = "compare"\ngroup = "snat"\nagainst = "cascade"\n[[finding]]\nkind = "limit"\n'
    (folder / "study.toml").write_text(STUDY_EXAMPLE.replace('["cascade"]', '["cascade", "snat"]') + more)
    study, (sweep,) = load_study(folder, only=("snat",))
    assert sweep.group == "snat"
    assert (study.published, [finding.kind for finding in study.findings]) == ((), ["limit"])
    assert (study.conclusions, study.steps) == ((), ())
    with pytest.raises(InputError, match="unknown scenario") as error:
        load_study(folder, only=("nat",))
    assert "cascade, snat" in str(error.value)


def test_every_kind_of_finding_can_be_asked_for() -> None:
    findings = pytest.importorskip("pinchpoint.findings.findings")
    assert set(findings.KINDS) == set(FINDING_KINDS)


def test_the_first_of_several_figures_counts_where_the_study_says_so(folder: Path) -> None:
    (folder / "throughput.csv").write_text(CSV + "bridges,2,any,32,1\n")
    assert "found 2 again in line 7 of throughput.csv" in problems(folder)[0]
    (folder / "study.toml").write_text(STUDY_EXAMPLE.replace('x = "level"', 'x = "level"\nfirst = true'))
    assert load_study(folder)[0].published[0].points[0].value == 178.5e9


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('["cascade"]', '["cascade", "none"]', "none.toml: No such file or directory"),
        ('["cascade"]', '["../cascade"]', "study.toml:4: scenarios: expected a list of different file names without"),
        ('["cascade"]', '["cascade", "cascade"]', "scenarios: expected a list of different file names"),
        ('scenarios = ["cascade"]', "", "scenarios: missing; expected"),
        ('"throughput.csv"', '"../throughput.csv"', "published[1].file: expected the name of a .csv file"),
        ('"throughput.csv"', '"/etc/passwd"', "published[1].file: expected the name of a .csv file"),
        ('"throughput.csv"', '"none.csv"', "none.csv: No such file or directory"),
        ('x = "level"', 'x = "levels"', 'expected one column "levels" in throughput.csv, found "factor", "level"'),
        ('x = "level"', "", "published[1].x: missing; expected the name of a column"),
        ('"any"', '"none"', "none of the 5 rows matches `where`"),
        ("times = 1e9", "times = 0", "published[1].times: expected a number from"),
        ('file = "throughput.csv"', "", 'published[1]: expected either "points" or "file"'),
        ("points = [[0, 178e9], [500_000, 177e9]]", "points = [[0, 1], [0, 2]]", "found 0 again"),
        ("points = [[0, 178e9], [500_000, 177e9]]", "points = [[0, nan]]", "expected a list of pairs [level, figure]"),
        ("levels = { bridges = 2 }", "levels = { ports = 2 }", "published[2].levels: expected a factor of cascade"),
        ("levels = { bridges = 2 }", 'levels = { "extra rules" = 2 }', "expected levels of other factors"),
        (
            'factor = "bridges"\ntitle',
            'factor = "bridge"\ntitle',
            'expected a factor of cascade (io, bridges, extra rules), found "bridge"; did you mean "bridges"?',
        ),
        (
            'group = "cascade"',
            'group = "cascades"',
            'expected one of the study\'s scenarios (cascade), found "cascades"; did you mean "cascade"?',
        ),
        ('kind = "fall"', 'kind = "fell"', 'finding[1].kind: expected "fall" or "knee"'),
        ('factor = "bridges"\n', 'factor = "bridge"\n', "expected a factor of cascade (io, bridges, extra rules)"),
        ('"sweep.repeats" = 2', '"sweep.repeat" = 2', "did you mean sweep.repeats?"),
        (
            '"sweep.repeats" = 2',
            '"stream[1].flows" = 2',
            "expected a key that one of the study's files reads; none does",
        ),
        (
            '"sweep.repeats" = 2',
            '"search.drain_s" = 2',
            "expected a key that one of the study's files reads; none does",
        ),
        (
            "under = { bridges = 2 }",
            "under = { ports = 2 }",
            "under: expected levels of factors of cascade (io, bridges,",
        ),
        ("under = { bridges = 2 }", "", "conclusion[1].under: missing; expected a table of numbers"),
        ("least = 0.95\nmost = 1.05", "", 'conclusion[1]: expected "least", "most" or both'),
        ("most = 1.05", "most = 0.9", "conclusion[1].most: expected a number from 0.95, which is `least`, found 0.9"),
        (
            "under = { bridges = 2 }",
            "under = { bridges = 3 }",
            "conclusion[1].under: expected a level of bridges (2, 10, 20, 50), found 3",
        ),
        (
            "most = 1.05",
            'most = 1.05\nagainst = "snat"',
            "conclusion[1].against: expected one of the study's scenarios",
        ),
        (
            "cpus = 64",
            "cpus = true",
            "study.toml:46: conclusion[1].needs: expected a table of cpus (a count), numa_nodes",
        ),
        ("kernel_datapath = true", "kernel_datapath = 1", "conclusion[1].needs: expected a table of cpus (a count)"),
        ("kernel_datapath = true", "gpu = true", "conclusion[1].needs: expected a table of cpus (a count)"),
        (
            'kind = "fall"',
            'kind = "fall"\nover = { bridges = 10 }\nunder = { bridges = 2 }',
            'finding[1].over: expected "over" and "under" together, of a finding of kind "compare"',
        ),
        (
            'kind = "fall"',
            'kind = "compare"\nover = { bridges = 10 }',
            'finding[1].over: expected "over" and "under" together, of a finding of kind "compare"',
        ),
        ("[quick]", "[quik]", "quik: unknown key; did you mean quick?"),
        ("[[finding]]", "[finding]", "finding: expected tables [[finding]]"),
    ],
)
def test_what_is_wrong_with_a_study_is_named(folder: Path, old: str, new: str, problem: str) -> None:
    assert old in STUDY_EXAMPLE
    problem_lines = problems(folder, STUDY_EXAMPLE.replace(old, new, 1), quick=False)
    assert any(problem in line for line in problem_lines), problem_lines


def test_a_value_of_the_short_form_that_is_wrong_names_where_it_stands(folder: Path) -> None:
    line = HOSTS_EXAMPLE.split("\n").index("duration_s = 10") + 1
    problem_lines = problems(
        folder, STUDY_EXAMPLE.replace('"sockets.duration_s" = 1', '"sockets.duration_s" = -1'), quick=True
    )
    assert problem_lines == [
        f"cascade.toml:{line}: sockets.duration_s: expected a number from 0.05 to 86,400, found -1 (from study.toml:7)"
    ]


def test_the_problems_of_all_files_are_told_at_once(folder: Path) -> None:
    (folder / "cascade.toml").write_text(HOSTS_EXAMPLE.replace('server = "bob"', 'server = "bobby"'))
    (folder / "snat.toml").write_text("x = 1\n")
    problem_lines = problems(
        folder, STUDY_EXAMPLE.replace('["cascade"]', '["cascade", "snat"]').replace('"fall"', '"a b"')
    )
    line = HOSTS_EXAMPLE.split("\n").index('server = "bob"') + 1
    for part in (
        "study.toml:32: finding[1].kind",
        f"cascade.toml:{line}: sockets.server",
        "snat.toml:1: x: unknown key",
    ):
        assert any(line.startswith(part) for line in problem_lines), problem_lines


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text(CSV)
    (folder / "throughput.csv").unlink()
    (folder / "throughput.csv").symlink_to(tmp_path / "secret.csv")
    assert "expected a file inside the study's folder" in problems(folder)[0]


@pytest.mark.parametrize(
    ("figures", "problem"),
    [
        ("", 'expected one column "factor" in throughput.csv, found none'),
        (CSV.replace("level,", "level,level,"), 'expected one column "level"'),
        (CSV + "bridges,50\n", "line 7 of throughput.csv: expected 5 values, found 2"),
        (CSV + "bridges,50,any,32,many\n", 'line 7 of throughput.csv: expected a number, found "many"'),
        (CSV + "bridges,50,any,32,nan\n", 'expected a number, found "nan"'),
        (CSV + "bridges,50,any,32,1e999\n", 'expected a number, found "1e999"'),
        (CSV + "bridges,50,any,32,\u0661\n", "expected a number, found"),
        (CSV + f"bridges,{'x' * 61},any,32,1\n", "expected a level: a number or one line of text"),
        (CSV + "bridges,\u001b[31m,any,32,1\n", "expected a level: a number or one line of text"),
        (CSV + f"bridges,{'9' * 20},any,32,1\n", ""),
        (CSV + '"' + "x" * 200_000, "throughput.csv:"),
        (CSV + '"', "throughput.csv: unexpected end of data"),
        ("a,\n" * 200_000, "expected one column"),
        (CSV + "bridges,2,same,32,1\n" * 100_001, "expected at most 1 MiB"),
        (CSV + "\n" * 100_001, "throughput.csv: expected at most 100,000 lines"),
    ],
    ids=lambda text: text[-20:],
)
def test_figures_that_cannot_be_read_are_named(folder: Path, figures: str, problem: str) -> None:
    (folder / "throughput.csv").write_text(figures)
    problem_lines = problems(folder)
    assert len(problem_lines) == 1
    assert problem_lines[0].startswith("study.toml:")
    assert problem_lines[0].isprintable()
    assert problem in problem_lines[0]


@given(
    st.integers(0, len(STUDY_EXAMPLE)),
    st.integers(0, 30),
    st.sampled_from(["-1", "[]", "{}", '"x"', "[["]) | st.text(max_size=8),
)
def test_any_damage_to_a_good_study_gives_a_study_or_an_input_error(at: int, cut: int, put: str) -> None:
    damaged = STUDY_EXAMPLE[:at] + put + STUDY_EXAMPLE[at + cut :]
    with tempfile.TemporaryDirectory() as name:
        try:
            written(Path(name), damaged.encode("utf-8", "replace").decode())
            load_study(Path(name), quick=True)
        except InputError as error:
            assert error.message.startswith(name)


@given(st.text(max_size=60) | st.text(alphabet='",\n\r\0x19e+-.', max_size=60))
@example("\r")
@example("\0")
def test_any_figures_give_a_study_or_an_input_error(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            written(Path(name), figures=CSV + text.encode("utf-8", "replace").decode())
            load_study(Path(name), quick=True)
        except InputError as error:
            assert all(line.isprintable() for line in error.message.split("\n"))
