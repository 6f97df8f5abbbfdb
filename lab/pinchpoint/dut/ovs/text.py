"""Pure parsers of what ovs-vswitchd and ovs-ofctl print (OVS 2.13 to 3.7; columns differ by release).

Every parser takes any text and returns what it recognised: an unknown line is
skipped, a missing one is missing. Formats: ovs-vswitchd(8), ovs-ofctl(8).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pinchpoint.dut.ovs.offload_limits import limits_of
from pinchpoint.model.offload import OffloadLimit

_THREAD = re.compile(r"^(?:pmd thread numa_id -?\d+ core_id (\d+)|(main thread)):\s*$")
_KEY_COUNT = re.compile(r"^\s*-?\s*([A-Za-z][A-Za-z /-]*?)(?: \(us\))?:\s+(\d{1,19})(?![.\d])")
_COVERAGE = re.compile(r"^(\w+)\s+.*total: (\d{1,19})\s*$")
_PORT = re.compile(r"^\s*port\s+(\S+?):\s")
_PORT_VALUE = re.compile(r"(\w+)=(\d{1,19})\b(?!\.)")
_RXQ = re.compile(r"^\s+port: (\S+)\s+queue-id:\s*(\d+)\s+\((enabled|disabled)\)\s+pmd usage:\s*(\d+|NOT AVAIL)")
_SUBTABLES = re.compile(r"^\s*avg\. subtable lookups per megaflow hit:\s+(\d{1,9}\.\d{1,9})\s*$")
_UPCALL_TIME = re.compile(r"^\s*-?\s*Upcalls:\s+(\d{1,19})\s+\([^,]*,\s*(\d{1,9}(?:\.\d{1,9})?) us/upcall\)")
_LOOKUPS = re.compile(r"lookups: hit:(\d{1,19}) missed:(\d{1,19}) lost:(\d{1,19})")
_FLOWS = re.compile(r"^\s+flows: (\d{1,19})\s*$", re.MULTILINE)
_UPCALL_FLOWS = re.compile(r"flows\s*: \(current (\d{1,19})\) \(avg \d+\) \(max \d+\) \(limit (\d{1,19})\)")
_ZONE = re.compile(r"^zone=(\d{1,5}),\s*limit=(\d{1,10}),\s*count=(\d{1,10})\s*$", re.MULTILINE)
_DUMP_DURATION = re.compile(r"dump duration\s*: (\d{1,19})ms")
_OFFLOADED_FLOWS = re.compile(r"^\s*offloaded flows\s*:\s*(\d{1,18})", re.MULTILINE)


def _by_thread(text: str) -> Iterator[tuple[str, str]]:
    """(thread, line) for every line below a thread's heading; thread is `core3` or `main`."""
    thread: str | None = None
    for line in text.splitlines():
        heading = _THREAD.match(line)
        if heading:
            thread = f"core{heading[1]}" if heading[1] else "main"
        elif thread is not None:
            yield thread, line


def thread_counters(text: str) -> dict[str, dict[str, int]]:
    """`pmd-stats-show` or `pmd-perf-show`: thread -> counter -> value.

    Names are lower case with underscores: `packets_received`, `emc_hits`, `idle_cycles`.
    Averages are left out: they can be computed, and cannot be subtracted.
    """
    threads: dict[str, dict[str, int]] = {}
    for thread, line in _by_thread(text):
        match = _KEY_COUNT.match(line)
        counters = threads.setdefault(thread, {})
        if match and not match[1].startswith("avg"):
            counters[re.sub(r"\W+", "_", match[1].strip().lower())] = int(match[2])
    return threads


def subtable_lookups(text: str) -> dict[str, int]:
    """`pmd-stats-show`: thread -> subtables searched for its megaflow hits since its start.

    The average that is printed (two decimals) times the hits: right within 0.005 a hit.
    """
    hits = {thread: counters.get("megaflow_hits", 0) for thread, counters in thread_counters(text).items()}
    lookups: dict[str, int] = {}
    for thread, line in _by_thread(text):
        if match := _SUBTABLES.match(line):
            lookups[thread] = round(float(match[1]) * hits.get(thread, 0))
    return lookups


def upcall_time_us(text: str) -> dict[str, int]:
    """`pmd-perf-show`: thread -> microseconds that it spent in upcalls since its start.

    The average that is printed (one decimal) times the upcalls.
    """
    matches = ((thread, _UPCALL_TIME.match(line)) for thread, line in _by_thread(text))
    return {thread: round(int(match[1]) * float(match[2])) for thread, match in matches if match}


def receive_queues(text: str) -> dict[tuple[str, str, int], tuple[bool, int | None]]:
    """`pmd-rxq-show`: (thread, port, queue) -> (enabled, usage in percent or None)."""
    queues: dict[tuple[str, str, int], tuple[bool, int | None]] = {}
    for thread, line in _by_thread(text):
        match = _RXQ.match(line)
        if match:
            usage = None if match[4] == "NOT AVAIL" else int(match[4])
            queues[thread, match[1], int(match[2])] = (match[3] == "enabled", usage)
    return queues


def coverage(text: str) -> dict[str, int]:
    """`coverage/show`: counter -> total since start; counters never hit are not printed."""
    return {match[1]: int(match[2]) for line in text.splitlines() if (match := _COVERAGE.match(line))}


def port_counters(text: str) -> dict[str, dict[str, int]]:
    """`ovs-ofctl -O OpenFlow14 dump-ports`: port -> counter -> value.

    Names are `rx_pkts`, `tx_drop`, ... and the custom ones as printed. A `?` is
    something the port cannot count, and is left out.
    """
    ports: dict[str, dict[str, int]] = {}
    counters: dict[str, int] | None = None
    prefix = ""
    for line in text.splitlines():
        heading = _PORT.match(line)
        if heading:
            counters = ports.setdefault(heading[1].strip('"'), {})
        if counters is None:
            continue
        prefix = _direction(line, prefix)
        for name, value in _PORT_VALUE.findall(line):
            counters[prefix + name] = int(value)
    return ports


def _direction(line: str, current: str) -> str:
    for mark, prefix in ((" rx pkts", "rx_"), (" tx pkts", "tx_"), ("CUSTOM", "")):
        if mark in line:
            return prefix
    return current


def datapath_lookups(text: str) -> dict[str, int]:
    """`dpctl/show`: lookups hit, missed and lost."""
    match = _LOOKUPS.search(text)
    return dict(zip(("hit", "missed", "lost"), map(int, match.groups()), strict=True)) if match else {}


def zone_limits(text: str) -> dict[int, tuple[int, int]]:
    """`dpctl/ct-get-limits`: zone -> (connections, limit) of those that have a limit."""
    zones = {int(zone): (int(count), int(limit)) for zone, limit, count in _ZONE.findall(text)}
    return {zone: usage for zone, usage in zones.items() if usage[1]}


def datapath_flows(text: str) -> int | None:
    """`dpctl/show`: megaflows now in the datapath."""
    match = _FLOWS.search(text)
    return int(match[1]) if match else None


def upcall_state(text: str) -> dict[str, int]:
    """`upcall/show`: `flows`, `flow_limit`, `offloaded` (flows that were put into tc) and `dump_duration_ms`."""
    state: dict[str, int] = {}
    if match := _UPCALL_FLOWS.search(text):
        state |= {"flows": int(match[1]), "flow_limit": int(match[2])}
    if match := _OFFLOADED_FLOWS.search(text):
        state["offloaded"] = int(match[1])
    if match := _DUMP_DURATION.search(text):
        state["dump_duration_ms"] = int(match[1])
    return state


@dataclass(frozen=True)
class FlowCount:
    """One flow of the datapath, as one thread has it."""

    mask: str  # flows of one subtable have the same
    packets: int  # carried since it was made
    offload: str = "no"  # what the datapath claims: `yes`, `partial`, `no`
    limits: tuple[OffloadLimit, ...] = ()  # what is known to keep it in software


_FLOW = re.compile(
    r"^(?:ufid:(?P<ufid>[0-9a-f-]+), ?)?(?P<key>[a-z_0-9]+\(.*?), packets:(?P<packets>\d{1,19}), bytes:(?P<rest>.*)$"
)
_FLOW_THREAD = re.compile(r"^flow-dump from (?P<thread>.+?):?\s*$")
_OFFLOADED = re.compile(r"(?:^|, ?)offloaded:(\w+)")
# A field's value, then its mask; what is matched whole has none.
_VALUE = re.compile(r"(?<=[(=])[^(),=/]+(/[^(),=]+)?(?=[,)])")


def datapath_flow_counts(text: str) -> dict[str, FlowCount]:
    """`dpctl/dump-flows -m`: thread and flow -> its mask, packets and offload.

    Only the userspace datapath names threads. Every one has a table of its own, so a flow that two threads have is two,
    as in `dpctl/show`; a flow that a dump lists twice for one thread (it changed meanwhile) is one.
    """
    counts: dict[str, FlowCount] = {}
    thread = ""
    for line in text.splitlines():
        if heading := _FLOW_THREAD.match(line):
            thread = heading["thread"]
        elif flow := _FLOW.match(line):
            facts, _, actions = flow["rest"].partition(", actions:")
            claim = _OFFLOADED.search(facts)
            limits = limits_of(flow["key"], actions, is_userspace_datapath=bool(thread))
            count = FlowCount(mask_of(flow["key"]), int(flow["packets"]), claim[1] if claim else "no", limits)
            counts[f"{thread} {flow['ufid'] or flow['key']}"] = count
    return counts


def mask_of(key: str) -> str:
    """The key with every value taken out and every mask left."""
    return _VALUE.sub(lambda value: value[1] or "*", key)
