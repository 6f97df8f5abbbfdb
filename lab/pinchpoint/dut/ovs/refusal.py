"""When the switch refuses a rule: its own words, with the rule's place in the scenario."""

import re

from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.rules import rule_place
from pinchpoint.dut.ovs.spec import spec
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import BenchError, PinchpointError
from pinchpoint.model.scenario import Scenario


def refused_rule(error: CommandFailed, scenario: Scenario, places: OvsPlaces) -> PinchpointError | None:
    """The error in terms of the scenario if it was ovs-ofctl refusing a rule; None if it was another."""
    if error.argv[0] != "ovs-ofctl" or "add-flows" not in error.argv:
        return None
    bridge = next((b for b in spec(scenario).bridges if places.rules_of(b.name) in error.argv), None)
    match = bridge and re.search(re.escape(places.rules_of(bridge.name)) + r":(\d+): (.*)", error.output)
    if bridge is None or not match:
        return BenchError(f"{scenario.path}: the switch refused a rule: {error.output}", "see ovs-ofctl(8)")
    line = rule_place(bridge, int(match[1]))
    place = f"{scenario.path}:{line}" if line else f"{scenario.path}: {bridge.name}"
    return BenchError(
        f"{place}: the switch refused this rule: {match[2]}", "rule syntax: ovs-actions(7), ovs-fields(7)"
    )
