"""What can be done against a cause: counter-experiments with other rules or limits out of reach, and settings. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pinchpoint.dut.device import Device, Seen
from pinchpoint.dut.ovs.collectors import CONFIGURED
from pinchpoint.dut.ovs.keys import FIRST_BRIDGE
from pinchpoint.dut.ovs.spec import Bridge, OvsPort, Rule, RuleSeries, spec
from pinchpoint.model.causes import Experiment
from pinchpoint.model.scenario import Scenario

UNREACHED = 2**24  # flows or connections: a bench has 64 x 2^16 five-tuples at most, of which it uses a fraction
_STATE = re.compile(r"ct_(?:state|zone|mark|label|nw_src|nw_dst|nw_proto|tp_src|tp_dst|ipv6_src|ipv6_dst)=[^, ]*,?")
_TABLE = re.compile(r"\btable=(\d{1,3})")
_OUTPUT = re.compile(r"(?:output:)?\{(?!ipv4:|mac:|u16:|i\})[^}]*\}|\b(?:FLOOD|ALL|NORMAL|flood|all|normal)\b")
_SMC: Final = f"{CONFIGURED}smc-enable"
_EMC: Final = f"{CONFIGURED}emc-insert-inv-prob"
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "policer": ("raise ingress_policing_rate of the port", "the rates of its QoS record"),
    "mtu": ("raise mtu_request of the port",),
    "buffers": ("raise dut.memory_mb",),
    "tracking-limit": ("raise dut.conntrack_limit", "the limit of the zone"),
    "flow-limit": ("raise dut.flow_limit",),
    "false-offload": ("name outputs in the place of NORMAL in table 0",),
    "slow-path": ("raise dut.flow_limit", "raise dut.max_idle_ms"),
    "copies": ("name the port in the place of NORMAL without a learnt address, FLOOD or ALL",),
    "imbalance": ("set port.rxq_affinity", "let pmd-auto-lb deal the queues out"),
    "main-thread": ('set dut.datapath = "af_xdp" or "dpdk"',),
    "preempted": ("name another CPU in dut.pmd_cpus",),
    "flow-control": ("set options:tx-flow-ctrl=false of the port",),
}
"""By the name of the cause."""


def _all(scenario: Scenario) -> Iterator[tuple[Experiment, Scenario]]:
    dut = spec(scenario)
    yield Experiment.PLAIN, _plain(scenario)
    yield Experiment.NO_TRACKING, _with_actions(scenario, _untracked)
    yield Experiment.ONE_OUTPUT, _with_actions(scenario, _one_output)
    if dut.tuning.flow_limit is not None:
        tuning = replace(dut.tuning, flow_limit=UNREACHED)
        yield Experiment.LARGE_FLOW_LIMIT, replace(scenario, dut=replace(dut, tuning=tuning))
    if dut.tuning.conntrack_limit is not None:
        tuning = replace(dut.tuning, conntrack_limit=UNREACHED)
        yield Experiment.LARGE_TRACKING_LIMIT, replace(scenario, dut=replace(dut, tuning=tuning))


def _plain(scenario: Scenario) -> Scenario:
    """One bridge that takes a stream's frames from one port to the other, whatever they are."""
    pairs = dict.fromkeys((stream.tx_port, stream.rx_port) for stream in scenario.streams)
    rules = tuple(Rule(f"in_port={{{tx}}},actions=output:{{{rx}}}") for tx, rx in pairs)
    dut = replace(spec(scenario), bridges=(Bridge(FIRST_BRIDGE, rules, ()),), patches=(), tunnels=(), arp_responders=())
    ports = tuple(replace(port, bridge=FIRST_BRIDGE) if isinstance(port, OvsPort) else port for port in scenario.ports)
    return replace(scenario, dut=dut, ports=ports)


def _with_actions(scenario: Scenario, changed: Callable[[str], str]) -> Scenario:
    """The rules of all bridges, each as `changed`."""

    def of(bridge: Bridge) -> Bridge:
        rules = dict.fromkeys(changed(rule.text) for rule in bridge.rules)
        series = (RuleSeries(changed(old.rule), old.count, old.first) for old in bridge.rule_series)
        return replace(bridge, rules=tuple(map(Rule, rules)), rule_series=tuple(series))

    dut = spec(scenario)
    bridges = tuple(map(of, dut.bridges))
    is_same = list(map(_texts, bridges)) == list(map(_texts, dut.bridges))
    return scenario if is_same else replace(scenario, dut=replace(dut, bridges=bridges))


def _texts(bridge: Bridge) -> tuple[list[str], list[str]]:
    return [rule.text for rule in bridge.rules], [series.rule for series in bridge.rule_series]


def _untracked(rule: str) -> str:
    """The rule without matches on connections; what went through connection tracking goes to its table at once."""
    match, separator, actions = rule.partition("actions=")
    if not separator:
        return rule
    kept, rest = list[str](), actions
    while (ct_action := re.search(r"\bct(\(|_clear\b)", rest)) is not None:
        end = _closed(rest, ct_action.end()) if ct_action[1] == "(" else ct_action.end()
        table = _TABLE.search(rest[ct_action.start() : end])
        kept.append(rest[: ct_action.start()] + (f"resubmit(,{table[1]})" if table else ""))
        rest = rest[end:]
    words = re.sub(r",{2,}", ",", "".join(kept) + rest).strip(",")
    return f"{_STATE.sub('', match)}{separator}{words or 'drop'}"


def _closed(text: str, begin: int) -> int:
    """The place after the bracket that closes the one before `begin`."""
    depth = 1
    for place in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    return len(text)


def _one_output(rule: str) -> str:
    """The rule with the first of its outputs alone, where it names several ports."""
    match, separator, actions = rule.partition("actions=")
    outputs = list(_OUTPUT.finditer(actions))
    if len(outputs) < 2:
        return rule
    for extra in reversed(outputs[1:]):
        actions = actions[: extra.start()] + actions[extra.end() :]
    return f"{match}{separator}{re.sub(r',{2,}', ',', actions).strip(',')}"


def _caches(cause: str, seen: Seen) -> Iterator[str]:
    if cause in ("masks", "many-flows") and not seen.get(_SMC):
        yield "try dut.smc = true"
    if cause == "many-flows" and seen.get(_EMC) != 0:
        yield "try dut.emc_insert_inv_prob = 0, which saves the vain insertions"


class Remedies(Device):
    """What can be done against a switch's causes."""

    def experiments(self, scenario: Scenario) -> Mapping[Experiment, Scenario]:
        """Other rules, and limits out of reach: those that would change anything."""
        return {kind: changed for kind, changed in _all(scenario) if changed.dut != scenario.dut}

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        """Keys, and settings of its database, without what is in force."""
        return (*_SETTINGS.get(cause, ()), *_caches(cause, seen))
