"""Rule series: what placeholders become, and that any number of rules needs no memory."""

import tracemalloc

import pytest

from pinchpoint.dut.ovs.spec import RuleSeries
from pinchpoint.model.addresses import expand_template
from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse

SCENARIO = """\
[dut]
datapath = "dpdk"
pmd_cpus = [1]
[[dut.rule_series]]
rule = "{rule}"
count = {count}
first = {first}
[[port]]
name = "left"
[[port]]
name = "right"
[[stream]]
from = "left"
to = "right"
"""


def scenario(rule: str, count: int = 2, first: int = 0) -> str:
    text = SCENARIO
    for name, value in (("rule", rule), ("count", str(count)), ("first", str(first))):
        text = text.replace(f"{{{name}}}", value)
    return text


def test_placeholders_count_and_ports_stay() -> None:
    text = "priority={i},tp_dst={u16:9},nw_dst={ipv4:48.0.0.254},dl_dst={mac:02:00:00:00:00:ff},output:{right}"
    assert list(expand_template(text, count=2, first=1)) == [
        "priority=1,tp_dst=10,nw_dst=48.0.0.255,dl_dst=02:00:00:00:01:00,output:{right}",
        "priority=2,tp_dst=11,nw_dst=48.0.1.0,dl_dst=02:00:00:00:01:01,output:{right}",
    ]


def test_a_series_of_none_is_no_rule() -> None:
    assert parse(scenario("nw_dst={ipv4:255.255.255.255}", 0), "x.toml").dut.bridges[0].rule_series[0].count == 0
    assert list(expand_template("nw_dst={ipv4:255.255.255.255}", 0)) == []


def test_rules_are_made_one_at_a_time() -> None:
    tracemalloc.start()
    count = sum(1 for _ in expand_template("nw_dst={ipv4:48.0.0.0},actions=drop", 50_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 50_000
    assert peak < 100_000


def test_a_series_is_read_with_its_line() -> None:
    series = parse(scenario("nw_dst={ipv4:48.0.0.1},actions=output:{left}", 5, 7), "x.toml").dut.bridges[0].rule_series
    assert series == (RuleSeries("nw_dst={ipv4:48.0.0.1},actions=output:{left}", 5, 7, 5),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            scenario("a={up}"),
            "x.toml:5: dut.rule_series[1].rule: {up} is unknown; known here: {left}, {right}, {i}",
        ),
        (scenario("a={ipv4:48.0.0}"), "{ipv4:48.0.0} has no valid address"),
        (scenario("a={mac:02:00}"), "{mac:02:00} has no valid address"),
        (scenario("a={ipv4:255.255.255.255}", 2), "runs past the last address at i = 1"),
        (scenario("a={mac:ff:ff:ff:ff:ff:ff}", 1, 1), "runs past the last address at i = 1"),
        (scenario("a={u16:65536}"), "{u16:65536} has no valid number"),
        (scenario("a={u16:-1}"), "{u16:-1} has no valid number"),
        (scenario("a={u16:65535}", 2), "{u16:65535} runs past the last number at i = 1"),
        (scenario("a={i"), "a brace without its partner"),
        (scenario(""), "expected a rule, found none"),
        (scenario("a\\nb"), "expected one line of text"),
        (scenario("a", 1_000_001), "expected a whole number from 0 to 1,000,000"),
        (
            scenario("a", 600_000) + '[[dut.rule_series]]\nrule = "b"\ncount = 600_000',
            "at most 1,000,000 rules in all",
        ),
    ],
)
def test_a_series_that_cannot_be_expanded_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text, "x.toml")
    assert problem in error.value.message


def test_the_last_address_can_be_reached() -> None:
    rule = "{ipv4:255.255.255.254} {mac:ff:ff:ff:ff:ff:fe}"
    series = parse(scenario(rule), "x.toml").dut.bridges[0].rule_series[0]
    assert list(expand_template(rule, series.count))[-1] == "255.255.255.255 ff:ff:ff:ff:ff:ff"
