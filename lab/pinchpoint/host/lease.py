"""Undoes a bench on the host on which it stands when the lab is gone: by its journal, with the standard library alone.

Everything of a bench bears its name or its mark, or goes with what does (`bench/resource.py`). What is left after that
is the hugepages that it added to the pool, and interfaces that it was lent: a namespace takes those with it, so they go
first. A journal whose bench cannot be undone whole stays, for `pinchpoint clean`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pinchpoint.host import hugepages, interfaces
from pinchpoint.host.interface import NAMESPACES, Host
from pinchpoint.host.local import OWN
from pinchpoint.host.processes import end_processes, marked_pids
from pinchpoint.model.errors import PinchpointError

_ROUNDS = 10  # of ending marked processes: one may have started another before it ended
_GRACE_S = 2.0


def undo(journal: Path, host: Host = OWN) -> bool:
    """Take down the bench of a journal, then delete that. Returns whether nothing is left."""
    bench_id, folder = journal.stem, journal.parent
    try:
        for _ in range(_ROUNDS):
            if not (pids := list(marked_pids(host, bench_id))):
                break
            end_processes(host, pids, _GRACE_S)
        for lent in reversed(list(_entries(journal, "lent_interface"))):
            state = interfaces.State(lent["mtu_before"], lent["was_up"], lent["addresses"])
            interfaces.give_back(host, lent["interface"], lent["netns"], lent["name"], state)
        for name in host.names(NAMESPACES) if host.exists(NAMESPACES) else []:
            if name.startswith(f"pp-{bench_id}-"):
                host.run(["ip", "netns", "del", name])
        for before, after in reversed(list(_pools(journal))):
            present, _ = hugepages.pool(host)
            if (wanted := max(before, present - (after - before))) < present:
                hugepages.resize(host, wanted)
        host.remove_folder(str(folder / bench_id))
        host.remove_file(str(journal))
    except (OSError, PinchpointError, ValueError, KeyError, TypeError):
        return False
    return True


def _pools(journal: Path) -> Iterator[tuple[int, int]]:
    """(pages before, pages after) of every change of the pool that has not been undone."""
    for pool in _entries(journal, "hugepages"):
        yield int(pool["before"]), int(pool["after"])


def _entries(journal: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Every resource of that kind which has not been removed."""
    present: list[dict[str, Any]] = []
    for line in journal.read_bytes().split(b"\n")[:-1]:  # the last is empty, or torn
        try:
            entry = json.loads(line)
            op, resource = entry["op"], entry["resource"]
            if resource["kind"] != kind:
                continue
        except (ValueError, KeyError, TypeError):
            continue
        if op == "create":
            present.append(resource)
        elif resource in present:
            present.remove(resource)
    yield from present
