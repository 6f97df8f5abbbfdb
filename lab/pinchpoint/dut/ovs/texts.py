"""What people have of a switch: text that its commands printed, read by the collectors that read a running one. Pure.

Which command printed a line, the line itself tells; so one file may hold several outputs, and names of files do not
matter, but for the bridge at the end of that of a `dump-ports`, as in a sosreport. Counts are totals since the switch
began to count. Hostile text costs no more time than its length: lines are bounded, and so are runs within them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pinchpoint.dut.ovs import text as ovs_text
from pinchpoint.dut.ovs.collectors import FlowDump, PmdThreads, of_datapath
from pinchpoint.dut.ovs.flows import FlowListing, datapath_flow_counts
from pinchpoint.dut.ovs.kinds import KIND, OWN_PORT, POLLED, by_counters, is_counted_elsewhere, kind_of
from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath
from pinchpoint.model.watch import TextReading
from pinchpoint.observe.snapshot import paths

MARKS: Final = (
    *(b"pmd thread numa_id", b"main thread:", b"Event coverage", b"OFPST_PORT", b"lookups: hit:", b"flow-dump from"),
    *(b"recirc_id(", b"ovs_version", b" : (current "),
)
"""Of which each text begins with one."""
MOST_CHARS: Final = 8_192  # of a line: a flow with every field that it may match is shorter
MOST_FLOWS: Final = 200_000
_LONG: Final = re.compile(r"\s{17,}|\w{257,}")
_STATS, _PERF, _RXQ = (f"dpif-netdev/pmd-{name}-show" for name in ("stats", "perf", "rxq"))
_IS_PERF: Final = re.compile(r"^\s+(?:Iterations|- Used TSC cycles|Rx packets):")
_IS_RXQ: Final = re.compile(r"^\s+(?:port:|isolated\s*:|overhead:)")
_DESCRIPTION: Final = re.compile(r"^ (\w+)\(([^)]+)\): ", re.MULTILINE)
_REPLY: Final = re.compile(r"^OFPST_PORT reply", re.MULTILINE)
_INTERFACE: Final = re.compile(r'^\s+Interface "?([^\s"]+)"?$')
_TYPE: Final = re.compile(r"^\s+type: (\S+)$")
_IN_USERSPACE: Final = ("netdev@", "flow-dump from pmd")
_DURATION: Final = re.compile(r"^Measurement duration: (\d{1,12}\.\d{1,6}) s", re.MULTILINE)
_OF_PERF: Final = re.compile(r"^\s*(?:- )?([A-Za-z][A-Za-z ]*):\s+(\d{1,19})\s*(?:\((.*)\))?\s*$")
_OF_USED: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3})?) % of used cycles")
_SEARCHED: Final = re.compile(r"(\d{1,9}\.\d{1,9}) subtbl lookups/hit")
_AS_STATS: Final = {
    "Rx packets": "packets received", "EMC hits": "emc hits", "SMC hits": "smc hits", "Megaflow hits": "megaflow hits",
    "Upcalls": "miss with success upcall", "Lost upcalls": "miss with failed upcall",
}  # fmt: skip
_PORTS, _COVERAGE, _FLOWS = "ovs-ofctl dump-ports BRIDGE", "coverage/show", "dpctl/dump-flows -m"
_TELLS: Final = {
    _STATS: "how busy its threads are",
    _RXQ: "which thread polls which port",
    _PORTS: "what each port received, sent and dropped",
    _COVERAGE: "what the datapath dropped",
    _FLOWS: "masks and offload",
}
"""Command -> what its output tells."""


class Sorted:
    """The texts by the commands that printed them; answers these commands as the switch would."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.rest: dict[str, str] = {}  # file -> its lines that are of no thread
        blocks: dict[str, list[str]] = {_STATS: [], _PERF: [], _RXQ: []}
        for name, text in texts.items():
            rest = list[str]()
            for is_of_thread, lines in _blocks(text):
                (blocks[_command(lines)] if is_of_thread else rest).extend(lines)
            self.rest[name] = "\n".join(rest)
        self.threads = {command: "\n".join(lines) for command, lines in blocks.items()}
        self.all = "\n".join(self.rest.values())
        self.flows = len(datapath_flow_counts(self.all))

    def call(self, command: str, *arguments: str) -> str:
        """What it printed, with what others printed, which parsers skip; empty where nothing did."""
        if command == _STATS and not self.threads[_STATS]:
            return _stats_of(self.threads[_PERF])
        if command in self.threads:
            return self.threads[command]
        count = f"  flows: {self.flows}\n" if ovs_text.datapath_flows(self.all) is None and self.flows else ""
        return count + self.all


def _stats_of(perf: str) -> str:
    """`pmd-stats-show` as far as `pmd-perf-show` says the same: Open vSwitch 4.0 has the latter alone."""
    lines, used, received = list[str](), 0, 0
    for line in perf.splitlines():
        if ovs_text.is_thread(line):
            lines.append(line)
        elif counted := _OF_PERF.match(line):
            name, count, more = counted[1], int(counted[2]), counted[3] or ""
            used = count if name == "Used TSC cycles" else used
            received = count if name == "Rx packets" else received
            if name in _AS_STATS:
                lines.append(f"  {_AS_STATS[name]}: {count}")
            if name == "Datapath passes":
                lines.append(f"  packet recirculations: {max(0, count - received)}")
            if share := _OF_USED.search(more):
                word = "processing" if name.startswith("busy") else "idle"
                lines.append(f"  {word} cycles: {round(used * float(share[1]) / 100)}")
            if searched := _SEARCHED.search(more):
                lines.append(f"  avg. subtable lookups per megaflow hit: {searched[1]}")
    return "\n".join(lines)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if len(line) <= MOST_CHARS and not line.isspace() and line:
            yield _LONG.sub(" ", line)


def _blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """(whether they are a thread's, lines): those of a thread are its heading and what is indented below it."""
    block, is_of_thread = list[str](), False
    for line in _lines(text):
        is_heading = ovs_text.is_thread(line)
        if is_heading or (is_of_thread and not line[0].isspace()):
            yield is_of_thread, block
            block, is_of_thread = [], is_heading
        block.append(line)
    yield is_of_thread, block


def _command(lines: list[str]) -> str:
    if any(map(_IS_PERF.match, lines)):
        return _PERF
    return _RXQ if any(map(_IS_RXQ.match, lines)) else _STATS


def read(texts: Mapping[str, str]) -> TextReading | None:
    """What they say; None if no switch printed them."""
    given = Sorted(texts)
    polls = any(thread != "main" for text in given.threads.values() for thread in ovs_text.thread_counters(text))
    in_userspace = polls or any(given.threads.values()) or any(word in given.all for word in _IN_USERSPACE)
    polling = _polling(given)
    by_thread = polling or Datapath.DPDK
    datapath = by_thread if polls else Datapath.AF_PACKET if in_userspace else Datapath.KERNEL
    counters, gauges = _collected(given)
    ports, kinds = _ports(given, datapath)
    counters |= paths("ovs/port", ports)
    duration = _DURATION.search(given.all)
    if duration is None:  # a time spent says nothing without the time in which it was
        counters = {name: count for name, count in counters.items() if not name.endswith("/upcall_us")}
    if not counters and not given.flows:
        return None
    elapsed_s = float(duration[1]) if duration and float(duration[1]) > 0 else 1.0
    gauges |= {"elapsed_s/pmd": elapsed_s, **kinds}
    told = {} if polls and polling is None else {"datapath": str(datapath)}
    facts = {**told, "files": str(len(texts))}
    missing = dict(_missing(given, counters, in_userspace, polls))
    return TextReading(str(datapath), tuple(ports), facts, missing, elapsed_s, counters, gauges)


def _polling(given: Sorted) -> Datapath | None:
    """The datapath of threads that poll, by the types of their ports; None where no type tells."""
    types = {interface_type for _, interface_type in _types(given.all)}
    named = (datapath for begin, datapath in POLLED.items() if any(name.startswith(begin) for name in types))
    return next(named, None)


def _collected(given: Sorted) -> tuple[dict[str, int], dict[str, float]]:
    """Counters and gauges, as the collectors of a running switch have them; of flows since they were made."""
    counters, gauges = dict[str, int](), dict[str, float]()
    for collector in (*of_datapath(given, MOST_FLOWS), PmdThreads(given)):
        if given.flows or not isinstance(collector, FlowDump):
            shown = collector.snapshot()
            counters |= shown.counters
            gauges |= shown.gauges
            if isinstance(shown.listing, FlowListing):
                gauges |= shown.listing.since(FlowListing({}))
                counters |= shown.listing.counted(FlowListing({}))
    return counters, gauges


def _missing(given: Sorted, counters: Mapping[str, int], in_userspace: bool, polls: bool) -> Iterator[tuple[str, str]]:
    """Commands whose output would tell more, and what."""
    groups = {name.split("/")[1] for name in counters}
    missing = {
        _STATS: in_userspace and not given.threads[_STATS] and not given.threads[_PERF],
        _RXQ: polls and not given.threads[_RXQ],
        _PORTS: "port" not in groups, _COVERAGE: "coverage" not in groups, _FLOWS: not given.flows,
    }  # fmt: skip
    for command, is_missing in missing.items():
        if is_missing:
            yield command, _TELLS[command]


def _ports(given: Sorted, datapath: Datapath) -> tuple[dict[str, dict[str, int]], dict[str, float]]:
    """Counters by port, and gauges of their kinds; ports whose frames are counted elsewhere are left out."""
    names = {name: dict(_DESCRIPTION.findall(text)) for name, text in given.rest.items()}
    bridges = {name: known for known in names.values() for key, name in known.items() if key.lower() == OWN_PORT}
    types, counters, gauges = dict(_types(given.all)), dict[str, dict[str, int]](), dict[str, float]()
    for file, text in given.rest.items():
        of_bridge = [known for bridge, known in bridges.items() if file.endswith(bridge)] or list(bridges.values())
        known = of_bridge[0] if len(of_bridge) == 1 else {}
        for number, named, counted in _numbered(file if len(given.rest) > 1 else "", text):
            name = known.get(number, named)
            interface_type = types.get(name)
            if not counted.keys() & {"rx_pkts", "tx_pkts"}:
                continue
            if interface_type is not None and is_counted_elsewhere(interface_type, in_kernel=datapath in IN_KERNEL):
                continue
            name = name.replace("/", "_")
            counters[name] = counted
            kind = by_counters(counted, datapath) if interface_type is None else kind_of(interface_type, counted)
            gauges[f"{KIND}{name}"] = float(kind)
    return counters, gauges


def _numbered(file: str, text: str) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Number, a name where nothing else has one, and counters of each port.

    A port that comes again in another reply is of another bridge. A reply may come in parts.
    """
    bridges = list[dict[str, dict[str, int]]]()
    for reply in _REPLY.split(text):
        counted = ovs_text.port_counters(reply)
        if bridges and not bridges[-1].keys() & counted.keys():
            bridges[-1].update(counted)
        else:
            bridges.append(counted)
    for place, ports in enumerate(bridges, start=1):
        of = ":".join(filter(None, (file, f"bridge {place}" if len(bridges) > 1 else "")))
        for number, counters in ports.items():
            has_name = not of or not (number.isdigit() or number.lower() == OWN_PORT)
            yield number if len(bridges) == 1 else "", number if has_name else f"{of}:{number}", counters


def _types(text: str) -> Iterator[tuple[str, str]]:
    """`ovs-vsctl show`: interface and type; a system's own interfaces have none there."""
    interface = ""
    for line in text.splitlines():
        if named := _INTERFACE.match(line):
            interface = named[1]
        elif (told := _TYPE.match(line)) and interface:
            yield interface, told[1]
