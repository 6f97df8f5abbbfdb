"""Reading scenario files: what they mean, and what is said when they are wrong."""

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference.scenario import EXAMPLE

from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Range, Scenario
from pinchpoint.scenario import load, parse

QUICKSTART = Path(__file__).parents[3] / "studies" / "quickstart"

MINIMAL = '''\
[dut]
datapath = "dpdk"
pmd_cpus = [1]
rules = """
in_port={left},actions=output:{right}
"""
[[port]]
name = "left"
[[port]]
name = "right"
[[stream]]
from = "left"
to = "right"
'''


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as error:
        parse(text, "x.toml")
    return error.value.message.split("\n")


def with_line(after: str, line: str) -> str:
    """The minimal scenario with one line added, which then stands on the line after `after`."""
    assert after in MINIMAL
    return MINIMAL.replace(after, f"{after}\n{line}", 1)


def test_a_minimal_file_gets_every_default() -> None:
    scenario = parse(MINIMAL, "studies/small.toml")
    assert (scenario.name, scenario.title, scenario.path) == ("small", "small", "studies/small.toml")
    assert scenario.dut.datapath is Datapath.DPDK
    assert (scenario.dut.memory_mb, scenario.engine.memory_mb, scenario.engine.cpus) == (1024, 256, (0,))
    assert [port.ring for port in scenario.ports] == [1024, 1024]
    stream = scenario.streams[0]
    assert (stream.frame_bytes, stream.share, stream.flows) == (64, 1.0, 1)
    assert stream.order == ("ipv4_dst", "ipv4_src", "udp_dst", "udp_src")
    search = scenario.search
    assert (search.loss_ratios, search.duration_sum_s, search.exceed_ratio) == ((0.0, 0.005), 21.0, 0.5)
    assert (search.relative_width, search.min_load_fps, search.max_load_fps) == (0.01, 10_000, 20e6)
    assert (scenario.measure.at, scenario.measure.duration_s) == ((0.5, 0.9), 2.0)


def test_keys_left_to_their_default_are_named() -> None:
    scenario = parse(with_line("[[stream]]", "share = 2"), "x.toml")
    assert "search.trial_duration_s" in scenario.defaulted
    assert "stream[1].flows" in scenario.defaulted
    assert "stream[1].share" not in scenario.defaulted
    assert "dut.pmd_cpus" not in scenario.defaulted


def test_rules_keep_their_line_and_skip_comments_and_blank_lines() -> None:
    text = MINIMAL.replace("in_port={left}", "# a comment\n\n  table=0,actions=drop\nin_port={left}", 1)
    rules = parse(text, "x.toml").dut.bridges[0].rules
    assert [(rule.text, rule.line) for rule in rules] == [
        ("table=0,actions=drop", 7),
        ("in_port={left},actions=output:{right}", 8),
    ]


DUMPED = """\
NXST_FLOW reply (xid=0x4):
 cookie=0x0, duration=8123.120s, table=0, n_packets=1822, idle_age=3, priority=100,ip,in_port=1 actions=ACTION
 cookie=0x0, duration=8123.120s, table=10, n_packets=1822, n_bytes=109320, hard_age=65534, actions=drop
OFPST_FLOW reply (OF1.3) (xid=0x2):
 cookie=0x0, duration=1.2s, table=11, n_packets=0, n_bytes=0, priority=0 actions=output:2
"""


def dumped(action: str) -> str:
    return MINIMAL.replace("in_port={left},actions=output:{right}\n", DUMPED.replace("ACTION", action))


def test_rules_pasted_from_a_dump_lose_heading_and_counters_and_keep_their_line() -> None:
    rules = parse(dumped("resubmit(,10)"), "x.toml").dut.bridges[0].rules
    assert [(rule.text, rule.line) for rule in rules] == [
        ("cookie=0x0, table=0, priority=100,ip,in_port=1 actions=resubmit(,10)", 6),
        ("cookie=0x0, table=10, actions=drop", 7),
        ("cookie=0x0, table=11, priority=0 actions=output:2", 9),
    ]


def test_meters_and_groups_that_nothing_makes_are_refused_with_their_line() -> None:
    assert problems(dumped("meter:1,group:7")) == [
        "x.toml:6: dut.rules: group:7: there is no group 7; its bridge's key groups makes them",
        "x.toml:6: dut.rules: meter:1: there is no meter 1; its bridge's key meters makes them",
    ]


def test_meters_and_groups_are_read_as_the_switch_dumps_them() -> None:
    meters = 'meters = """\nOFPST_METER_CONFIG reply (OF1.3) (xid=0x2):\nmeter=1 pktps bands=\ntype=drop rate=1000\n"""'
    groups = 'groups = """\nOFPST_GROUP_DESC reply (OF1.5) (xid=0x2):\n group_id=7,type=all,bucket=output:{right}\n"""'
    text = dumped("meter:1,group:7").replace("[[port]]", f"{meters}\n{groups}\n[[port]]", 1)
    (bridge,) = parse(text, "x.toml").dut.bridges
    assert [(meter.text, meter.line) for meter in bridge.meters] == [("meter=1 pktps bands= type=drop rate=1000", 13)]
    assert [group.text for group in bridge.groups] == ["group_id=7,type=all,bucket=output:{right}"]
    assert len(bridge.rules) == 3


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('meters = "pktps,band=type=drop,rate=1"', "dut.meters: expected a meter with its number (meter=...)"),
        ('meters = "meter=1,a\\nmeter=1,b"', "dut.meters: expected each meter once, found meter:1 again"),
        ('groups = "group_id=1,type=all,bucket=output:{nobody}"', "dut.groups: {nobody} is unknown"),
    ],
)
def test_wrong_meters_and_groups_are_told(line: str, problem: str) -> None:
    (told,) = problems(with_line("[dut]", line))
    assert problem in told


def test_ranges_that_advance_together_repeat_after_the_least_common_multiple() -> None:
    ranges = 'ipv4_src = "16.0.0.1-16.0.0.4"\nudp_dst = "10-15"\n'
    (stream,) = parse(f"{MINIMAL}{ranges}together = true\n", "x.toml").streams
    assert (stream.together, stream.flows) == (True, 12)
    (said,) = problems(f"{MINIMAL}{ranges}together = true\nflows = 24\n")
    assert "expected at most 12, the least common multiple of the lengths of the four ranges, found 24" in said


def test_ranges_and_flows_are_read() -> None:
    lines = 'ipv4_src = "16.0.0.1-16.0.0.255"\nudp_dst = "10-12"\nudp_src = 7\norder = ["udp_dst"]'
    stream = parse(with_line("[[stream]]", lines), "x.toml").streams[0]
    assert stream.ipv4_src == Range(0x10000001, 255)
    assert stream.udp_dst == Range(10, 3)
    assert stream.udp_src == Range(7, 1)
    assert stream.order[0] == "udp_dst"
    assert sorted(stream.order) == ["ipv4_dst", "ipv4_src", "udp_dst", "udp_src"]
    assert stream.flows == 255 * 3


def test_switch_settings_become_the_texts_that_the_switch_reads() -> None:
    line = 'other_config = { tx-flush-interval = 1, pmd-perf-metrics = true, x = "y" }'
    config = parse(with_line("[dut]", line), "x.toml").dut.other_config
    assert config == {"tx-flush-interval": "1", "pmd-perf-metrics": "true", "x": "y"}


@pytest.mark.parametrize(
    ("after", "line", "problem"),
    [
        (
            "[dut]",
            "memory_mb = 12",
            "x.toml:2: dut.memory_mb: expected a whole number from 64 to 1,048,576, found 12",
        ),
        ('to = "right"', "[search]\nmax_repeats = true", "x.toml:15: search.max_repeats: expected a whole number"),
        ("[dut]", "memory_mb = 1e3", "found 1000.0"),
        ("[dut]", 'kind = "testpdm"', 'found "testpdm"; did you mean "testpmd"?'),
        ('to = "right"', '[search]\nmethod = "treshold"', 'found "treshold"; did you mean "threshold"?'),
        ("[dut]", "memory = 12", "x.toml:2: dut.memory: unknown key; did you mean memory_mb?"),
        ("[dut]", "max_repeats = 1", "dut.max_repeats: unknown key; did you mean search.max_repeats?"),
        (
            'to = "right"',
            "[validity]\nunexplained_frames = 64",
            "x.toml:15: validity.unexplained_frames: this key was removed; write unexplained_ratio, a share of",
        ),
        (
            "[dut]",
            'other_config = { dpdk-extra = "-d x.so" }',
            "x.toml:2: dut.other_config: expected no dpdk-extra",
        ),
        ("[dut]", "other_config = { a = 1.5 }", "expected a table of texts, whole numbers and true or false"),
        (
            'name = "left"',
            "ring = 100",
            "x.toml:9: port[1].ring: expected a power of two from 64 to 32,768, found 100",
        ),
        ('name = "left"', "ring = 65536", "found 65536"),
        ("[[stream]]", "frame_bytes = 1519", "x.toml:12: stream[1].frame_bytes: expected at most 1,518"),
        (
            "[[stream]]",
            "frame_bytes = 63",
            "x.toml:12: stream[1].frame_bytes: expected a whole number from 64",
        ),
        ("[[stream]]", "share = nan", "stream[1].share: expected a number from 0.001 to 1,000, found nan"),
        ("[[stream]]", "share = inf", "found inf"),
        ("[[stream]]", 'eth_src = "01:00:00:00:00:01"', "expected a unicast Ethernet address"),
        ("[[stream]]", 'eth_dst = "02:00:00:00:00"', "expected an Ethernet address like"),
        ("[[stream]]", 'ipv4_src = "16.0.0.9-16.0.0.1"', "the last not below the first"),
        ("[[stream]]", 'ipv4_src = "16.0.0.256"', "stream[1].ipv4_src: expected"),
        ("[[stream]]", 'udp_src = "5-4"', "stream[1].udp_src: expected"),
        ("[[stream]]", "udp_src = 65536", "stream[1].udp_src: expected"),
        (
            "[[stream]]",
            'order = ["udp_dst", "udp_dst"]',
            "stream[1].order: expected a list of different names",
        ),
        (
            "[[stream]]",
            "flows = 2",
            "stream[1].flows: expected at most 1, the product of the four ranges, found 2",
        ),
        (
            "[[stream]]",
            'ipv4_src = "16.0.0.0-17.0.255.255"',
            "stream[1].flows: missing; the ranges make 16,842,752 five-tuples",
        ),
        (
            'to = "right"',
            "[engine]\ncpus = [1]",
            "engine.cpus: expected CPUs other than dut.pmd_cpus, found 1 in both",
        ),
        (
            'to = "right"',
            "[engine]\ncpus = []",
            "x.toml:15: engine.cpus: expected a list of CPU numbers, found []",
        ),
        (
            'to = "right"',
            "[search]\nmin_load_fps = 30e6",
            "search.max_load_fps: expected more than search.min_load_fps",
        ),
        (
            'to = "right"',
            "[search]\nduration_sum_s = 0.5",
            "x.toml:15: search.duration_sum_s: expected at least",
        ),
        (
            'to = "right"',
            "[search]\ninitial_trial_duration_s = 2",
            "search.initial_trial_duration_s: expected at most",
        ),
        ('to = "right"', "[search]\npreceding_targets = 0", "search.preceding_targets: expected 1 or more"),
        ('to = "right"', "[search]\nexceed_ratio = 1", "expected a number from 0 to below 1, found 1"),
        ('to = "right"', "[search]\nloss_ratios = [0, 0.0]", "expected a list of different numbers"),
        ('to = "right"', "[searhc]\nx = 1", "x.toml:14: searhc: unknown key; did you mean search?"),
        ('to = "right"', "[[validity]]", "x.toml:14: validity: expected a table [validity], found [a table]"),
        ('to = "right"', "[[dut.rule_series]]\ncount = 1", "dut.rule_series[1].rule: missing"),
        (
            "[dut]",
            "rule_series = 3",
            "x.toml:2: dut.rule_series: expected tables [[dut.rule_series]], found 3",
        ),
    ],
)
def test_a_wrong_value_is_named_with_line_key_and_what_was_expected(after: str, line: str, problem: str) -> None:
    problem_lines = problems(with_line(after, line))
    assert len(problem_lines) == 1
    assert problem in problem_lines[0]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            'to = "right"',
            'to = "rihgt"',
            'x.toml:13: stream[1].to: expected the name of a [[port]] (left, right), found "rihgt"',
        ),
        ('to = "right"', 'to = "left"', 'stream[1].to: expected a port other than "from"'),
        ('to = "right"', "", "x.toml:11: stream[1].to: missing; expected 1 to 10 letters"),
        (
            "pmd_cpus = [1]",
            'pmd_cpus = "1"',
            'x.toml:3: dut.pmd_cpus: expected a list of CPU numbers, found "1"',
        ),
        ("pmd_cpus = [1]", "pmd_cpus = [1, 1]", "x.toml:3: dut.pmd_cpus: expected a list of CPU numbers"),
        (
            "output:{right}",
            "output:{rite}",
            "x.toml:5: dut.rules: {rite} is unknown; known here: {left}, {right}",
        ),
        ("output:{right}", "output:{i}", "x.toml:5: dut.rules: {i} is unknown"),
        ("output:{right}", "output:{right", "x.toml:5: dut.rules: a brace without its partner"),
        (
            "output:{right}",
            "output:{right}\\u0007",
            "x.toml:5: dut.rules: expected text without control characters",
        ),
        ("in_port={left},actions=output:{right}", "", "dut.rules: expected at least one rule"),
        (
            'name = "right"',
            'name = "left"',
            'x.toml:10: port[2].name: expected a unique name, found "left" again',
        ),
    ],
)
def test_a_broken_reference_is_named(old: str, new: str, problem: str) -> None:
    assert any(problem in line for line in problems(MINIMAL.replace(old, new, 1)))


def test_all_problems_are_listed_in_the_order_of_their_lines() -> None:
    problem_lines = problems('titel = 1\n[dut]\ndatapath = "x"\npmd_cpus = 1\nrules = 5\n[[port]]\nname = "-"\n')
    assert [int(line.split(":")[1]) for line in problem_lines] == sorted(
        int(line.split(":")[1]) for line in problem_lines
    )
    for part in (
        "titel",
        "dut.datapath",
        "dut.pmd_cpus",
        "dut.rules",
        "port[1].name",
        "at least 2",
        "[[stream]]",
    ):
        assert any(part in line for line in problem_lines), part


def test_a_long_list_of_problems_is_cut_and_counted() -> None:
    problem_lines = problems("".join(f"key{number} = 1\n" for number in range(500)))
    assert len(problem_lines) == 101
    assert problem_lines[-1] == "and 403 more problems"  # 500 keys, and [dut], ports and streams are missing


def test_toml_errors_carry_their_line() -> None:
    assert problems("[dut]\nx = = 1\n") == ["x.toml:2: TOML syntax: Invalid value"]
    assert problems('[dut]\nx = "a\ny = 1\n') == ["x.toml:2: TOML syntax: expected a quote at the end of the text"]
    assert problems('a = """\n\n')[0].startswith("x.toml:3: TOML syntax:")


def test_nothing_unprintable_reaches_the_terminal() -> None:
    for line in problems('"\\u001b[31m" = 1\n[dut]\ndatapath = "\\u001b[31m\\u202e"\n'):
        assert line.isprintable()


@pytest.mark.parametrize(
    "hostile",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 100_000,
        "a = " + "9" * 5000,
        "[dut]\nmemory_mb = 0x" + "f" * 5000,
        "[dut]\nmemory_mb = " + "9" * 4000,
        "[[stream]]\nshare = " + "9" * 4000,
        "[dut]\nother_config = { a = 0x" + "f" * 5000 + " }",
        ".".join("a" * 200_000) + " = 1",
        "[" + '."a"'.join(["b"] * 100_000) + "]",
        "a" * 1_000_000,
        '"' * 1_000_000,
        "[[port]]\n" * 100_000,
        "[[stream]]\n" * 90_000,
        "x" * (1 << 20) + "yz",
        "[dut.rules]\n[dut.rules.a]\n[search.at]",
        "dut = [1, 2]\nport = [1]\nstream = { a = 1 }\nsearch = 1979-05-27",
    ],
    ids=lambda text: f"{text[:12]!r}...{len(text)}",
)
def test_hostile_files_are_refused_quickly(hostile: str) -> None:
    start = time.process_time()
    assert all(line.startswith("x.toml:") for line in problems(hostile)[:100])
    assert time.process_time() - start < 10


@given(st.text())
@example("\ud800 = 1")
@example("a = '\ud800'")
def test_any_text_gives_a_scenario_or_an_input_error(text: str) -> None:
    try:
        assert isinstance(parse(text, "x.toml"), Scenario)
    except InputError as error:
        assert all(line.isprintable() for line in error.message.split("\n"))


FRAGMENTS = st.sampled_from(
    [
        "-1",
        "0",
        "nan",
        "[]",
        "[[]]",
        "{}",
        '"x"',
        "true",
        "1e400",
        "0x" + "f" * 40,
        "1979-05-27",
        "\n[[",
        '"""',
        "{",
        "}",
    ]
)


@given(st.integers(0, len(EXAMPLE)), st.integers(0, 30), FRAGMENTS | st.text(max_size=8))
def test_any_damage_to_a_good_file_gives_a_scenario_or_an_input_error(at: int, cut: int, put: str) -> None:
    try:
        assert isinstance(parse(EXAMPLE[:at] + put + EXAMPLE[at + cut :], "x.toml"), Scenario)
    except InputError as error:
        assert error.message.startswith("x.toml:")


VALUE_LINES = [number for number, line in enumerate(EXAMPLE.split("\n")) if " = " in line and '"""' not in line]


@given(st.sampled_from(VALUE_LINES), FRAGMENTS)
def test_any_value_of_the_wrong_type_gives_a_scenario_or_an_input_error(number: int, value: str) -> None:
    lines = EXAMPLE.split("\n")
    lines[number] = lines[number].split(" = ")[0] + " = " + value
    try:
        assert isinstance(parse("\n".join(lines), "x.toml"), Scenario)
    except InputError as error:
        assert error.message.startswith("x.toml:")


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    with pytest.raises(InputError, match="No such file"):
        load(missing)
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"title = 'x'\n# \xff\n")
    with pytest.raises(InputError, match=r"bad\.toml:2: expected UTF-8 text, found byte 0xff"):
        load(bad)
    bad.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(InputError, match="at most 1 MiB"):
        load(bad)


def test_the_quickstart_study_has_the_published_five_tuples() -> None:
    forward, few, many = (load(path) for path in sorted(QUICKSTART.glob("*.toml")))
    assert [scenario.streams[0].flows for scenario in (forward, few, many)] == [1, 255, 65_536]
    assert few.streams[0].ipv4_dst.as_addresses() == "48.0.0.1-48.0.255.255"
    assert few.streams[0].ipv4_src.as_addresses() == "16.0.0.1-16.0.0.255"
    assert few.streams[0].order[:2] == ("ipv4_dst", "ipv4_src")
    assert few.dut == many.dut or [rule.text for rule in few.dut.bridges[0].rules] == [
        rule.text for rule in many.dut.bridges[0].rules
    ]
    assert few.search == many.search == forward.search


def test_the_engine_may_have_as_many_cpus_as_there_are_ports() -> None:
    assert parse(with_line('to = "right"', "[engine]\ncpus = [2, 0]"), "x.toml").engine.cpus == (2, 0)
    (problem,) = problems(with_line('to = "right"', "[engine]\ncpus = [0, 2, 3]"))
    assert problem.endswith("engine.cpus: expected at most 2, one CPU for each [[port]]; found 3 (0, 2, 3)")


@pytest.mark.parametrize(
    ("after", "line", "problem"),
    [
        ('to = "right"', "[search]\nloss_ratios = [0.005]", "search.loss_ratios: expected 0 (the NDR) among them"),
        ("[[port]]", 'name = "br0"\n[[port]]', "port[1].name: expected a different name"),
    ],
)
def test_what_would_fail_only_later_is_refused_now(after: str, line: str, problem: str) -> None:
    assert any(problem in shown for shown in problems(with_line(after, line)))


@pytest.mark.parametrize("path", ["a b.toml", "\u00fc.toml", "-x.toml", "x" * 65 + ".toml"])
def test_a_file_name_that_cannot_name_trials_and_files_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="expected a file name"):
        parse(MINIMAL, path)
