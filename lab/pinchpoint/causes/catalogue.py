"""The causes that the lab knows, by workload, one row each: name and title, signature, remedy, counter-experiment.

A newcomer adds a row, and nothing else. A signature makes a cause likely; only its counter-experiment confirms it.
docs/causes.md comes from these rows.
"""

import math
from typing import Final

from pinchpoint.account.cpus import FOREIGN
from pinchpoint.account.validity import ENGINE_FULL
from pinchpoint.causes.signature import HELD_UP, MOST, NOTABLE, SEEN, Any, Cause, Is, Lost, Try, Unless, Weight, lost
from pinchpoint.model.causes import Experiment, Sign, Signs
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.limits import SATURATED, Resource
from pinchpoint.model.result import FAR_BELOW_MRR, Limit
from pinchpoint.model.units import FULL

EXHAUSTED: Final = 0.99  # of a table's places: it is read once, while entries come and go
FLOWS_FULL: Final = 0.95  # of the limit of flows: idle ones are deleted all the time
BUSY: Final = Is(Sign.BUSY, at_least=SATURATED)
HEADROOM: Final = Is(Sign.BUSY, below=SATURATED)
# What a thread does for each frame bounds what it forwards, also where pauses cost more of the loss-free rate.
WORKS: Final = Is(Sign.BUSY, at_least=MOST)
BATCH: Final = 32  # frames that a polling thread takes at most in a turn (rte_eth_rx_burst, NETDEV_MAX_BURST)

FRAME_IN_RULES: Final = 300  # rules that take a kernel the time in which it forwards a frame, about

_BY_RULES = Lost((DropKind.RULE,), NOTABLE)
_UNNAMED_RULE = Is(Sign.RULES_NAMED, below=MOST)
_MIRRORED = Is(Sign.MIRRORED_TO, at_least=NOTABLE)
_NO_PLACE = Is(Sign.TRACKED_OF_LIMIT, at_least=EXHAUSTED)
_COUNTED_PLACES = (Sign.TRACKED, Sign.TRACKING_LIMIT)
_RECEIVE = (DropKind.RECEIVE_RING, DropKind.KERNEL_QUEUE)
_LOST_IN_FRONT = Lost(_RECEIVE, MOST)
_LOST_IN_RING = Lost((DropKind.RECEIVE_RING,), MOST)
_LOST_BEHIND = Lost((DropKind.TRANSMIT_RING,), MOST)
_NOT_IDLE = Unless(Is(Sign.BUSY, below=MOST))
_WAITS = Is(Sign.WAITED, at_least=MOST)
_FEW = Is(Sign.RING, below=4 * BATCH)
_REFUSED = Is(Sign.REFUSED, at_least=NOTABLE)  # of fewer the others that failed are no consequence
_NO_PLACE_LEFT = Any((_REFUSED, Is(Sign.USED, at_least=0.97)))  # a gauge is read after the load
_FULL_CPU = Is(Sign.FULLEST, at_least=SATURATED)
_NO_TIME_LEFT = Any((_REFUSED, _FULL_CPU))
_SPEED_UP = "another core, a faster datapath, or less work for each frame"
_ONE_EACH = "give it more CPUs, each of which gets a thread and its share of the connections"


def share_of(sign: Sign) -> Weight:
    """As much as the sign says."""
    return lambda signs: min(1.0, max(0.0, signs.values.get(sign, 0.0)))


def excess_of(sign: Sign) -> Weight:
    """What is more than once: of 4 passes, 3 of 4 parts."""
    return lambda signs: max(0.0, 1 - 1 / signs.values[sign]) if signs.values.get(sign) else 0.0


def product(*weights: Weight) -> Weight:
    """The product of several weights, for a cause that needs all of them."""
    return lambda signs: math.prod(weight(signs) for weight in weights)


def _headroom(signs: Signs) -> float:
    """What the device could forward more if it never had to wait: up to what it forwards under overload."""
    known = signs.values.get(Sign.NDR_OF_MRR, signs.values.get(Sign.BUSY, 0.0))
    return max(0.0, 1 - known)


_of_pauses = product(lost(DropKind.RECEIVE_RING), _headroom)
_of_unnamed_rules = product(lost(DropKind.RULE), lambda signs: 1 - signs.values[Sign.RULES_NAMED])


def _of_small_ring(signs: Signs) -> float:
    """Where the thread was kept from its core, that comes first: a larger ring would only bridge it."""
    if _FEW.holds(signs):  # busy with turns for few frames each
        return lost(DropKind.RECEIVE_RING)(signs)
    return lost(DropKind.RECEIVE_RING)(signs) * _headroom(signs) * (0.5 if _WAITS.holds(signs) else 1.0)


def _of_waits(signs: Signs) -> float:
    """A thread that is busy all the time forwards more by no more than the time that it waited."""
    waited = share_of(Sign.WAITED_SHARE)(signs)
    return waited if BUSY.holds(signs) else max(waited, lost(*_RECEIVE)(signs) * _headroom(signs))


CATALOGUE: Final[tuple[Cause, ...]] = (
    Cause("rule-drop", "a rule that drops",
        (_BY_RULES, Unless(_UNNAMED_RULE), Unless(Is(Sign.DROPS_OF_TRACKING, at_least=MOST))),
        "find the rule by its counter in the dump beside the result, and let the frames pass",
        Try(Experiment.PLAIN, "no frame is dropped by a rule, and the rate rises"), observed=Sign.RULES_NAMED,
        without_keys="find the rule by its counter, and let the frames pass"),
    Cause("mirror-port", "frames that enter at a mirror's output port, which accepts none",
        (_BY_RULES, _UNNAMED_RULE, _MIRRORED),
        "give the mirror an output port of its own",
        explains=_of_unnamed_rules),
    Cause("no-rule", "frames that the pipeline drops without a drop rule",
        # Frames without a place in the table of connections are dropped by no rule.
        (_BY_RULES, _UNNAMED_RULE, Unless(_MIRRORED), Unless(_NO_PLACE)),
        "trace such a frame through the tables: no rule of a table matches it, or its output port accepts none",
        Try(Experiment.PLAIN, "no frame is dropped, and the rate rises"),
        explains=_of_unnamed_rules),
    Cause("policer", "a policer or a QoS limit",
        (Lost((DropKind.POLICER,), NOTABLE),),
        "raise the limit of the port, or remove it"),
    Cause("meter", "a meter",
        (Lost((DropKind.METER,), NOTABLE),),
        "raise the meter's rate or burst, or remove it from the rules",
        Try(Experiment.PLAIN, "no frame is dropped by the meter, and the rate rises")),
    Cause("mtu", "frames larger than a port's MTU",
        (Lost((DropKind.MTU,), NOTABLE),),
        "raise the MTU of the port, or send shorter frames",
        Try(Experiment.SHORT_FRAMES, "the shortest frames pass")),
    Cause("reverse-path", "the filter of source addresses (rp_filter)",
        (Lost((DropKind.SOURCE,), NOTABLE),),
        "give the device a route to the sources by the port at which their frames enter, or set rp_filter = 0, there "
        "and in all"),
    Cause("neighbour", "a next hop whose Ethernet address the device does not know",
        (Is(Sign.NEIGHBOURS, at_least=1.0),
         Any((Lost((DropKind.NEIGHBOUR,), NOTABLE), Is(Sign.UNNAMED, at_least=NOTABLE)))),
        "see ip neighbour in its namespace: give the next hop a permanent entry, or let it answer",
        explains=lambda signs: min(1.0, lost(DropKind.NEIGHBOUR)(signs) + share_of(Sign.UNNAMED)(signs))),
    Cause("malformed", "frames that the device considers malformed",
        (Lost((DropKind.MALFORMED,), NOTABLE),),
        "check header lengths, checksums and time to live of the frames sent"),
    Cause("buffers", "no free packet buffers",
        (Lost((DropKind.BUFFERS,), NOTABLE),),
        "give the process that ran out of them more memory (the engine: engine.memory_mb)",
        without_keys="give the process that ran out of them more memory"),
    Cause("tracking-limit", "the limit of tracked connections",
        (Any((_NO_PLACE, Is(Sign.UNTRACKED, at_least=SEEN), Lost((DropKind.TRACKING,), NOTABLE))),),
        "raise the limit, or shorten the time-outs of connections",
        Try(Experiment.LARGE_TRACKING_LIMIT, "every connection finds a place, and the rate changes"),
        # The table is full or it is not: how much of the time goes into connections that find no place is not counted.
        explains=lambda signs: 1.0, slows=False, shows=_COUNTED_PLACES),
    Cause("tracked-drop", "a rule that drops what connection tracking marked invalid or had no room for",
        (_BY_RULES, Is(Sign.RULES_NAMED, at_least=MOST), Is(Sign.DROPS_OF_TRACKING, at_least=MOST)),
        "see the limit of the zone's connections, their states and their time-outs",
        Try(Experiment.NO_TRACKING, "no frame is dropped by the rule, and the rate rises"),
        shows=(Sign.TRACKED_OF_LIMIT, *_COUNTED_PLACES)),
    Cause("flow-limit", "the limit of datapath flows",
        (Is(Sign.FLOWS_OF_LIMIT, at_least=FLOWS_FULL), Is(Sign.SLOW_PATH, at_least=SEEN)),
        "raise the limit, or match fewer fields so that fewer flows are made",
        Try(Experiment.LARGE_FLOW_LIMIT,
            "flows stay in the table, the slow path has nothing to do, and the rate rises"),
        explains=share_of(Sign.FLOWS_OF_LIMIT)),
    Cause("false-offload", "an offload that is claimed but not active: software forwards",
        (Is(Sign.CLAIMED, at_least=NOTABLE), Is(Sign.SOFTWARE, at_least=NOTABLE)),
        "see which action keeps flows in software: connection tracking of one-way UDP, ICMP, fragments, groups, "
        "recirculation",
        explains=product(share_of(Sign.CLAIMED), share_of(Sign.SOFTWARE))),
    Cause("one-way", "connections seen in one direction only, which stay in software",
        (Is(Sign.ONE_WAY, at_least=MOST), Is(Sign.CLAIMED, at_least=NOTABLE), Is(Sign.SOFTWARE, at_least=NOTABLE)),
        "send traffic both ways, as real connections do, before judging the offload",
        Try(Experiment.BOTH_WAYS,
            "the replies establish the connections, hardware takes them, and the rate of each direction rises"),
        # Few offloads need a reply: that software forwards at all has other causes as often.
        explains=product(share_of(Sign.ONE_WAY), share_of(Sign.SOFTWARE), lambda signs: 0.5)),
    Cause("slow-path", "new flows, each set up by the slow path",
        (Any((Is(Sign.SLOW_PATH_TIME, at_least=NOTABLE), Lost((DropKind.SLOW_PATH,), NOTABLE))),),
        "match fewer fields, keep flows for longer, or send fewer new five-tuples a second",
        Try(Experiment.FEW_FLOWS, "the flows are learnt once, the slow path has nothing to do, and the rate rises"),
        explains=lambda signs: max(share_of(Sign.SLOW_PATH_TIME)(signs), lost(DropKind.SLOW_PATH)(signs))),
    Cause("recirculation", "more than one pass through the datapath, as connection tracking and tunnels need",
        (WORKS, Is(Sign.PASSES, at_least=1 + NOTABLE)),
        "track only what must be tracked, and give established connections a rule of their own",
        Try(Experiment.NO_TRACKING, "every frame passes once, and the rate rises"),
        explains=excess_of(Sign.PASSES)),
    Cause("masks", "many masks: the classifier searches subtable after subtable",
        (WORKS, Is(Sign.SUBTABLES, at_least=2.0), Is(Sign.WILDCARD_SHARE, at_least=NOTABLE)),
        "let rules match the same fields with the same masks",
        Try(Experiment.FEW_FLOWS, "few subtables are searched, and the rate rises"),
        explains=product(share_of(Sign.WILDCARD_SHARE), excess_of(Sign.SUBTABLES))),
    Cause("many-flows", "more five-tuples than the caches hold",
        (WORKS, Is(Sign.WILDCARD_SHARE, at_least=MOST), Is(Sign.SUBTABLES, below=2.0)),
        "send fewer five-tuples at once, or spread them over more cores",
        Try(Experiment.FEW_FLOWS, "the device's caches and the processor's hold them, and the rate rises"),
        # A hit of a cache costs the rest of the work.
        explains=product(share_of(Sign.WILDCARD_SHARE), lambda signs: 0.5)),
    Cause("linear-rules", "a chain walked rule by rule",
        (Is(Sign.RULES_WALKED, at_least=0.1 * FRAME_IN_RULES), Lost((DropKind.KERNEL_QUEUE,), MOST), _NOT_IDLE),
        "match by a set or a verdict map, which answers in one step, or put the rules that match most frames first",
        Try(Experiment.PLAIN, "no rule is walked, and the rate rises"),
        explains=lambda signs: 1 / (1 + FRAME_IN_RULES / signs.values[Sign.RULES_WALKED])),
    Cause("copies", "each frame is sent more than once",
        (Is(Sign.COPIES, at_least=1 + NOTABLE),),
        "name one output port: flooding sends to every port",
        Try(Experiment.ONE_OUTPUT, "one frame leaves for each that enters, and the rate rises"),
        explains=excess_of(Sign.COPIES)),
    Cause("imbalance", "one forwarding thread does the work of several",
        (BUSY, Is(Sign.IDLEST, below=MOST)),
        "give the ports more queues (port.queues), and spread them evenly",
        Try(Experiment.MORE_CORES, "the queues are redistributed, and the rate rises"),
        explains=lambda signs: signs.values[Sign.BUSY] - signs.values[Sign.IDLEST],
        without_keys="give the ports more queues, and spread them evenly"),
    Cause("main-thread", "the device's main thread forwards",
        (Any((Is(Sign.ON_MAIN_THREAD, at_least=MOST), Is(Sign.LOST_ON_MAIN, at_least=MOST))),
         Is(Sign.BUSY, at_least=NOTABLE)),
        "move the ports to threads that do nothing else",
        explains=lambda signs: max(
            product(share_of(Sign.ON_MAIN_THREAD), share_of(Sign.BUSY))(signs), share_of(Sign.LOST_ON_MAIN)(signs))),
    Cause("contention", "forwarding threads that wait for each other's transmit queue",
        (Is(Sign.CONTENDED, at_least=0.01),),
        "give the port as many queues as there are forwarding threads",
        Try(Experiment.MORE_CORES, "the contention grows with the threads"),
        explains=share_of(Sign.CONTENDED)),
    Cause("small-ring", "a ring too short for this host's pauses, or for the bursts that are sent",
        # Fewer than four batches do not keep both ends of a ring at work: each turn then moves few frames.
        (_LOST_IN_RING, Any((HEADROOM, _FEW)),
         Any((Is(Sign.ENGINE_GAP, at_least=1.0), Is(Sign.BURST_OF_RING, at_least=MOST)))),
        "raise port.ring",
        Try(Experiment.LARGE_RING, "a larger ring bridges the pauses, and the loss-free rate rises"),
        explains=_of_small_ring, without_keys="give the port a longer ring"),
    Cause("pauses", "the device pauses on its own",
        # The longest of many gaps differs between any two cores of a host, seldom by more than this.
        (_LOST_IN_RING, Is(Sign.SILENCE, at_least=1.0), Is(Sign.SILENCE_OF_GAP, at_least=2.0)),
        "see its log for what it did meanwhile; a larger port.ring bridges the pause",
        Try(Experiment.LARGE_RING, "a larger ring loses less in each pause, and the loss-free rate rises"),
        explains=_of_pauses,
        without_keys="see its log for what it did meanwhile; a longer ring bridges the pause"),
    Cause("preempted", "another process on the forwarding thread's core",
        (_LOST_IN_FRONT, Any((_WAITS, Is(Sign.WAITED_SHARE, at_least=NOTABLE))),
         Is(Sign.WAITED_SHARE, at_least=HELD_UP), Unless(Is(Sign.SILENCE, at_least=1.0))),
        "keep others off the core: isolcpus, cpusets, or another CPU for the thread",
        explains=_of_waits),
    Cause("short-of-ring",
        "pauses or bursts that overflow the ring at this load, while the device could forward more",
        (_LOST_IN_RING, Is(Sign.NDR_OF_MRR, below=FAR_BELOW_MRR), Is(Sign.RING_S, at_least=0.0)),
        "raise port.ring: twice the ring absorbs the same pause at twice the load, up to what the device forwards",
        Try(Experiment.LARGE_RING, "a larger ring absorbs the pauses at higher loads, and the loss-free rate rises"),
        explains=_of_pauses,
        without_keys="give the port a longer ring: twice the ring absorbs the same pause at twice the load"),
    Cause("line-rate", "a saturated link, for which frames wait",
        (Is(Sign.LINE_SHARE, at_least=FULL), _LOST_BEHIND),
        "use a faster link or more ports; smaller frames load the device more on the same link",
        limit=Limit.WIRE),
    Cause("flow-control", "pause frames: the device's NIC holds the generator back",
        (Is(Sign.PAUSES, at_least=1.0), _LOST_IN_RING),
        "turn flow control off (ethtool -A INTERFACE rx off tx off), so that frames are lost where there is no room "
        "for them",
        # Why the NIC's queue was full has a cause of its own; pauses only move the loss to the sender.
        explains=lambda signs: 0.5 * lost(DropKind.RECEIVE_RING)(signs)),
    Cause("receiver", "the receiver behind the device is too slow",
        (_LOST_BEHIND, Is(Sign.ENGINE_BUSY, at_least=SATURATED)),
        "give the engine another CPU (engine.cpus)",
        Try(Experiment.MORE_ENGINE_CORES, "the engine takes what the device sends, and the rate rises"),
        limit=Limit.GENERATOR, party=Party.ENGINE, without_keys="give the receiver another CPU"),
    Cause("transmit-ring", "a full ring behind the device while its receiver is idle",
        (_LOST_BEHIND, Is(Sign.ENGINE_BUSY, below=SATURATED)),
        "raise port.ring: the receiver is away for longer than the ring holds",
        Try(Experiment.LARGE_RING, "a larger ring bridges the receiver's pauses, and the loss-free rate rises"),
        without_keys="give the port a longer ring"),
)  # fmt: skip

OWN_SPEED = Cause("own-speed", "the device's own speed at this work",
    # Of a ring that holds few frames each turn takes few: what is forwarded under overload is the ring's doing as well.
    (_LOST_IN_FRONT, Is(Sign.NDR_OF_MRR, at_least=FAR_BELOW_MRR), _NOT_IDLE, Unless(_FEW)),
    _SPEED_UP,
    Try(Experiment.PLAIN, "plain forwarding is as slow: the rules cost nothing"),
    explains=lambda signs: 1.0,
    limit=Limit.FORWARDING_CORE, party=Party.DUT, shows=(Sign.CYCLES, Sign.SQUEEZES))  # fmt: skip
"""Where what is forwarded stops rising with the load, and nothing in particular explains it."""


SOCKETS: Final[tuple[Cause, ...]] = (
    Cause("plan-kept", "the rate that was planned", (Is(Sign.PLAN_KEPT, at_least=0.99),),
        "plan more, or nothing: then a transaction begins when another ends", limit=Limit.PLANNED_RATE),
    Cause("full-client", "the client's thread", (_FULL_CPU,), _ONE_EACH, limit=Limit.SENDER_CORE),
    Cause("full-server", "the server's thread", (_FULL_CPU,), _ONE_EACH, limit=Limit.RECEIVER_CORE),
    Cause("full-switch", "the switch", (_FULL_CPU,), _SPEED_UP, limit=Limit.FORWARDING_CORE),
    Cause("full-relay", "the relay", (_FULL_CPU,), "use ports that need no relay", limit=Limit.RELAY_CORE),
    Cause("other-processes", "processes outside the bench", (Is(Sign.OUTSIDE, at_least=math.nextafter(FOREIGN, 1)),),
        "keep others off these CPUs: isolcpus, cpusets, or other CPUs for the bench", limit=Limit.HOST),
    Cause("shared-cpu", "a CPU that several ends share", (_FULL_CPU,), "give each its own CPU", limit=Limit.HOST),
    Cause("round-trips", "connections that each wait for an answer", (Is(Sign.UNDER_WAY, at_least=0.85, below=1.15),),
        "open more connections, or shorten the wait: CPUs that do not sleep, less work", limit=Limit.LATENCY),
    Cause("source-ports", "the client's source ports", (Is(Sign.PORTLESS, at_least=1.0),),
        "more addresses, a wider ip_local_port_range, or connections that last", limit=Limit.SOURCE_PORTS),
)  # fmt: skip
"""What limits sockets, the first that fits. A thread is judged by figures of its own."""


def _spent(of: Resource, title: str, mend: str, sign: Is | Any = _NO_PLACE_LEFT, limit: Limit | None = None) -> Cause:
    """The row of a resource that connections exhaust, named after it; `limit` where a verdict calls it otherwise."""
    return Cause(of.replace(" ", "-"), title, (sign,), mend, limit=limit or Limit[of.name], resource=of)


CONNECTIONS: Final[tuple[Cause, ...]] = (
    _spent(Resource.BACKEND, "a backend that refuses, or answers fewer than others",
        "see what it does with its connections", Any((Is(Sign.BEHIND, at_least=1.0), _REFUSED))),
    _spent(Resource.LOCAL_PORTS, "the local ports towards backends",
        "more local addresses or ports, or a shorter memory of closed connections"),
    _spent(Resource.TABLE, "the table of connections", "raise the limit, or shorten the time-outs of connections"),
    _spent(Resource.MEMORY, "the memory for connections", "more memory, or fewer connections at once"),
    _spent(Resource.DESCRIPTORS, "the files that a process may open",
        "raise the limit (RLIMIT_NOFILE): a proxy opens two for each connection"),
    _spent(Resource.QDISC, "a queueing discipline that drops", "raise its rate or limit, or remove it (tc)",
        limit=Limit.NAMED_DROP),
    _spent(Resource.WORKER, "the worker's core", "more workers, each with a core, or less work for each connection",
        _NO_TIME_LEFT, Limit.WORKER_CORE),
    _spent(Resource.SOFTIRQ, "the kernel's softirq or its backlog",
        "spread the ports' queues over more CPUs (rps_cpus), or raise net.core.netdev_max_backlog", _NO_TIME_LEFT),
    _spent(Resource.ACCEPT_QUEUE, "the accept queue", "a longer backlog, within net.core.somaxconn"),
    _spent(Resource.GENERATOR, "the engine's core", "give the engine another CPU (engine.cpus)",
        Is(Sign.FULLEST, at_least=ENGINE_FULL)),
)  # fmt: skip
"""What ends loads of connections. Each resource is judged by figures of its own."""

BY_WORKLOAD: Final = {"Frames": (*CATALOGUE, OWN_SPEED), "Sockets": SOCKETS, "Connections": CONNECTIONS}
OF_LIMIT: Final = {cause.limit: cause for cause in SOCKETS}
OF_RESOURCE: Final = {cause.resource: cause for cause in CONNECTIONS}
"""The rows of sockets by what they limit, those of connections by what they lack."""

UNEXPLAINED: Final = Cause("unexplained", "nothing that was observed", (), "", limit=Limit.UNEXPLAINED)
"""Always fits: for where no row does."""


def by_name(name: str) -> Cause:
    """The row of that name. Raises KeyError."""
    return {cause.name: cause for rows in BY_WORKLOAD.values() for cause in rows}[name]
