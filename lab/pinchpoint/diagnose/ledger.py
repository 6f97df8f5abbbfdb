"""The account of one trial, hop by hop, from the engine's counts and the DUT's counter differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.engine.instrument import EngineResult
from pinchpoint.model.scenario import Datapath
from pinchpoint.model.trial import Drop, Hop, Ledger

Seen = Mapping[str, float]


@dataclass(frozen=True)
class _Source:
    """A counter that names a reason for drops; `{port}` runs over the DUT's ports."""

    counter: str
    name: str
    limits: str


# netdev-dpdk's rx_dropped already contains rx_missed_errors: it is read once, as rx_drop.
_RECEIVE = (_Source("ovs/port/{port}/rx_drop", "{port} dropped on receive", "dut"),)
_LINK_DROPPED = "host/link/dut/{port}/rx_dropped"
_RECEIVE_FROM_KERNEL = {
    Datapath.AF_PACKET: (
        _Source(_LINK_DROPPED, "kernel dropped towards {port}", "host"),
        _Source("host/socket/{port}/drops", "packet socket of {port} full", "dut"),
    ),
    # The link drops what the socket's rings have no room for, whether the receive or the fill ring.
    Datapath.AF_XDP: (_Source(_LINK_DROPPED, "AF_XDP rings of {port} full", "dut"),),
    Datapath.KERNEL: (_Source(_LINK_DROPPED, "kernel dropped towards {port}", "host"),),
}
_TRANSMIT = (
    _Source("ovs/port/{port}/ovs_tx_failure_drops", "transmit ring of {port} full", "engine"),
    _Source("ovs/port/{port}/ovs_tx_mtu_exceeded_drops", "larger than the MTU of {port}", "dut"),
    _Source("ovs/port/{port}/ovs_tx_qos_drops", "QoS policy of {port}", "rules"),
    _Source("ovs/port/{port}/ovs_tx_invalid_hwol_drops", "offload flags refused by {port}", "dut"),
)
# The kernel's datapath hands a frame that no flow takes to the switch; one that finds the queue full is lost.
_UPCALLS_LOST = "ovs/lookups/lost"
_NO_BUFFERS = "engine_tx_no_buffers"
_COVERAGE_DROPS = ("ovs/coverage/datapath_drop_", "ovs/coverage/drop_action_")
# The switch followed its rules. Other drop_action_ counters are of rules that it could not follow.
_RULE_DROPS = ("ovs/coverage/drop_action_of_pipeline", "ovs/coverage/datapath_drop_meter")
# What the account reads. The rest (times of threads and CPUs, gauges) is of the time in which frames are sent.
_COUNTERS = ("ovs/port/", "ovs/coverage/", "ovs/lookups/", "host/link/", "host/socket/")
_RESET = math.nan  # stands for the growth of a counter that went back: no sum with it is a number


def settled(seen: Mapping[str, int], late: Mapping[str, int]) -> dict[str, int]:
    """What was seen when the frames ended, with the account's counters as they were read again later."""
    return {**seen, **{name: value for name, value in late.items() if name.startswith(_COUNTERS)}}


def build(
    engine: EngineResult, seen: Seen, ports: Sequence[str], datapath: Datapath, went_back: Sequence[str] = ()
) -> Ledger:
    """The ledger of a trial. Counters that `seen` lacks stay unknown (None), never zero.

    So do sums with a counter that `went_back`; the ledger names it. Frames of a stream that were not countable on
    arrival are unexplained: no counter accounts for them.
    """
    resets = tuple(name for name in went_back if name.startswith(_COUNTERS) or _is_read(name))
    seen = {**seen, **dict.fromkeys(resets, _RESET)}
    offered = sum(stream.offered for stream in engine.streams)
    received = sum(stream.received or 0 for stream in engine.streams)
    hops = [_engine_transmit(engine, datapath)]
    if datapath is not Datapath.DPDK:
        hops.append(_kernel_link(seen, ports))
    hops += [
        _receive(seen, ports, datapath),
        _datapath(seen, ports, datapath),
        _transmit(seen, ports),
        _engine_receive(engine, received),
    ]
    return Ledger(offered, received, tuple(hops), resets)


def _engine_transmit(engine: EngineResult, datapath: Datapath) -> Hop:
    # A full vhost ring is the DUT not fetching; a socket that takes no more is the kernel's sending side.
    vhost = datapath is Datapath.DPDK
    name, limits = ("receive ring of {} full", "dut") if vhost else ("socket of {} took no more", "host")
    drops = []
    for port in engine.ports:
        # The engine had no buffer to write the frame into: no ring was asked to take it.
        unbuffered = min(port.refused, port.stats.get(_NO_BUFFERS, 0))
        if unbuffered:
            drops.append(Drop(f"engine out of buffers for {port.name}", unbuffered, f"engine: {_NO_BUFFERS}", "engine"))
        if port.refused > unbuffered:
            drops.append(Drop(name.format(port.name), port.refused - unbuffered, "engine: refused", limits))
    offered = sum(stream.offered for stream in engine.streams)
    return Hop("engine sends", offered, sum(stream.sent for stream in engine.streams), tuple(drops))


def _kernel_link(seen: Seen, ports: Sequence[str]) -> Hop:
    source = _Source("host/link/engine/{port}/tx_dropped", "veth of {port} dropped", "host")
    return Hop(
        "veth",
        _total(seen, ports, "host/link/engine/{port}/tx_packets"),
        _total(seen, ports, "host/link/dut/{port}/rx_packets"),
        _drops(seen, ports, (source,)),
    )


def _receive(seen: Seen, ports: Sequence[str], datapath: Datapath) -> Hop:
    received = _total(seen, ports, "ovs/port/{port}/rx_pkts")
    if datapath is not Datapath.DPDK:
        drops = _drops(seen, ports, _RECEIVE_FROM_KERNEL[datapath])
        return Hop("switch reads", received, _read(seen, ports, datapath), drops)
    drops = _drops(seen, ports, _RECEIVE)
    dropped = _total(seen, ports, "ovs/port/{port}/rx_drop")
    return Hop("switch receives", None if received is None else received + (dropped or 0), received, drops)


def _read(seen: Seen, ports: Sequence[str], datapath: Datapath) -> int | None:
    """Frames that the datapath began to process; None if that is not known."""
    if datapath is Datapath.KERNEL:  # no thread of the switch counts them
        return _total(seen, ports, "ovs/port/{port}/rx_pkts")
    return _threads_total(seen, "packets_received")


def _datapath(seen: Seen, ports: Sequence[str], datapath: Datapath) -> Hop:
    drops = tuple(
        Drop(counter.rpartition("/")[2].replace("_", " "), int(frames), counter, _who(counter))
        for counter, frames in sorted(seen.items())
        if counter.startswith(_COVERAGE_DROPS) and frames > 0
    )
    if datapath is Datapath.KERNEL and (lost := seen.get(_UPCALLS_LOST, 0)) > 0:
        drops = (*drops, Drop("upcalls lost: the switch's queue was full", int(lost), _UPCALLS_LOST, "dut"))
    sent = _total(seen, ports, "ovs/port/{port}/tx_pkts")
    dropped = _total(seen, ports, "ovs/port/{port}/tx_drop") or 0
    return Hop("datapath", _read(seen, ports, datapath), None if sent is None else sent + dropped, drops)


def _who(counter: str) -> str:
    return "rules" if counter in _RULE_DROPS else "dut"


def _transmit(seen: Seen, ports: Sequence[str]) -> Hop:
    sent = _total(seen, ports, "ovs/port/{port}/tx_pkts")
    dropped = _total(seen, ports, "ovs/port/{port}/tx_drop") or 0
    named = _drops(seen, ports, _TRANSMIT)
    rest = dropped - sum(drop.frames for drop in named)
    if rest > 0:
        named = (*named, Drop("dropped on transmit, reason not counted", rest, "ovs/port/*/tx_drop", "dut"))
    return Hop("switch sends", None if sent is None else sent + dropped, sent, named)


def _engine_receive(engine: EngineResult, received: int) -> Hop:
    drops = [
        Drop(f"engine missed on {port.name}", port.rx_missed, "engine: rx_missed", "engine")
        for port in engine.ports
        if port.rx_missed
    ]
    corrupt = sum(stream.corrupt or 0 for stream in engine.streams)
    if corrupt:
        drops.append(Drop("arrived corrupt", corrupt, "engine: corrupt", "dut"))
    arrived = sum(port.received for port in engine.ports)
    missed = sum(port.rx_missed or 0 for port in engine.ports)
    return Hop("engine receives", arrived + missed, received, tuple(drops))


def _drops(seen: Seen, ports: Sequence[str], sources: Sequence[_Source]) -> tuple[Drop, ...]:
    found = []
    for source in sources:
        for port in ports:
            counter = source.counter.format(port=port)
            frames = seen.get(counter, 0)
            if frames > 0:
                found.append(Drop(source.name.format(port=port), int(frames), counter, source.limits))
    return tuple(found)


def _total(seen: Seen, ports: Sequence[str], counter: str) -> int | None:
    """The sum over the ports that have the counter; None if none has, or one was reset."""
    return _sum([seen[name] for port in ports if (name := counter.format(port=port)) in seen])


def _threads_total(seen: Seen, counter: str) -> int | None:
    values = [value for name, value in seen.items() if name.startswith("ovs/pmd/") and name.endswith(f"/{counter}")]
    return _sum(values)


def _is_read(name: str) -> bool:
    """Whether a thread's counter is the account's; some others are products of averages, and may fall."""
    return name.startswith("ovs/pmd/") and name.endswith("/packets_received")


def _sum(values: Sequence[float]) -> int | None:
    total = sum(values)
    return int(total) if values and not math.isnan(total) else None
