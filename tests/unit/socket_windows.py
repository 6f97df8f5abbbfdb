"""Measurements of socket workloads whose every number a test may set."""

import json
from dataclasses import replace
from pathlib import Path

import trials

from pinchpoint.model.trial import BusyBy, ThreadLoad, TrialValidity

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden"
_RR = json.loads((GOLDEN / "sockets.jsonl").read_text().splitlines()[4])
TICKS_PER_S = 100.0
WINDOW_S = 2.0


def pair(kind="rr", *, client=0.2, server=0.2, cores=(0, 1), began_s=100.0, status="completed", reason=None, **changes):
    """One engine's account of a window of two seconds; `client` and `server` are busy shares."""
    run = dict(_RR["runs"][0])
    run["latency"] = {**run["latency"], "count": 1}  # what its histogram holds
    run |= {
        "began_ns": int(began_s * 1e9),
        "duration_s": WINDOW_S,
        "intended": None,
        "shortfall": None,
        "service": None,
    }
    if kind == "stream":
        run |= {"transactions": None, "transactions_per_s": None, "failed": None, "failed_share": None, "latency": None}
    run |= changes
    witness = {"user_s": 0.0, "voluntary_switches": 0, "involuntary_switches": 0, "steal_s": 0.0}
    for side, busy in (("client", client), ("server", server)):
        run[side] = witness | {"system_s": busy * WINDOW_S, "retransmitted_segments": 0}
    places = {side: {"core": core, "numa_node": 0} for side, core in zip(("client", "server"), cores, strict=True)}
    return {**_RR, "kind": kind, "status": status, "reason": reason, "hint": None, "runs": [run], **places}


def rate(per_s, mean_ns, **changes):
    """Changes of a pair that made so many transactions a second at that mean latency."""
    count = int(per_s * WINDOW_S)
    latency = {**_RR["runs"][0]["latency"], "count": count, "mean_ns": mean_ns}
    return {"transactions": count, "transactions_per_s": per_s, "latency": latency, **changes}


def failures(**kinds):
    """Transactions of a run that failed, by kind."""
    none = dict.fromkeys(("refused", "address_unavailable", "timeout", "reset", "short", "unreachable", "other"), 0)
    return {**none, "first": None, **kinds}


def trend(before, after, at_s=1.0):
    """That of a run whose rate changed once."""
    change = {"at_s": at_s, "before_per_s": before, "after_per_s": after}
    return {"first_third_per_s": before, "last_third_per_s": after, "change": change}


def cpu(number, busy, softirq=0.0, stolen=0.0):
    """What a CPU did, in shares of the window."""
    ticks = TICKS_PER_S * WINDOW_S
    names = {"busy": busy, "softirq": softirq, "irq": 0.0, "steal": stolen}
    return {f"host/cpu/{number}/{state}_ticks": round(share * ticks) for state, share in names.items()}


def main_thread(busy, received=1000):
    """The switch's main thread, which forwards where there are no PMDs."""
    return ThreadLoad("main thread", None, received, 0, busy, BusyBy.PROCESSOR_TIME)


def measurement(*pairs, seen=None, threads=(), number=1, validity=TrialValidity.VALID, reason="", metrics=()):
    """A measurement of these pairs."""
    account = {"pairs": list(pairs) or [pair()], "traffic_s": WINDOW_S, "ticks_per_s": TICKS_PER_S}
    told = {"account": account, "observed": dict(seen or {}), "threads": tuple(threads), "metrics": metrics}
    return trials.measurement("rr", number, validity, reason, wall_s=2.5, **told)


QUIET = cpu(0, 0.5) | cpu(1, 0.5) | {"host/process/pinchpoint-engine/ticks": 195, "host/irq_time_separate": 0.0}


def relay(cpu_of_relay, **lost):
    """A relay that polls all the window, and what it lost from host a."""
    names = {"dropped": 0, "too_long": 0, "rx_missed": 0} | lost
    return {
        "host/process/relay/ticks": 200,
        "host/relay/relay/cpu": cpu_of_relay,
        "host/relay/relay/busy_ns": 1e9,
        **{f"host/relay/a/dut/{name}": float(count) for name, count in names.items()},
    }


def away(*pairs, **machines):
    """A measurement of ends on other machines than the switch's."""
    window = measurement(*pairs, seen=QUIET)
    return replace(window, account={**window.account, "elsewhere": machines})
