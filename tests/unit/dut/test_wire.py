"""No device: the ports joined."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from support import TWO_PORTS

from pinchpoint.bench.resource import Hugepages, Namespace, Relay, Veth
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.dut.places import Places
from pinchpoint.dut.wire import DEVICE, joined, without_device
from pinchpoint.host.local import Local
from pinchpoint.model.errors import RequirementError

PLACES = Places("abc123", PurePosixPath("/run/pinchpoint/abc123"), Local())
VETH = replace(TWO_PORTS, dut=replace(TWO_PORTS.dut, datapath=Datapath.AF_XDP))


def resources(scenario, free=0):
    over_dpdk = scenario.dut.datapath is Datapath.DPDK
    wire = without_device(scenario, over_dpdk)
    return DEVICE.bench(wire, Places(PLACES.bench_id, PLACES.directory, Local())).resources(
        Pages(100, free), ["engine"]
    )


def of_kind(kind, planned):
    return [resource for resource in planned if isinstance(resource, kind)]


def test_veth_ports_are_the_two_ends_of_one_pair():
    planned = resources(VETH)
    assert [namespace.name for namespace in of_kind(Namespace, planned)] == [PLACES.engine_netns]
    (pair,) = of_kind(Veth, planned)
    assert (pair.name, pair.peer, pair.netns, pair.peer_netns) == ("left", "right", *[PLACES.engine_netns] * 2)
    assert not of_kind(Relay, planned) and not of_kind(Hugepages, planned)


def test_vhost_user_ports_are_joined_by_a_relay_in_the_switchs_place():
    planned = resources(TWO_PORTS)
    (relay,) = of_kind(Relay, planned)
    assert relay.cpu == TWO_PORTS.dut.pmd_cpus[0]
    assert not relay.awaited, "its links come up when the engine opens its ends"
    assert [word for word in relay.argv if word.startswith("dpdk:")] == [
        "dpdk:net_vhost0,iface=/run/pinchpoint/abc123/vhost-left.sock,queues=1,client=1",
        "dpdk:net_vhost1,iface=/run/pinchpoint/abc123/vhost-right.sock,queues=1,client=1",
    ]
    assert relay.directions == (("left", "right"), ("right", "left"))
    (pages,) = of_kind(Hugepages, planned)
    assert pages.after - pages.before == -(-(TWO_PORTS.engine.memory_mb + 96 + 64) // 2)
    assert not of_kind(Hugepages, resources(TWO_PORTS, free=1000))


def test_streams_both_ways_make_the_same_pair():
    (stream,) = TWO_PORTS.streams
    back = replace(stream, tx_port="right", rx_port="left")
    assert joined(replace(TWO_PORTS, streams=(stream, back))) == (("left", "right"),)


def with_stream(tx_port, rx_port):
    return replace(
        TWO_PORTS, streams=(*TWO_PORTS.streams, replace(TWO_PORTS.streams[0], tx_port=tx_port, rx_port=rx_port))
    )


def with_port(**changes):
    return replace(TWO_PORTS, ports=(replace(TWO_PORTS.ports[0], **changes), TWO_PORTS.ports[1]))


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        (with_stream("left", "third"), "port left has streams with two others, right and third"),
        (with_stream("left", "left"), "a stream of port left returns to that port"),
        (with_port(pci="0000:01:00.0", engine_pci="0000:01:00.1"), "a NIC needs a cable"),
        (with_port(queues=2), "a relay supports one queue"),
    ],
)
def test_what_cannot_be_joined_says_why(scenario, why):
    with pytest.raises(RequirementError, match="cannot be measured: " + why):
        resources(scenario)
