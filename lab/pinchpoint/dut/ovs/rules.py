"""OpenFlow rules: one file and one `ovs-ofctl add-flows` for each bridge that has any; what a refusal means."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address

from pinchpoint.bench.resource import AnyResource, TextFile
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import SwitchPort, switch_ports
from pinchpoint.dut.ovs.spec import ArpResponder, Bridge, spec
from pinchpoint.host.interface import COMMAND_TIMEOUT_S, CommandFailed
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Scenario

_EACH_RULE_S = 0.001  # of the command's time limit: a slow machine takes a third of it
_ARP_PRIORITY = 65535  # no rule of the scenario shall take a request first

MANY = 10_000  # rules: from here on one bundle takes a fraction of the time, as the switch takes it as one change


def rules(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """The rules of all bridges."""
    resources: list[AnyResource] = []
    ports = switch_ports(scenario, places)
    for bridge in spec(scenario).bridges:
        responders = [responder for responder in spec(scenario).arp_responders if responder.bridge == bridge.name]
        file = _file(bridge, places, port_numbers(ports, bridge.name), responders)
        if file.lines or file.series:
            management = places.management_of(bridge.name)
            count = len(file.lines) + sum(series[1] for series in file.series)
            bundle = ("--bundle",) if count > MANY else ()
            words = ("ovs-ofctl", "-O", "OpenFlow14", *bundle, "add-flows", management, file.path)
            resources += [file, places.command(*words, timeout_s=COMMAND_TIMEOUT_S + _EACH_RULE_S * count)]
    return resources


def _file(bridge: Bridge, places: OvsPlaces, numbers: dict[str, int], responders: Iterable[ArpResponder]) -> TextFile:
    lines = tuple(with_port_numbers(rule.text, numbers) for rule in bridge.rules)
    series = [(with_port_numbers(s.rule, numbers), s.count, s.first) for s in bridge.rule_series]
    return TextFile(places.rules_of(bridge.name), lines, (*series, *map(answers, responders)))


def answers(responder: ArpResponder) -> tuple[str, int, int]:
    """The series of rules of a responder."""
    return arp_responder(responder), responder.ipv4.count, 0


def arp_responder(responder: ArpResponder) -> str:
    """The rule that turns a request for an address into its reply (RFC 826) and sends it back; i counts addresses."""
    address = f"{{ipv4:{IPv4Address(responder.ipv4.first)}}}"
    return (
        f"table=0,priority={_ARP_PRIORITY},arp,arp_op=1,arp_tpa={address},actions="
        f"move:eth_src->eth_dst,set_field:{responder.mac}->eth_src,set_field:2->arp_op,"
        f"move:arp_sha->arp_tha,move:arp_spa->arp_tpa,"
        f"set_field:{responder.mac}->arp_sha,set_field:{address}->arp_spa,in_port"
    )


def port_numbers(ports: Iterable[SwitchPort], bridge: str) -> dict[str, int]:
    """The OpenFlow number of every port of a bridge, by the word that rules have for it."""
    return {port.word: port.number for port in ports if port.bridge == bridge}


def with_port_numbers(rule: str, numbers: dict[str, int]) -> str:
    """The rule with every `{name}` replaced by that port's OpenFlow number."""
    for name, number in numbers.items():
        rule = rule.replace(f"{{{name}}}", str(number))
    return rule


def rule_place(bridge: Bridge, rules_line: int) -> int | None:
    """The scenario file's line that became line `rules_line` (from 1) of the bridge's rules file."""
    if rules_line <= len(bridge.rules):
        return bridge.rules[rules_line - 1].line
    rules_line -= len(bridge.rules)
    for series in bridge.rule_series:
        if rules_line <= series.count:
            return series.line
        rules_line -= series.count
    return None


def refused_rule(error: CommandFailed, scenario: Scenario, places: OvsPlaces) -> BenchError | None:
    """The error in terms of the scenario if it was ovs-ofctl refusing a rule; None if it was another."""
    if error.argv[0] != "ovs-ofctl" or "add-flows" not in error.argv:
        return None
    bridge = next((b for b in spec(scenario).bridges if places.rules_of(b.name) in error.argv), None)
    match = bridge and re.search(re.escape(places.rules_of(bridge.name)) + r":(\d+): (.*)", error.output)
    if bridge is None or not match:
        return BenchError(f"{scenario.path}: the switch refused a rule: {error.output}", "see ovs-ofctl(8)")
    line = rule_place(bridge, int(match[1]))
    place = f"{scenario.path}:{line}" if line else f"{scenario.path}: {bridge.name}"
    refusal = f"{place}: the switch refused this rule: {match[2]}"
    return BenchError(refusal, "rule syntax: ovs-actions(7), ovs-fields(7)")
