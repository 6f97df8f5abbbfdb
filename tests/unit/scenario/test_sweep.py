"""Sweeps: which scenarios a file makes, what they are called, and what is said when a level is wrong."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.scenario import EXAMPLE, HOSTS_EXAMPLE

from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.keys.source import Source
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Sweep
from pinchpoint.scenario import load, load_sweep, parse
from pinchpoint.scenario.sweep import sweep_of

BASE = """\
title = "Rules"
[dut]
datapath = "dpdk"
pmd_cpus = [1]
rules = "actions=output:{right}"
[[dut.rule_series]]
rule = "tp_dst={u16:1},actions=drop"
count = 1
[[port]]
name = "left"
[[port]]
name = "right"
[[stream]]
from = "left"
to = "right"
ipv4_dst = "10.0.0.0-10.0.255.255"
"""

FACTORS = """\
[sweep]
repeats = 3
order = "random"
seed = 9
[[sweep.factor]]
name = "five-tuples"
keys = ["stream[1].flows"]
levels = [1, 512, 65536]
quick = [512]
falling = true
[[sweep.factor]]
name = "rules"
unit = "rules"
keys = ["dut.rule_series[1].count"]
levels = [0, 500]
"""

POINTS = """\
[sweep]
point_name = "io"
[[sweep.point]]
name = "vhost-user"
[[sweep.point]]
name = "AF_PACKET"
quick = false
"dut.datapath" = "af_packet"
"dut.other_config" = { a = 1 }
"port[2].ring" = 64
"""


def swept(text: str, quick: bool = False) -> Sweep:
    return sweep_of(Source(text, "runs/x.toml"), quick)


def problems(text: str, quick: bool = False) -> list[str]:
    with pytest.raises(InputError) as error:
        swept(text, quick)
    return error.value.message.split("\n")


def factor(name: str, keys: str, levels: str) -> str:
    return f'[[sweep.factor]]\nname = "{name}"\nkeys = [{keys}]\nlevels = [{levels}]\n'


def test_every_combination_of_levels_is_a_scenario_the_first_factor_slowest() -> None:
    sweep = swept(BASE + FACTORS)
    assert [
        (scenario.streams[0].flows, scenario.dut.bridges[0].rule_series[0].count) for scenario in sweep.scenarios
    ] == [
        (1, 0),
        (1, 500),
        (512, 0),
        (512, 500),
        (65536, 0),
        (65536, 500),
    ]
    assert (sweep.group, sweep.title, sweep.repeats, sweep.order, sweep.seed) == ("x", "Rules", 3, "random", 9)
    assert [(factor.name, factor.unit, factor.levels, factor.falling) for factor in sweep.factors] == [
        ("five-tuples", "", (1, 512, 65536), True),
        ("rules", "rules", (0, 500), False),
    ]
    assert [factor.keys for factor in sweep.factors] == [("stream[1].flows",), ("dut.rule_series[1].count",)]


def test_a_scenario_is_named_after_its_file_and_levels_and_keeps_the_title() -> None:
    last = swept(BASE + FACTORS).scenarios[-1]
    assert last.name == "x.five-tuples-65536.rules-500"
    assert (last.title, last.path) == ("Rules", "runs/x.toml")
    assert (last.point.group, dict(last.point.levels), last.point.repeat) == (
        "x",
        {"five-tuples": 65536, "rules": 500},
        1,
    )


def test_the_short_form_has_levels_of_its_own() -> None:
    sweep = swept(BASE + FACTORS, quick=True)
    assert sweep.factors[0].levels == (512,)
    assert [scenario.name for scenario in sweep.scenarios] == [
        "x.five-tuples-512.rules-0",
        "x.five-tuples-512.rules-500",
    ]


def test_listed_points_set_any_keys_and_are_one_factor() -> None:
    first, second = swept(BASE + POINTS).scenarios
    assert (first.dut.datapath, second.dut.datapath) == (Datapath.DPDK, Datapath.AF_PACKET)
    assert (second.ports[1].ring, second.dut.other_config, second.name) == (64, {"a": "1"}, "x.io-AF_PACKET")
    assert dict(second.point.levels) == {"io": "AF_PACKET"}
    assert [scenario.name for scenario in swept(BASE + POINTS, quick=True).scenarios] == ["x.io-vhost-user"]
    assert swept(BASE + POINTS).factors[0].keys == ("dut.datapath", "dut.other_config", "port[2].ring")


def test_a_point_without_changes_is_the_file_itself() -> None:
    plain, point = parse(BASE, "runs/x.toml"), swept(BASE + POINTS).scenarios[0]
    assert (point.dut, point.ports, point.streams, point.defaulted) == (
        plain.dut,
        plain.ports,
        plain.streams,
        plain.defaulted,
    )


def test_points_and_factors_are_combined() -> None:
    more = factor("flows", '"stream[1].flows"', "1, 2")
    assert [scenario.name for scenario in swept(BASE + POINTS + more).scenarios] == [
        "x.io-vhost-user.flows-1",
        "x.io-vhost-user.flows-2",
        "x.io-AF_PACKET.flows-1",
        "x.io-AF_PACKET.flows-2",
    ]


def test_a_level_is_set_on_every_key_of_its_factor_also_where_no_table_was_written() -> None:
    text = BASE + factor("size", '"engine.memory_mb", "port[1].ring", "port[2].ring"', "64, 128")
    assert [
        (scenario.engine.memory_mb, [port.ring for port in scenario.ports], "engine.memory_mb" in scenario.defaulted)
        for scenario in swept(text).scenarios
    ] == [(64, [64, 64], False), (128, [128, 128], False)]


def test_one_setting_of_the_switch_can_be_a_factor() -> None:
    text = BASE + factor("interval", '"dut.other_config.tx-flush-interval"', "0, 50")
    assert [scenario.dut.other_config for scenario in swept(text).scenarios] == [
        {"tx-flush-interval": "0"},
        {"tx-flush-interval": "50"},
    ]


def test_names_are_safe_unique_and_short() -> None:
    levels = ", ".join(f'"{character * 60}"' for character in ("a b", "a/b", "\u00fc"))
    text = BASE + factor(
        "name of a level", '"dut.other_config.x"', levels.replace("a b" * 60, "a b").replace("a/b" * 60, "a/b")
    )
    names = [scenario.name for scenario in swept(text).scenarios]
    assert names[:2] == ["x.name-of-a-level-a-b", "x.name-of-a-level-a-b-2"]
    assert len(set(names)) == 3
    long = BASE + "".join(
        factor(f"{'n' * 38}{k}", f'"dut.other_config.k{k}"', f'"{"v" * 59}1", "{"v" * 59}2"') for k in "ab"
    )
    names = [scenario.name for scenario in swept(long).scenarios]
    assert len(set(names)) == 4
    assert all(len(name) <= 120 for name in names)


def test_a_file_without_sweep_is_one_scenario(tmp_path: Path) -> None:
    path = tmp_path / "plain.toml"
    path.write_text(BASE)
    sweep = load_sweep(path)
    assert sweep.scenarios == (load(path),)
    assert (sweep.group, sweep.factors, sweep.repeats, sweep.order) == ("plain", (), 1, "interleaved")


def test_a_file_with_sweep_is_not_one_scenario(tmp_path: Path) -> None:
    path = tmp_path / "many.toml"
    path.write_text(BASE + FACTORS)
    with pytest.raises(InputError, match=r"many.toml:17: sweep: expected a file without \[sweep\]"):
        load(path)


def test_changes_replace_what_the_file_says_before_it_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(BASE + FACTORS)
    sweep = load_sweep(
        path, quick=True, changes={"search.max_repeats": 0, "sweep.repeats": 1, "sweep.factor[2].levels": [7]}
    )
    assert [scenario.name for scenario in sweep.scenarios] == ["x.five-tuples-512.rules-7"]
    assert (sweep.repeats, sweep.scenarios[0].search.max_repeats) == (1, 0)


def test_a_key_that_the_sweep_sets_cannot_be_changed_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(BASE + FACTORS)
    with pytest.raises(InputError) as error:
        load_sweep(path, changes={"stream[1].flows": "x"})
    assert 'stream[1].flows: the factor "five-tuples" of [sweep] sets it' in str(error.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"serch.max_repeats": 0}, "did you mean search.max_repeats?"),
        ({"stream[2].flows": 1}, "stream[2].flows: the file has no element of this number"),
        ({"stream[0].flows": 1}, "unknown key"),
        ({"search.max_repeats": "x"}, 'expected a whole number from 0 to 100, found "x"'),
        ({"search.max_repeats": "x"}, "(from a value set over the file's own)"),
    ],
)
def test_a_wrong_change_is_named(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(BASE)
    with pytest.raises(InputError) as error:
        load_sweep(path, changes=changes)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            factor("flows", '"stream[1].flows"', "1,\n70_000"),
            "runs/x.toml:21: stream[1].flows: expected at most 65,536, the product of the four ranges, "
            "found 70000 (at flows = 70000)",
        ),
        (
            factor("flows", '"stream[1].flows"', '1, "many"') + factor("rings", '"port[1].ring"', "64, 128"),
            'runs/x.toml:20: stream[1].flows: expected a whole number from 1 to 16,777,216, found "many" '
            '(at flows = "many")',
        ),
        (
            '[[sweep.point]]\nname = "a"\n[[sweep.point]]\nname = "b"\n"dut.datapath" = "x"\n',
            'runs/x.toml:21: dut.datapath: expected "dpdk" or "af_xdp" or "af_packet" or "kernel" or "tc", found "x" '
            '(at point = "b")',
        ),
        (
            factor("f", '"stream[1].flow"', "1"),
            'sweep.factor[1].keys[1]: expected a key that a level can set, found "stream[1].flow"; '
            "did you mean stream[1].flows?",
        ),
        (factor("f", '"stream[2].flows"', "1"), 'found "stream[2].flows", which names an element that the file lacks'),
        (factor("f", '"stream.flows"', "1"), 'expected a key that a level can set, found "stream.flows"'),
        (factor("f", '"measure"', '"rr"'), "expected a key that a level can set"),
        (factor("f", '"title"', '"a"'), "expected a key that a level can set"),
        (factor("f", '"sweep.repeats"', "1"), "expected a key that a level can set"),
        (factor("f", '"stream[1]"', "1"), "expected a key that a level can set"),
        (factor("f", '"a b"', "1"), 'sweep.factor[1].keys: expected keys like "dut.cascade"'),
        (factor("f", '"stream[1].flows"', "1, 1.0"), "sweep.factor[1].levels: expected a list of different numbers"),
        (factor("f", '"stream[1].flows"', "nan"), "sweep.factor[1].levels: expected"),
        (factor("f", '"stream[1].flows"', "[1]"), "sweep.factor[1].levels: expected"),
        (factor("f", '"stream[1].flows"', ""), "sweep.factor[1].levels: expected"),
        (factor("-", '"stream[1].flows"', "1"), "sweep.factor[1].name: expected 1 to 40 letters"),
        (
            factor("f", '"stream[1].flows"', "1") + factor("f", '"port[1].ring"', "64"),
            'sweep.factor[2].name: expected a unique name, found "f" again',
        ),
        (
            factor("f", '"stream[1].flows"', "1") + factor("g", '"stream[1].flows"', "1"),
            "f and g set the same key",
        ),
        (
            '[[sweep.point]]\nname = "a"\n"dut.other_config" = {a = 1}\n' + factor("g", '"dut.other_config.a"', "1"),
            "point and g set the same key",
        ),
        (
            '[[sweep.point]]\nname = "a"\n[[sweep.point]]\nname = "a"\n',
            'sweep.point[2].name: expected a unique name, found "a" again',
        ),
        (
            '[[sweep.point]]\nname = "a"\ndut.cascade = 2\n',
            'sweep.point[1].dut: expected a key in quotes, such as "dut.cascade"',
        ),
        ("[sweep]\nrepeats = 0\n", "sweep.repeats: expected a whole number from 1 to 1,000, found 0"),
        ("[sweep]\nrepeat = 2\n", "sweep.repeat: unknown key; did you mean repeats?"),
        ("[sweep.factor]\nname = 'x'\n", "sweep.factor: expected tables [[sweep.factor]]"),
        (
            factor("f", '"stream[1].flows"', ", ".join(map(str, range(1, 41))))
            + factor("g", '"dut.flow_limit"', ", ".join(map(str, range(1, 41)))),
            "sweep: expected at most 1,000 points, found 1,600",
        ),
    ],
)
def test_what_cannot_be_swept_is_named_with_its_line_and_level(more: str, problem: str) -> None:
    problem_lines = problems(BASE + more)
    assert len(problem_lines) == 1
    assert problem in problem_lines[0]


def test_the_short_form_needs_a_point() -> None:
    text = BASE + '[[sweep.point]]\nname = "a"\nquick = false\n'
    assert len(swept(text).scenarios) == 1
    assert "expected at least one point with quick = true" in problems(text, quick=True)[0]


def test_what_is_wrong_at_every_point_is_told_once_and_without_levels() -> None:
    text = (BASE + FACTORS).replace('to = "right"', 'to = "rihgt"')
    assert problems(text) == [
        'runs/x.toml:15: stream[1].to: expected the name of a [[port]] (left, right), found "rihgt"'
    ]


def test_what_is_wrong_at_points_that_share_no_level_counts_them() -> None:
    flows = factor("flows", '"stream[1].flows"', "1, 2")
    rows = factor("rows", '"dut.cascade", "dut.rule_series[1].count"', "1, 2")
    text = BASE.replace("[[port]]", '[[bridge]]\nname = "br1"\nrules = "actions=NORMAL"\n[[port]]', 1) + flows + rows
    assert problems(text) == ['runs/x.toml:10: bridge[1].name: expected a unique name, found "br1" again (at rows = 2)']


def test_the_example_of_hosts_makes_its_points() -> None:
    sweep = swept(HOSTS_EXAMPLE)
    assert len(sweep.scenarios) == 16
    assert [len(scenario.dut.bridges) for scenario in sweep.scenarios[:8]] == [2, 2, 10, 10, 20, 20, 50, 50]
    assert {scenario.hosts[1].bridge for scenario in sweep.scenarios} == {"br1", "br9", "br19", "br49"}
    assert len(swept(HOSTS_EXAMPLE, quick=True).scenarios) == 4


@pytest.mark.parametrize(
    "hostile",
    [
        BASE + "[[sweep.point]]\n" * 40_000,
        BASE + '[[sweep.point]]\nname = "a"\n' + "".join(f"k{number} = 1\n" for number in range(60_000)),
        BASE + "[[sweep.factor]]\n" * 40_000,
        BASE + factor("f", ", ".join(f'"k{number}"' for number in range(64)), "1"),
        BASE + "\n" * 500_000 + factor("f", '"stream[1].share"', ", ".join(f"{number}e3" for number in range(2, 250))),
        "x = 1\n" + factor("f", '"stream[1].flows"', ", ".join(map(str, range(1, 250)))),
        "".join(f"key{number} = 1\n" for number in range(60_000)),
    ],
    ids=lambda text: f"{len(text)}",
)
def test_hostile_sweeps_are_refused_quickly(hostile: str) -> None:
    began_s = time.process_time()
    assert len(problems(hostile)) <= 101
    assert time.process_time() - began_s < 10


PUT = st.sampled_from(["-1", "[]", "{}", '"x"', "true", "nan", "[[", "\n[[sweep.point]]\n", '"dut.cascade" = 3\n'])


@given(st.integers(0, len(HOSTS_EXAMPLE)), st.integers(0, 30), PUT | st.text(max_size=8), st.booleans())
def test_any_damage_to_a_good_sweep_gives_scenarios_or_an_input_error(at: int, cut: int, put: str, quick: bool) -> None:
    try:
        sweep = sweep_of(Source(HOSTS_EXAMPLE[:at] + put + HOSTS_EXAMPLE[at + cut :], "x.toml"), quick)
    except InputError as error:
        assert all(line.startswith("x.toml:") for line in error.message.split("\n")[:100])
    else:
        assert len({scenario.name for scenario in sweep.scenarios}) == len(sweep.scenarios)


@given(
    st.text(max_size=40) | st.sampled_from(["stream[1].flows", "dut", "dut.rules", "sweep", "dut.other_config.x"]),
    st.integers() | st.text(),
)
def test_any_key_and_level_gives_scenarios_or_an_input_error(key: str, level: object) -> None:
    source = Source(EXAMPLE, "x.toml")
    source.data["sweep"] = {"factor": [{"name": "f", "keys": [key], "levels": [level]}]}
    try:
        assert isinstance(sweep_of(source, False), Sweep)
    except InputError as error:
        assert error.message.startswith("x.toml:")


def test_listed_points_may_be_numbers() -> None:
    text = '[sweep]\npoint_name = "rings"\n[[sweep.point]]\nname = 4\n"port[1].ring" = 64\n[[sweep.point]]\nname = 16\n'
    assert swept(BASE + text).factors[0].levels == (4, 16)
