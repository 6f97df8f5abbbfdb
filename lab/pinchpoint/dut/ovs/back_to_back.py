"""The bench without the DUT: the engine's ports joined to each other, to find the generator's own ceiling.

veth        the two ends of one pair are the two ports
vhost-user  the engine serves the sockets as ever; `pinchpoint-engine relay` on the first core of the switch
            connects to both, as the switch would, and copies what comes. It may be slower than the switch
NICs        need a cable between the engine's own ports, which nobody has plugged in
"""

from collections.abc import Sequence

from pinchpoint.bench.relay import relay_memory_mb
from pinchpoint.bench.resource import (
    AnyResource,
    Hugepages,
    MarkedProcesses,
    Namespace,
    Relay,
    RunDirectory,
    Veth,
)
from pinchpoint.dut.ovs.bench import DPDK_OVERHEAD_MB, HEADERS, HUGEPAGE_MB, STANDARD_MTU
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Datapath, Scenario

NAME = "relay"


def joined(scenario: Scenario) -> tuple[tuple[str, str], ...]:
    """The pairs of ports that the streams join. Raises RequirementError where there are none."""
    if any(port.engine_pci for port in scenario.ports):
        raise RequirementError(
            "the generator's ceiling cannot be measured: a NIC needs a cable back to the engine",
            "join the engine's two NICs and measure with `pinchpoint-engine send`; or --no-ceiling",
        )
    partner: dict[str, str] = {}
    for stream in scenario.streams:
        if stream.tx_port == stream.rx_port:
            raise RequirementError(
                f"the generator's ceiling cannot be measured: a stream of port {stream.tx_port} returns to that port"
            )
        for one, other in ((stream.tx_port, stream.rx_port), (stream.rx_port, stream.tx_port)):
            if partner.setdefault(one, other) != other:
                raise RequirementError(
                    f"the generator's ceiling cannot be measured: port {one} has streams with two others, "
                    f"{partner[one]} and {other}, and without a switch their frames cannot be separated"
                )
    return tuple((one, other) for one, other in partner.items() if one <= other)


def back_to_back(
    scenario: Scenario, places: OvsPlaces, hugepages_total: int, hugepages_free: int, engine: Sequence[str]
) -> list[AnyResource]:
    """What joins the engine's ports; `engine` is the command that starts one. Raises RequirementError."""
    pairs = joined(scenario)
    resources: list[AnyResource] = [RunDirectory(str(places.directory)), MarkedProcesses(places.bench_id)]
    if scenario.dut.datapath is not Datapath.DPDK:
        return [*resources, Namespace(places.engine_netns), *_veths(scenario, places, pairs)]
    if any(port.queues > 1 for port in scenario.ports):
        raise RequirementError("the generator's ceiling cannot be measured: a relay supports one queue per port")
    needed_mb = scenario.engine.memory_mb + relay_memory_mb(len(scenario.ports)) + DPDK_OVERHEAD_MB
    needed = -(-needed_mb // HUGEPAGE_MB)
    missing = max(0, needed - hugepages_free)
    if missing:
        resources.append(Hugepages(before=hugepages_total, after=hugepages_total + missing, needed=needed))
    return [*resources, _relay(scenario, places, pairs, engine)]


def _veths(scenario: Scenario, places: OvsPlaces, pairs: Sequence[tuple[str, str]]) -> list[AnyResource]:
    mtu = max([STANDARD_MTU, *(stream.frame_bytes - HEADERS for stream in scenario.streams)])
    queues = {port.name: port.queues for port in scenario.ports}
    netns = places.engine_netns
    return [Veth(one, netns, other, netns, mtu, max(queues[one], queues[other])) for one, other in pairs]


def _relay(scenario: Scenario, places: OvsPlaces, pairs: Sequence[tuple[str, str]], engine: Sequence[str]) -> Relay:
    ring = str(max(port.ring for port in scenario.ports))
    ports = [
        f"dpdk:net_vhost{number},iface={places.vhost_socket(name)},queues=1,client=1"
        for number, name in enumerate(name for pair in pairs for name in pair)
    ]
    eal = f"--no-pci --in-memory --single-file-segments -m {relay_memory_mb(len(ports))}"
    cpu = scenario.dut.pmd_cpus[0]
    options = ("--core", str(cpu), "--idle", "spin", "--patience", "0s", "--json", "--eal", eal)
    rings = ("--rx-ring", ring, "--tx-ring", ring, "--link-timeout", f"{Relay.LINK_TIMEOUT_S:g}s")
    return Relay(
        name=NAME,
        argv=(*engine, "relay", *ports, *options, *rings),
        directions=tuple(way for one, other in pairs for way in ((one, other), (other, one))),
        pidfile=f"{places.directory}/{NAME}.pid",
        account=f"{places.directory}/{NAME}.account",
        log=f"{places.directory}/{NAME}.log",
        bench_id=places.bench_id,
        cpu=cpu,
        awaited=False,  # its links come up when the engine opens its own ends
    )
