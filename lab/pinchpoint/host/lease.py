"""Undoes a bench on the host on which it stands when the lab is gone: by its journal, with the standard library alone.

Everything of a bench bears its name or its mark, or goes with what does (`bench/resource.py`). What is left after that
is the hugepages that it added to the pool, and interfaces that it was lent: a namespace takes those with it, so they go
first. A journal whose bench cannot be undone whole stays, for `pinchpoint clean`: one of a bench with NICs, or with
a damaged line.
"""

import json
from pathlib import Path
from typing import Any

from pinchpoint.host import hugepages, interfaces
from pinchpoint.host.interface import NAMESPACES, Host, names_in
from pinchpoint.host.processes import end_marked
from pinchpoint.model.errors import PinchpointError

_VERSION = 1  # of the journal, as `bench/journal.py` reads it
_BOUND = ("nic", "no_iommu")  # drivers and interfaces: `pinchpoint clean` gives them back


def undo(journal: Path, host: Host) -> bool:
    """Take down the bench of a journal, then delete that. Returns whether nothing is left."""
    bench_id, folder = journal.stem, journal.parent
    try:
        end_marked(host, bench_id)
        (resources, is_whole), are_home = _present(journal), True
        for lent in reversed([resource for resource in resources if resource["kind"] == "lent_interface"]):
            before = (lent["mtu_before"], lent["was_up"], lent["addresses"], lent.get("steering", ""))
            also = (
                lent.get("mac", ""),
                lent.get("was_promiscuous", False),
                lent.get("offloads", ()),
                lent.get("stamped_before", ""),
            )
            state = interfaces.State(*before, *also)
            try:
                interfaces.give_back(host, lent["interface"], lent["netns"], lent["name"], state)
            except PinchpointError:
                are_home = False  # the others go home nevertheless
            else:
                _removed(journal, lent)
        # A damaged line may have lent an interface to a namespace, which would take it with it.
        is_whole = is_whole and are_home
        for name in names_in(host, NAMESPACES) if is_whole else ():
            if name.startswith(f"pp-{bench_id}-"):
                host.run(["ip", "netns", "del", name])
        for pool in reversed([resource for resource in resources if resource["kind"] == "hugepages"]):
            hugepages.give_back(host, int(pool["before"]), int(pool["after"]))
            _removed(journal, pool)
        host.remove_folder(str(folder / bench_id))
        is_whole = is_whole and not any(resource["kind"] in _BOUND for resource in resources)
        if is_whole:
            host.remove_file(str(journal))
    except (OSError, PinchpointError, ValueError, KeyError, TypeError):
        return False
    return is_whole


def _removed(journal: Path, resource: dict[str, Any]) -> None:
    """Note it in a journal that may stay: what comes later is not undone a second time."""
    with journal.open("ab") as file:
        file.write(json.dumps({"op": "removed", "resource": resource, "version": _VERSION}).encode() + b"\n")


def _present(journal: Path) -> tuple[list[dict[str, Any]], bool]:
    """Every resource that has been made and not removed, in order; whether each line was readable."""
    present: list[dict[str, Any]] = []
    is_whole = True
    for line in journal.read_bytes().split(b"\n")[:-1]:  # the last is empty, or torn
        try:
            entry = json.loads(line)
            op, resource = entry["op"], entry["resource"]
            str(resource["kind"])
        except (ValueError, KeyError, TypeError):
            is_whole = False
            continue
        if op == "create":
            present.append(resource)
        elif resource in present:
            present.remove(resource)
    return present, is_whole
