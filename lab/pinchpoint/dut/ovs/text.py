"""Pure parsers of what ovs-vswitchd and ovs-ofctl print (OVS 2.13 to 3.7; columns differ by release).

Every parser takes any text and returns what it recognised: an unknown line is
skipped, a missing one is missing. Formats: ovs-vswitchd(8), ovs-ofctl(8).
"""

import re
from collections.abc import Iterator

_THREAD = re.compile(r"^(?:pmd thread numa_id -?\d+ core_id (\d+)|(main thread)):\s*$")
_KEY_COUNT = re.compile(r"^\s*-?\s*([A-Za-z][A-Za-z /-]*?)(?: \(us\))?:\s+(\d{1,19})(?![.\d])")
_COVERAGE = re.compile(r"^(\w+)\s+.*total: (\d{1,19})\s*$")
_PORT = re.compile(r"^\s*port\s+(\S+?):\s")
_PORT_VALUE = re.compile(r"(\w+)=(\d{1,19})\b(?!\.)")
_DIRECTIONS = ((" rx pkts", "rx_"), (" tx pkts", "tx_"), ("CUSTOM", ""))  # of the counters that follow
_RXQ = re.compile(r"^\s+port: (\S+)\s+queue-id:\s*(\d+)\s+\((enabled|disabled)\)\s+pmd usage:\s*(\d+|NOT AVAIL)")
_SUBTABLES = re.compile(r"^\s*avg\. subtable lookups per megaflow hit:\s+(\d{1,9}\.\d{1,9})\s*$")
_UPCALL_TIME = re.compile(r"^\s*-?\s*Upcalls:\s+(\d{1,19})\s+\([^,]*,\s*(\d{1,9}(?:\.\d{1,9})?) us/upcall\)")
_LOOKUPS = re.compile(r"lookups: hit:(?P<hit>\d{1,19}) missed:(?P<missed>\d{1,19}) lost:(?P<lost>\d{1,19})")
_FLOWS = re.compile(r"^\s+flows: (?P<flows>\d{1,19})\s*$", re.MULTILINE)
_UPCALL_FLOWS = re.compile(
    r"flows\s*: \(current (?P<flows>\d{1,19})\) \(avg \d+\) \(max \d+\) \(limit (?P<flow_limit>\d{1,19})\)"
)
_ZONE = re.compile(r"^zone=(\d{1,5}),\s*limit=(\d{1,10}),\s*count=(\d{1,10})\s*$", re.MULTILINE)
_DUMP_DURATION = re.compile(r"dump duration\s*: (?P<dump_duration_ms>\d{1,19})ms")
_RULE_COUNT = re.compile(r"flow_count=(\d{1,19})")
_OFFLOADED_FLOWS = re.compile(r"^\s*offloaded flows\s*:\s*(?P<offloaded>\d{1,18})", re.MULTILINE)


def _by_thread(text: str) -> Iterator[tuple[str, str]]:
    """(thread, line) for every line below a thread's heading; thread is `core3` or `main`."""
    thread: str | None = None
    for line in text.splitlines():
        if heading := _THREAD.match(line):
            thread = f"core{heading[1]}" if heading[1] else "main"
        elif thread is not None:
            yield thread, line


def is_thread(line: str) -> bool:
    """Whether it is the heading of a thread, below which its counters or queues are indented."""
    return _THREAD.match(line) is not None


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
    matches = ((thread, _SUBTABLES.match(line)) for thread, line in _by_thread(text))
    return {thread: round(float(match[1]) * hits.get(thread, 0)) for thread, match in matches if match}


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
        if match := _RXQ.match(line):
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
        if heading := _PORT.match(line):
            counters = ports.setdefault(heading[1].strip('"'), {})
        if counters is None:
            continue
        prefix = next((prefix for mark, prefix in _DIRECTIONS if mark in line), prefix)
        for name, value in _PORT_VALUE.findall(line):
            counters[prefix + name] = int(value)
    return ports


def _numbers(pattern: re.Pattern[str], text: str) -> dict[str, int]:
    """The groups of the first match, by their names."""
    match = pattern.search(text)
    return {name: int(value) for name, value in match.groupdict().items()} if match else {}


def datapath_lookups(text: str) -> dict[str, int]:
    """`dpctl/show`: lookups hit, missed and lost."""
    return _numbers(_LOOKUPS, text)


def zone_limits(text: str) -> dict[int, tuple[int, int]]:
    """`dpctl/ct-get-limits`: zone -> (connections, limit) of those that have a limit."""
    zones = {int(zone): (int(count), int(limit)) for zone, limit, count in _ZONE.findall(text)}
    return {zone: usage for zone, usage in zones.items() if usage[1]}


def rule_count(text: str) -> int | None:
    """`ovs-ofctl dump-aggregate`: rules of the bridge."""
    return int(match[1]) if (match := _RULE_COUNT.search(text)) else None


def datapath_flows(text: str) -> int | None:
    """`dpctl/show`: megaflows now in the datapath."""
    return _numbers(_FLOWS, text).get("flows")


def upcall_state(text: str) -> dict[str, int]:
    """`upcall/show`: `flows`, `flow_limit`, `offloaded` (flows that were put into tc) and `dump_duration_ms`."""
    return _numbers(_UPCALL_FLOWS, text) | _numbers(_OFFLOADED_FLOWS, text) | _numbers(_DUMP_DURATION, text)
