"""Undoes a bench on the host on which it stands when the lab is gone: by its journal, with the standard library alone.

Everything of a bench bears its name or its mark, or goes with what does (`bench/resource.py`). What is left after that
is the hugepages that it added to the pool. A journal whose bench cannot be undone whole stays, for `pinchpoint clean`,
and so does one with a damaged line, which may have named hugepages.
"""

import json
from pathlib import Path

from pinchpoint.host import hugepages
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
        for name in host.names(NAMESPACES) if host.exists(NAMESPACES) else []:
            if name.startswith(f"pp-{bench_id}-"):
                host.run(["ip", "netns", "del", name])
        changes, is_whole = _pools(journal)
        for before, after in reversed(changes):
            present, _ = hugepages.pool(host)
            if (wanted := max(before, present - (after - before))) < present:
                hugepages.resize(host, wanted)
        host.remove_folder(str(folder / bench_id))
        if is_whole:
            host.remove_file(str(journal))
    except (OSError, PinchpointError):
        return False
    return is_whole


def _pools(journal: Path) -> tuple[list[tuple[int, int]], bool]:
    """(pages before, pages after) of every change of the pool that has not been undone; whether all was readable."""
    present: list[tuple[int, int]] = []
    is_whole = True
    for line in journal.read_bytes().split(b"\n")[:-1]:  # the last is empty, or torn
        try:
            entry = json.loads(line)
            resource = entry["resource"]
            if resource["kind"] != "hugepages":
                continue
            change = int(resource["before"]), int(resource["after"])
        except (ValueError, KeyError, TypeError):
            is_whole = False
            continue
        if entry["op"] == "create":
            present.append(change)
        elif change in present:
            present.remove(change)
    return present, is_whole
