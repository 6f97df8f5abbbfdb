"""Ports of the first bridge that carry nothing: thousands in a few transactions."""

from pinchpoint.bench.resource import AnyResource, Command, TapLinks, TextFile
from pinchpoint.dut.ovs.daemons import command, vsctl
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.spec import spec
from pinchpoint.model.scenario import Scenario

AT_ONCE = 5_000  # in one transaction: a command line is limited to 2 MiB (execve(2))
# A thousand ports take the switch some seconds, and more the more it has.
TIMEOUT_S = 900


def extra_ports(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """Idle ports, each its own device in the switch's namespace."""
    extra, bridge = spec(scenario).extra_ports, spec(scenario).bridges[0].name
    if not extra.count:
        return []
    internal = extra.kind == "internal"
    # Of the taps of internal ports a thousand go in a moment together, and in 20 s with the switch.
    resources: list[AnyResource] = [TapLinks(places.dut_netns)] if internal else _veths(extra.count, places)
    names = [extra_port(number) for number in range(1, extra.count + 1)]
    for first in range(0, len(names), AT_ONCE):
        words: list[str] = []
        for name in names[first : first + AT_ONCE]:
            words += ["--", "add-port", bridge, name]
            words += ["--", "set", "interface", name, "type=internal"] if internal else []
        made = command(places, "ovs-vsctl", *vsctl(places, timeout_s=TIMEOUT_S), *words[1:], timeout_s=TIMEOUT_S)
        resources.append(made)
    return resources


def extra_port(number: int) -> str:
    """The name of one of them, from 1."""
    return f"idle{number}"


def _veths(count: int, places: OvsPlaces) -> list[AnyResource]:
    """Pairs of which one end becomes a port and the other stays beside it, down."""
    batch = TextFile(
        path=f"{places.directory}/idle-links.txt",
        lines=(),
        series=(("link add idle{i} up type veth peer name idlepeer{i}", count, 1),),
    )
    return [batch, Command(("ip", "-n", places.dut_netns, "-batch", batch.path), timeout_s=TIMEOUT_S)]
