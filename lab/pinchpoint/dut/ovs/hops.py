"""Where Open vSwitch counts frames, from its ports' receiving to their sending. Pure.

Sources: ovs-vswitchd(8) for coverage counters; lib/netdev-dpdk.c for the custom counters of ports.
"""

from dataclasses import replace

from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath
from pinchpoint.dut.ovs.tc import DROPPED
from pinchpoint.dut.softirq import QUEUES
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused

_RECEIVED, _RECEIVE_DROPPED = "ovs/port/{port}/rx_pkts", "ovs/port/{port}/rx_drop"
_SENT, _SEND_DROPPED = "ovs/port/{port}/tx_pkts", "ovs/port/{port}/tx_drop"
_PROCESSED = "ovs/pmd/*/packets_received"
_LINK_DROPPED = "host/link/dut/{port}/rx_dropped"

_VETH = Place(
    "veth",
    ("host/link/engine/{port}/tx_packets",),
    ("host/link/dut/{port}/rx_packets",),
    (DropCounter("host/link/engine/{port}/tx_dropped", "veth of {port} dropped", Party.HOST, DropKind.KERNEL_QUEUE),),
)
# netdev-dpdk's rx_dropped already contains rx_missed_errors: it is read once, as rx_drop.
_RECEIVE = Place(
    "switch receives",
    (_RECEIVED, _RECEIVE_DROPPED),
    (_RECEIVED,),
    (DropCounter(_RECEIVE_DROPPED, "{port} dropped on receive", Party.DUT, DropKind.RECEIVE_RING),),
)
# netdev-dpdk's rx_dropped is the sum of the first two, which it shows for NICs alone; damaged frames are not in it.
_RECEIVE_BY_NIC = Place(
    "switch receives",
    (_RECEIVED, _RECEIVE_DROPPED, "ovs/port/{port}/rx_errs"),
    (_RECEIVED,),
    (
        DropCounter(
            "ovs/port/{port}/rx_missed_errors",
            "receive queues of the NIC {port} full",
            Party.DUT,
            DropKind.RECEIVE_RING,
        ),
        DropCounter("ovs/port/{port}/rx_mbuf_allocation_errors", "no buffer on {port}", Party.DUT, DropKind.BUFFERS),
        DropCounter(
            "ovs/port/{port}/rx_errs", "damaged on the way to {port}", Party.WIRE, DropKind.MALFORMED, is_apart=True
        ),
    ),
    DropCounter(_RECEIVE_DROPPED, "{port} dropped on receive", Party.DUT, DropKind.RECEIVE_RING),
)
_READ_DROPS = {
    Datapath.AF_PACKET: (
        DropCounter(_LINK_DROPPED, "kernel dropped towards {port}", Party.HOST, DropKind.KERNEL_QUEUE),
        DropCounter("host/socket/{port}/drops", "packet socket of {port} full", Party.DUT, DropKind.RECEIVE_RING),
    ),
    # The link drops what the socket's rings have no room for, whether the receive or the fill ring.
    Datapath.AF_XDP: (DropCounter(_LINK_DROPPED, "AF_XDP rings of {port} full", Party.DUT, DropKind.RECEIVE_RING),),
    # The kernel is the device: its receive path is the device's.
    **dict.fromkeys(
        IN_KERNEL, (DropCounter(_LINK_DROPPED, "{port} dropped on receive", Party.DUT, DropKind.KERNEL_QUEUE),)
    ),
}
# The switch followed its rules. Other drop_action_ counters are of rules that it could not follow.
_DATAPATH_DROPS = (
    DropCounter("ovs/coverage/drop_action_of_pipeline", "{counter}", Party.RULES, DropKind.RULE),
    DropCounter("ovs/coverage/datapath_drop_meter", "{counter}", Party.RULES, DropKind.METER),
    DropCounter("ovs/coverage/datapath_drop_upcall_error", "{counter}", Party.DUT, DropKind.SLOW_PATH),
    DropCounter("ovs/coverage/datapath_drop_lock_error", "{counter}", Party.DUT, DropKind.SLOW_PATH),
    DropCounter("ovs/coverage/datapath_drop_rx_invalid_packet", "{counter}", Party.DUT, DropKind.MALFORMED),
    DropCounter("ovs/coverage/datapath_drop_*", "{counter}", Party.DUT),
    DropCounter("ovs/coverage/drop_action_*", "{counter}", Party.DUT),
)
# The kernel's datapath hands a frame that no flow takes to the switch; one that finds the queue full is lost.
_UPCALLS_LOST = DropCounter(
    "ovs/lookups/lost", "upcalls lost: the switch's queue was full", Party.DUT, DropKind.SLOW_PATH
)
_TRANSMIT = Place(
    "switch sends",
    (_SENT, _SEND_DROPPED),
    (_SENT,),
    (
        DropCounter(
            "ovs/port/{port}/ovs_tx_failure_drops", "transmit ring of {port} full", Party.ENGINE, DropKind.TRANSMIT_RING
        ),
        DropCounter(
            "ovs/port/{port}/ovs_tx_mtu_exceeded_drops", "larger than the MTU of {port}", Party.DUT, DropKind.MTU
        ),
        DropCounter("ovs/port/{port}/ovs_tx_qos_drops", "QoS policy of {port}", Party.RULES, DropKind.POLICER),
        DropCounter(
            "ovs/port/{port}/ovs_tx_invalid_hwol_drops",
            "offload flags refused by {port}",
            Party.DUT,
            DropKind.MALFORMED,
        ),
    ),
    DropCounter(_SEND_DROPPED, "dropped on transmit, reason not counted", Party.DUT),
)
# Behind a NIC's queue is the link, not whoever receives.
_TO_LINK = replace(
    _TRANSMIT,
    drops=(
        replace(_TRANSMIT.drops[0], reason="transmit queues of the NIC {port} full", party=Party.DUT),
        *_TRANSMIT.drops[1:],
    ),
)
_NIC_REFUSED = Refused("transmit queue of the engine's NIC {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
_SETTLES = ("ovs/port/", "ovs/coverage/", "ovs/lookups/", "host/link/", "host/queue/", "host/socket/")


def graph(datapath: Datapath, nics: frozenset[str] = frozenset(), ports: frozenset[str] = frozenset()) -> HopGraph:
    """The path through one datapath; `nics`: those of the `ports` that are NICs, at a cable to one of the engine's."""
    kernel = datapath in IN_KERNEL
    processed = _RECEIVED if kernel else _PROCESSED  # no thread of the switch counts what the kernel forwards
    drops = (*_DATAPATH_DROPS, _UPCALLS_LOST) if kernel else _DATAPATH_DROPS
    if datapath is Datapath.TC:
        drops = (*drops, DropCounter(DROPPED, "dropped by an action of a tc filter", Party.RULES, DropKind.RULE))
    middle = Place("datapath", (processed,), (_SENT, _SEND_DROPPED), drops)
    if datapath is Datapath.DPDK:
        # A full vhost ring is the switch not fetching; a full transmit queue of a NIC is the wire's or the engine's.
        ring = Refused("receive ring of {port} full", Party.DUT)
        places = (*_parts(_RECEIVE, _RECEIVE_BY_NIC, nics, ports), middle, *_parts(_TRANSMIT, _TO_LINK, nics, ports))
        return HopGraph(ring, places, _SETTLES, dict.fromkeys(nics, _NIC_REFUSED))
    reads = Place("switch reads", (_RECEIVED,), (processed,), _READ_DROPS[datapath])
    # Sending over veth runs the kernel's receive path up to its queue, which is the device's where the kernel forwards.
    taken = Refused("socket of {port} took no more", Party.DUT if kernel else Party.HOST, DropKind.KERNEL_QUEUE)
    return HopGraph(taken, (_VETH, reads, middle, _TRANSMIT, QUEUES), _SETTLES)


def _parts(of_rings: Place, of_nics: Place, nics: frozenset[str], ports: frozenset[str]) -> tuple[Place, ...]:
    """A place of the switch as its ports count there: rings one way, NICs another."""
    if not nics:
        return (of_rings,)
    if not (others := ports - nics):
        return (of_nics,)
    return replace(of_rings, ports=others), replace(of_nics, ports=nics)


def in_service(datapath: Datapath) -> HopGraph:
    """The path through a switch that runs already: the places at which it counts itself."""
    whole = graph(datapath)
    return HopGraph(
        whole.refused, tuple(place for place in whole.places if place not in (_VETH, QUEUES)), whole.settles
    )
