"""Counter-experiments on Open vSwitch change the rules or the limits, and nothing else."""

from dataclasses import replace

import pytest
from support import scenario_of

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.dut.ovs.counters import _one_output, _untracked
from pinchpoint.dut.ovs.spec import Rule, spec
from pinchpoint.model.causes import Experiment

experiments = DEVICE.experiments

TRACKED = (
    "table=0,priority=100,ip,in_port={left},actions=ct(commit,table=1,nat(src=10.0.0.1))",
    "table=1,ip,ct_state=+trk+est,actions=output:{right}",
    "table=1,ip,ct_state=+trk+new,actions=output:{right}",
)


def with_rules(*rules, **limits):
    """The plainest scenario with these rules on its bridge."""
    scenario = scenario_of("ovs")
    dut = spec(scenario)
    bridges = (replace(dut.bridges[0], rules=tuple(map(Rule, rules))),)
    return replace(scenario, dut=replace(dut, bridges=bridges, tuning=replace(dut.tuning, **limits)))


@pytest.mark.parametrize(
    ("rule", "without"),
    [
        ("table=0,ip,actions=ct(commit,table=1,nat(src=10.0.0.1))", "table=0,ip,actions=resubmit(,1)"),
        ("ip,ct_state=+trk+est,in_port=1,actions=output:2", "ip,in_port=1,actions=output:2"),
        ("ip,actions=ct(commit,zone=1),output:2", "ip,actions=output:2"),
        ("ip,actions=ct(commit)", "ip,actions=drop"),
        ("ip,actions=ct_clear,output:2", "ip,actions=output:2"),
        ("ip,actions=ct(nat,table=2", "ip,actions=resubmit(,2)"),  # cut off: the switch refuses it, not we
        ("in_port=1,actions=output:2", "in_port=1,actions=output:2"),
        ("no rule at all", "no rule at all"),
    ],
)
def test_a_rule_without_connection_tracking_goes_on_where_tracking_would_have_led(rule, without):
    assert _untracked(rule) == without


@pytest.mark.parametrize(
    ("rule", "once"),
    [
        ("in_port={left},actions=output:{right},output:{third}", "in_port={left},actions=output:{right}"),
        ("actions={right},mod_dl_src:02:00:00:00:00:01,{right}", "actions={right},mod_dl_src:02:00:00:00:00:01"),
        ("actions=output:{right},FLOOD", "actions=output:{right}"),
        ("actions=mod_nw_dst:{ipv4:10.0.0.1},output:{right}", "actions=mod_nw_dst:{ipv4:10.0.0.1},output:{right}"),
    ],
)
def test_of_several_outputs_the_first_remains(rule, once):
    assert _one_output(rule) == once


def test_rules_that_become_alike_are_one():
    changed = experiments(with_rules(*TRACKED))[Experiment.NO_TRACKING]
    assert [rule.text for rule in spec(changed).bridges[0].rules] == [
        "table=0,priority=100,ip,in_port={left},actions=resubmit(,1)",
        "table=1,ip,actions=output:{right}",
    ]


def test_plain_forwarding_takes_a_streams_frames_from_port_to_port():
    changed = experiments(with_rules(*TRACKED))[Experiment.PLAIN]
    assert [rule.text for rule in spec(changed).bridges[0].rules] == ["in_port={left},actions=output:{right}"]
    assert changed.streams == with_rules(*TRACKED).streams


def test_what_would_change_nothing_is_no_experiment():
    plain = with_rules("in_port={left},actions=output:{right}")
    assert experiments(plain) == {}


def test_a_limit_is_lifted_only_where_the_scenario_sets_one():
    limited = experiments(with_rules(*TRACKED, flow_limit=1000, conntrack_limit=1000))
    assert {Experiment.LARGE_FLOW_LIMIT, Experiment.LARGE_TRACKING_LIMIT} <= set(limited)
    lifted = spec(limited[Experiment.LARGE_FLOW_LIMIT])
    assert lifted.tuning.flow_limit > 1000
    assert lifted.tuning.conntrack_limit == 1000
    assert not {Experiment.LARGE_FLOW_LIMIT} & set(experiments(with_rules(*TRACKED)))
