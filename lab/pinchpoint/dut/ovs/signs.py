"""What the counters of Open vSwitch say of causes, as typed signs. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from pinchpoint.dut.ovs.dropping import BY_RULES, BY_TRACKING, MIRRORED
from pinchpoint.dut.ovs.exercised import LIMIT
from pinchpoint.dut.ovs.tc import HARDWARE, SOFTWARE
from pinchpoint.model.causes import Sign
from pinchpoint.model.offload import OffloadLimit

MISSING: Final = 0.01  # share of the frames: counters are read one after the other
TRACKING: Final = "ovs/conntrack/"
Seen = Mapping[str, float]


def signs(seen: Seen) -> Mapping[Sign, float]:
    """All of them; what was not read is absent."""
    return dict(_signs(seen))


def _signs(seen: Seen) -> Iterator[tuple[Sign, float]]:
    threads = sorted({name.split("/")[2] for name in seen if name.startswith("ovs/pmd/")})
    hits, searched = (_sum(seen, threads, f"ovs/pmd/{{}}/{name}") for name in ("megaflow_hits", "subtable_lookups"))
    if hits and searched is not None:
        yield Sign.SUBTABLES, max(1.0, searched / hits)
    if (spent := _upcall_share(seen, threads)) is not None:
        yield Sign.SLOW_PATH_TIME, spent
    if "ovs/flows/flows" in seen and seen.get("ovs/flows/flow_limit"):
        yield Sign.FLOWS_OF_LIMIT, seen["ovs/flows/flows"] / seen["ovs/flows/flow_limit"]
    if tracked := list(_of_limits(seen)):
        yield Sign.TRACKED_OF_LIMIT, max(tracked)
    yield from _of_offload(seen, threads)
    yield from _of_rules(seen)
    entered = _sum(seen, threads, "ovs/pmd/{}/packets_received")
    if entered:
        if hits is not None:
            passes = entered + (_sum(seen, threads, "ovs/pmd/{}/packet_recirculations") or 0)
            yield Sign.WILDCARD_SHARE, hits / passes
        yield Sign.UNTRACKED, seen.get("ovs/coverage/conntrack_full", 0.0) / entered
        contended = [value for name, value in seen.items() if name.endswith("/vhost_tx_contention")]
        if contended:
            yield Sign.CONTENDED, sum(contended) / entered


def _of_limits(seen: Seen) -> Iterator[float]:
    """Tracked connections in all and in each zone, of what there may be."""
    for name, limit in seen.items():
        if name.startswith(TRACKING) and name.endswith("/limit") and limit:
            connections = seen.get(f"{name.removesuffix('/limit')}/connections")
            if connections is not None:
                yield connections / limit


def _of_rules(seen: Seen) -> Iterator[tuple[Sign, float]]:
    """Whose the drops of the pipeline are: of rules that drop, of those after connection tracking, of mirrors."""
    dropped, by_rules = seen.get("ovs/coverage/drop_action_of_pipeline"), seen.get(BY_RULES)
    if dropped and by_rules is not None:
        yield Sign.RULES_NAMED, min(1.0, by_rules / dropped)
    if by_rules:
        yield Sign.DROPS_OF_TRACKING, seen.get(BY_TRACKING, 0.0) / by_rules
    targets = {name.removeprefix(MIRRORED) for name in seen if name.startswith(MIRRORED)}
    received = {
        name.split("/")[2]: count
        for name, count in seen.items()
        if name.startswith("ovs/port/") and name.endswith("/rx_pkts")
    }
    if entered := sum(received.values()):
        yield Sign.MIRRORED_TO, sum(received.get(port, 0.0) for port in targets) / entered


def _of_offload(seen: Seen, threads: list[str]) -> Iterator[tuple[Sign, float]]:
    """What is claimed, and what software saw: the lookups of the kernel's datapath, or the threads' packets.

    Flows claim by their flags, `upcall/show` by the number that it calls offloaded: all that were put into tc. A port's
    own count of received frames has those that its hardware forwards.
    """
    yes, partial, no = (seen.get(f"ovs/offload/{word}", 0.0) for word in ("yes", "partial", "no"))
    claimed = max(yes + partial, min(seen.get("ovs/flows/offloaded", 0.0), yes + partial + no))
    if flows := yes + partial + no:
        yield Sign.CLAIMED, claimed / flows
    received = [n for name, n in seen.items() if name.startswith("ovs/port/") and name.endswith("/rx_pkts")]
    software = _sum(seen, threads, "ovs/pmd/{}/packets_received")
    if software is None and "ovs/lookups/hit" in seen:
        software = seen["ovs/lookups/hit"] + seen.get("ovs/lookups/missed", 0)
        if claimed:
            software = _with_tc(software, sum(received), seen)
    entered = float(sum(received))
    if software is not None and entered:
        yield Sign.SOFTWARE, software / entered


def _with_tc(software: float, entered: float, seen: Seen) -> float | None:
    """Frames of software, those of tc included, which never asks the datapath. None where some are in no counter.

    A filter that ended between two readings took its frames along; hardware is believed only where it counted.
    """
    software += seen.get(SOFTWARE, 0.0)
    return software if software + seen.get(HARDWARE, 0.0) >= entered * (1 - MISSING) else None


def _upcall_share(seen: Seen, threads: list[str]) -> float | None:
    """Of the busiest thread's busy time; its clock is what its own counters grew by."""
    elapsed_s, shares = seen.get("elapsed_s/pmd"), list[float]()
    for thread in threads:
        spent_us = seen.get(f"ovs/perf/{thread}/upcall_us")
        busy, idle = (seen.get(f"ovs/pmd/{thread}/{name}_cycles") for name in ("processing", "idle"))
        if spent_us is not None and elapsed_s and busy and idle is not None:
            shares.append(spent_us / 1e6 / (elapsed_s * busy / (busy + idle)))
    return min(1.0, max(shares)) if shares else None


def _sum(seen: Seen, threads: list[str], name: str) -> float | None:
    known = [value for thread in threads if (value := seen.get(name.format(thread))) is not None]
    return sum(known) if known else None


def offload_limits(seen: Seen) -> Mapping[OffloadLimit, float]:
    """The share of the frames that each known limit keeps in software."""
    return {limit: seen[name] for limit in OffloadLimit if (name := LIMIT + limit.name.lower()) in seen}
