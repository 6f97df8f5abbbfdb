"""The account of one load of connections: where each ended, and what the engine's cores noticed meanwhile. Pure."""

from collections.abc import Iterator

from pinchpoint.engine.connections import Account, Client
from pinchpoint.model.trial import Drop, Hop, Ledger, Witness, WorkerWitness

_ENGINE = "engine"  # whose counters they are


def ledger_of(client: Client, due: int | None = None) -> Ledger:
    """In connections: of those due, the completed ones and each way in which others failed.

    `due` connections were the device's to bear: those among them that were not opened are ones that it did not let in.
    None: those that were opened.
    """
    due = client.opened if due is None else due
    completed = min(client.completed, due)
    return Ledger(due, completed, (Hop("connections", due, completed, tuple(_failures(client, due))),))


def _failures(client: Client, due: int) -> Iterator[Drop]:
    if due > client.opened:
        yield Drop("not let in", due - client.opened, f"{_ENGINE}: shortfall", "dut")
    for words, count in client.failures.items():
        yield Drop(words, count, f"{_ENGINE}: {words.replace(' ', '_')}", "dut")


def contradiction(account: Account) -> str:
    """Which counts cannot all be true, in words; empty where they can.

    Each connection ended in one way, and a backend received a request of each that it answered.
    """
    client = account.of_client()
    ended = client.completed + sum(client.failures.values())
    if ended != client.opened:
        return f"{client.opened:,} connections were opened, and {ended:,} ended"
    asked = sum(backend.requests for backend in account.server.backends) if account.server else None
    answered = sum(client.backends)  # right answers only: a device may send others by itself
    if asked is not None and answered > asked:
        return f"{answered:,} connections have a backend's answer, and backends received {asked:,} requests"
    return ""


def witness_of(account: Account) -> Witness:
    """What the engine's cores noticed about themselves; no core of a load stored before that was kept."""
    workers = (
        WorkerWitness(
            core=own.core,
            busy_share=own.busy_share,
            gap_threshold_ns=round(own.gaps.threshold_s * 1e9),
            gaps=own.gaps.count,
            gap_total_ns=round(own.gaps.total_s * 1e9),
            gap_max_ns=round(own.gaps.longest_s * 1e9),
            gap_max_at_s=None,
            steal_s=None,
            voluntary_switches=None,
            involuntary_switches=None,
        )
        for own in account.cores
    )
    return Witness(tuple(workers), (), {}, None, None)
