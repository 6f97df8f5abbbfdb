"""Where Open vSwitch counts frames, from its ports' receiving to their sending. Pure.

Sources: ovs-vswitchd(8) for coverage counters; lib/netdev-dpdk.c for the custom counters of ports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pinchpoint.dut.attach import LINK_REFUSED
from pinchpoint.dut.ovs.collectors import DROPPED
from pinchpoint.dut.ovs.flows import BY_FLOWS
from pinchpoint.dut.ovs.guests import COUNTERS
from pinchpoint.dut.ovs.kinds import PortKind
from pinchpoint.dut.ovs.spec import AFXDP, IN_KERNEL, INTERNAL, TAP, VETH, Datapath
from pinchpoint.dut.softirq import QUEUES
from pinchpoint.model.groups import grouped
from pinchpoint.model.hops import LESS, PORT, DropCounter, DropKind, HopGraph, Party, Place, Refused

_RECEIVED, _RECEIVE_DROPPED = "ovs/port/{port}/rx_pkts", "ovs/port/{port}/rx_drop"
_SENT, _SEND_DROPPED = "ovs/port/{port}/tx_pkts", "ovs/port/{port}/tx_drop"
_PROCESSED = "ovs/pmd/*/packets_received"
_LINK_DROPPED = "host/link/dut/{port}/rx_dropped"


def _at_port(counter: str, reason: str, party: Party, kind: DropKind = DropKind.OTHER) -> DropCounter:
    """A counter of every port of the switch."""
    return DropCounter(f"ovs/port/{PORT}/{counter}", reason, party, kind)


_VETH_DROPPED = "host/link/engine/{port}/tx_dropped"
_VETH = Place("veth", ("host/link/engine/{port}/tx_packets",), ("host/link/dut/{port}/rx_packets",), (
    DropCounter(_VETH_DROPPED, "veth of {port} dropped", Party.HOST, DropKind.KERNEL_QUEUE),
))  # fmt: skip
# netdev-dpdk's rx_dropped holds what its policer drops, too, and rx_missed_errors of NICs: it is read once, as rx_drop.
# Policed frames were received: they are in rx_packets, of vhost-user ports since Open vSwitch 3.1.
_ON_RECEIVE = _at_port("rx_drop", "{port} dropped on receive", Party.DUT, DropKind.RECEIVE_RING)
_POLICED = _at_port("ovs_rx_qos_drops", "ingress policer of {port}", Party.RULES, DropKind.POLICER)
_ARRIVED, _TAKEN = (_RECEIVED, _RECEIVE_DROPPED, LESS + _POLICED.counter), (_RECEIVED, LESS + _POLICED.counter)
_RECEIVE = Place("switch receives", _ARRIVED, _TAKEN, (_POLICED,), _ON_RECEIVE)
_DAMAGED = _at_port("rx_errs", "damaged on the way to {port}", Party.WIRE, DropKind.MALFORMED)
# netdev-dpdk's rx_dropped is the sum of the first three; damaged frames are not in it.
_RECEIVE_BY_NIC = Place("switch receives", (*_ARRIVED, _DAMAGED.counter), _TAKEN, (
    _at_port("rx_missed_errors", "receive queues of the NIC {port} full", Party.DUT, DropKind.RECEIVE_RING),
    _at_port("rx_mbuf_allocation_errors", "no buffer on {port}", Party.DUT, DropKind.BUFFERS),
    _POLICED, replace(_DAMAGED, is_apart=True),
), _ON_RECEIVE)  # fmt: skip
_SOCKET_FULL = DropCounter("host/socket/{port}/drops", "packet socket of {port} full", Party.DUT, DropKind.RECEIVE_RING)
_READ_DROPS = {
    Datapath.AF_PACKET: (
        DropCounter(_LINK_DROPPED, "kernel dropped towards {port}", Party.HOST, DropKind.KERNEL_QUEUE),
        _SOCKET_FULL,
    ),
    # The link drops what the socket's rings have no room for, whether the receive or the fill ring.
    Datapath.AF_XDP: (DropCounter(_LINK_DROPPED, "AF_XDP rings of {port} full", Party.DUT, DropKind.RECEIVE_RING),),
    # The kernel is the device: its receive path is the device's.
    **dict.fromkeys(IN_KERNEL, (replace(_ON_RECEIVE, counter=_LINK_DROPPED, kind=DropKind.KERNEL_QUEUE),)),
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
_QUEUE_FULL = "upcalls lost: the switch's queue was full"
_UPCALLS_LOST = DropCounter("ovs/lookups/lost", _QUEUE_FULL, Party.DUT, DropKind.SLOW_PATH)
_FULL_RING = _at_port("ovs_tx_failure_drops", "transmit ring of {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
_TRANSMIT = Place("switch sends", (_SENT, _SEND_DROPPED), (_SENT,), (
    _FULL_RING,
    _at_port("ovs_tx_mtu_exceeded_drops", "larger than the MTU of {port}", Party.DUT, DropKind.MTU),
    _at_port("ovs_tx_qos_drops", "QoS policy of {port}", Party.RULES, DropKind.POLICER),
    _at_port("ovs_tx_invalid_hwol_drops", "offload flags refused by {port}", Party.DUT, DropKind.MALFORMED),
), _at_port("tx_drop", "dropped on transmit, reason not counted", Party.DUT))  # fmt: skip
# Behind a NIC's queue is the link, not whoever receives.
_FULL_QUEUE = replace(_FULL_RING, reason="transmit queues of the NIC {port} full", party=Party.DUT)
_TO_LINK = replace(_TRANSMIT, drops=(_FULL_QUEUE, *_TRANSMIT.drops[1:]))
_NIC_REFUSED = Refused("transmit queue of the engine's NIC {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
_LATE = ("ovs/coverage/",)
_SETTLES = ("ovs/port/", "ovs/coverage/", "ovs/lookups/", "host/link/", "host/queue/", "host/socket/")


_FULL_TAP = Refused("queue of the interface {port} full", Party.DUT, DropKind.KERNEL_QUEUE)
# Of ports of other kinds than the datapath's own: what the engine gave them, and what threads of the switch read.
_FROM_LINK = ("host/link/engine/{port}/tx_packets",)
_BY_SOCKET, _BY_RINGS = (
    Place("", _FROM_LINK, (_RECEIVED, LESS + lost), (*_VETH.drops, *_READ_DROPS[datapath]))
    for lost, datapath in ((_SOCKET_FULL.counter, Datapath.AF_PACKET), (_LINK_DROPPED, Datapath.AF_XDP))
)
# An interface that the switch makes has a queue of its own; its statistics are the switch's, received is what was read.
_OF_SWITCH = Place("", (_RECEIVED, _RECEIVE_DROPPED), (_RECEIVED,), (
    replace(_ON_RECEIVE, reason=_FULL_TAP.reason, kind=DropKind.KERNEL_QUEUE),
))  # fmt: skip
_OF_OTHERS: Final[Mapping[str, tuple[Place, Refused]]] = {
    VETH: (_BY_SOCKET, LINK_REFUSED), AFXDP: (_BY_RINGS, LINK_REFUSED),
    TAP: (_OF_SWITCH, _FULL_TAP), INTERNAL: (_OF_SWITCH, _FULL_TAP),
}  # fmt: skip
_NONE: Final[Mapping[str, str]] = {}


def graph(
    datapath: Datapath,
    nics: frozenset[str] = frozenset(),
    ports: frozenset[str] = frozenset(),
    others: Mapping[str, str] = _NONE,
) -> HopGraph:
    """The path through one datapath; `nics`: those of the `ports` that are NICs, at a cable to one of the engine's.

    `others`: the kind of those that are not as the datapath has its ports.
    """
    kernel = datapath in IN_KERNEL
    processed = _RECEIVED if kernel else _PROCESSED  # no thread of the switch counts what the kernel forwards
    drops = (*_DATAPATH_DROPS, _UPCALLS_LOST) if kernel else _DATAPATH_DROPS
    if datapath is Datapath.TC:
        drops = (*drops, DropCounter(DROPPED, "dropped by an action of a tc filter", Party.RULES, DropKind.RULE))
    middle = Place("datapath", (processed,), (_SENT, _SEND_DROPPED), drops)
    own = ports - others.keys()
    refused_at = {port: _OF_OTHERS[kind][1] for port, kind in others.items()}
    if datapath is Datapath.DPDK:
        # A full vhost ring is the switch not fetching; a full transmit queue of a NIC is the wire's or the engine's.
        ring = Refused("receive ring of {port} full", Party.DUT)
        receives = _parts(_RECEIVE, _RECEIVE_BY_NIC, nics, own)
        if others:
            at_own = (replace(place, ports=place.ports or own) for place in receives)
            receives = (*at_own, *_of_others(others, _RECEIVE))
        places = (*receives, middle, *_parts(_TRANSMIT, _TO_LINK, nics, ports))
        return HopGraph(ring, places, _SETTLES, dict.fromkeys(nics, _NIC_REFUSED) | refused_at, _LATE)
    reads = Place("switch reads", (_RECEIVED,), (processed,), _READ_DROPS[datapath])
    # Sending over veth runs the kernel's receive path up to its queue, which is the device's where the kernel forwards.
    taken = replace(LINK_REFUSED, party=Party.DUT if kernel else Party.HOST)
    if not others:
        return HopGraph(taken, (_VETH, reads, middle, _TRANSMIT, QUEUES), _SETTLES, late=_LATE)
    read = (replace(reads, ports=own), *_of_others(others, reads if kernel else replace(reads, left=())))
    veth, queues = (replace(place, ports=own) for place in (_VETH, QUEUES))
    return HopGraph(taken, (veth, *read, middle, _TRANSMIT, queues), _SETTLES, refused_at, _LATE)


def _of_others(others: Mapping[str, str], beside: Place) -> list[Place]:
    """A place for each kind of port, as a part of the one `beside`; it tells what was read where that does by port."""
    by_kind = grouped((kind, port) for port, kind in others.items())
    return [
        replace(
            _OF_OTHERS[kind][0],
            name=beside.name,
            left=_OF_OTHERS[kind][0].left if beside.left else (),
            ports=frozenset(at),
        )
        for kind, at in by_kind.items()
    ]


# A guest is part of what is tested: what it does not fetch, or gives faster than the switch fetches, is lost there.
_INTO = replace(_TRANSMIT, name="switch sends to guests", drops=(
    replace(_FULL_RING, reason="ring of {port} full: its guest does not fetch", party=Party.DUT), *_TRANSMIT.drops[1:],
))  # fmt: skip
_OUT_OF = replace(_RECEIVE, name="switch receives from guests")
_GUEST = Place("guests forward", (_SENT,), _ARRIVED, (
    DropCounter(f"{COUNTERS}{PORT}/refused", "receive ring of {port} full", Party.DUT, DropKind.RECEIVE_RING),
    DropCounter(f"{COUNTERS}{PORT}/imissed", "guest missed on {port}", Party.DUT, DropKind.RECEIVE_RING),
    DropCounter(f"{COUNTERS}{PORT}/rx_nombuf", "guest out of buffers on {port}", Party.DUT, DropKind.BUFFERS),
))  # fmt: skip


def with_guests(graph: HopGraph, inner: Sequence[str]) -> HopGraph:
    """The path that goes through guests at these ports, between the two passes of the switch.

    What the guests give out passes the datapath once more, so it is taken off there.
    """
    if not inner:
        return graph
    again = [_at(name, port) for port in inner for name in (LESS + _RECEIVED, _POLICED.counter)]
    gone = [_at(name, port) for port in inner for name in (_SENT, _SEND_DROPPED)]
    number, middle = next((n, place) for n, place in enumerate(graph.places) if place.name == "datapath")
    middle = replace(middle, entered=(*middle.entered, *again), left=(*middle.left, *gone, *again))
    through = [_of_port(place, port) for place in (_INTO, _GUEST, _OUT_OF) for port in inner]
    places = (*graph.places[:number], middle, *through, *graph.places[number + 1 :])
    return replace(graph, places=places, settles=(*graph.settles, COUNTERS))


def _at(text: str, port: str) -> str:
    return text.replace(PORT, port)


def _of_port(place: Place, port: str) -> Place:
    """A place of one port that is none of the engine's."""

    def named(drop: DropCounter) -> DropCounter:
        return replace(drop, counter=_at(drop.counter, port), reason=_at(drop.reason, port))

    return replace(
        place,
        entered=tuple(_at(name, port) for name in place.entered),
        left=tuple(_at(name, port) for name in place.left),
        drops=tuple(map(named, place.drops)),
        rest=named(place.rest) if place.rest else None,
    )


def _parts(of_rings: Place, of_nics: Place, nics: frozenset[str], ports: frozenset[str]) -> tuple[Place, ...]:
    """A place of the switch as its ports count there: rings one way, NICs another."""
    if not nics:
        return (of_rings,)
    if not (others := ports - nics):
        return (of_nics,)
    return replace(of_rings, ports=others), replace(of_nics, ports=nics)


# What a switch in service says of each kind of port by itself: its own rx_drop holds that of the link. Of a veth with
# an AF_XDP socket, received frames hold those that the link dropped; the socket counts some of them, too.
_BY_KERNEL = replace(_ON_RECEIVE, reason="kernel dropped towards {port}", party=Party.HOST, kind=DropKind.KERNEL_QUEUE)
_FILTERED = replace(QUEUES.drops[1], reason="ingress policer or filter of {port}", kind=DropKind.POLICER)
_OF_LINK = (_RECEIVED, _RECEIVE_DROPPED)
_BY_XDP = Place("", (_RECEIVED,), (), (
    _at_port("xsk_queue_*_rx_dropped", "AF_XDP socket of {port} full", Party.DUT, DropKind.RECEIVE_RING),
), replace(_ON_RECEIVE, reason="AF_XDP rings of {port} full"))  # fmt: skip
_RECEIVES: Final[Mapping[PortKind, Place]] = {
    PortKind.NIC: replace(_RECEIVE_BY_NIC, left=()),
    PortKind.VHOST: replace(_RECEIVE, left=()),
    PortKind.FORMER_VHOST: replace(_RECEIVE, entered=_OF_LINK, left=()),
    PortKind.AF_XDP: _BY_XDP,
    PortKind.KERNEL: Place("", _OF_LINK, (), (_BY_KERNEL, _SOCKET_FULL)),
}
_BY_FLOWS = DropCounter(BY_FLOWS, "dropped by datapath flows", Party.RULES, DropKind.RULE)
_OF_QUEUE = (QUEUES.drops[0], QUEUES.drops[2])  # behind the switch: the socket says that the frame was not sent
_GIVEN = (_SENT, _SEND_DROPPED, *(drop.counter for drop in _OF_QUEUE))
_QUEUED = tuple(replace(drop, is_apart=True) for drop in _OF_QUEUE)


def _by_queue(place: Place) -> Place:
    """A place that sends, with what queueing disciplines drop of it."""
    return replace(place, entered=_GIVEN, drops=(*place.drops, *_QUEUED))


def in_service(datapath: Datapath, kinds: Mapping[str, PortKind]) -> HopGraph:
    """The path through a switch that runs already: the places at which it counts itself, each port as its kind counts.

    What a place gives out is what the next one takes in, so that nothing vanishes between two rows.
    """
    whole, kernel = graph(datapath), datapath in IN_KERNEL
    name = "switch receives" if datapath is Datapath.DPDK else "switch reads"
    ports = grouped((kind, port) for port, kind in kinds.items()) or {PortKind.of_datapath(datapath): []}
    parts = [(kind, frozenset(of_kind) or None) for kind, of_kind in ports.items()]
    receives = [replace(_RECEIVES[kind], name=name, ports=of_kind) for kind, of_kind in parts]
    # Where the kernel forwards, its receive path is the device's, and its filters drop before the datapath.
    filtered = (_FILTERED,) if datapath is Datapath.KERNEL else ()
    taken = (_RECEIVED, *(LESS + drop.counter for drop in filtered)) if kernel else (_PROCESSED,)
    if kernel:
        own = replace(_ON_RECEIVE, kind=DropKind.KERNEL_QUEUE)
        receives = [replace(place, drops=(own, *filtered)) for place in receives]
    middle = next(place for place in whole.places if place.name == "datapath")
    if datapath is Datapath.KERNEL:  # which counts by flow alone what its rules drop
        middle = replace(middle, drops=(*middle.drops, _BY_FLOWS))
    by_kind = ((_TO_LINK if kind is PortKind.NIC else _TRANSMIT, of_kind) for kind, of_kind in parts)
    sends = [replace(_by_queue(place), ports=of_kind) for place, of_kind in by_kind]
    places = (*receives, Place(name, (), taken), replace(middle, entered=taken, left=_GIVEN), *sends)
    return replace(whole, places=places)
