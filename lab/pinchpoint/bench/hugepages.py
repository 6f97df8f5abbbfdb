"""The host's pool of 2 MiB hugepages: its size, how many are free, and which processes hold the rest.

A process returns its pages as it ends, which takes a moment. So a bench waits for the pages that it needs.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pinchpoint.bench.resource import ENVIRONMENT_MARK
from pinchpoint.model.errors import RequirementError

NR_HUGEPAGES = Path("/proc/sys/vm/nr_hugepages")
KERNEL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
PROC = Path("/proc")
FREED_TIMEOUT_S = 60.0
"""An ending process gives a gigabyte back in some 10 ms on an idle core; one that hardly runs takes seconds."""
PAGE_KB = 2048
MOST_HOLDERS = 8
_HELD_KB = re.compile(r"^HugetlbPages:\s+(\d+) kB$", re.MULTILINE)


def pool() -> tuple[int, int]:
    """(pages in the pool, pages available); (0, 0) on a kernel without them. Raises nothing.

    The size is not the kernel's nr_hugepages below /sys: that also counts what a process that is just ending
    gives back for good, and a bench that took it for a part of the pool would leave as much behind.
    """
    try:
        return int(NR_HUGEPAGES.read_text()), available()
    except OSError:
        return 0, 0


def available() -> int:
    """Free pages that no mapping has reserved (hugetlbpage.rst). Raises OSError on a kernel without hugepages."""
    return int((KERNEL / "free_hugepages").read_text()) - int((KERNEL / "resv_hugepages").read_text())


def wait_for(pages: int, whose: str) -> None:
    """Return as soon as `pages` are available. Raises RequirementError naming the holders after FREED_TIMEOUT_S."""
    deadline = time.monotonic() + FREED_TIMEOUT_S
    while (found := available()) < pages:
        if time.monotonic() > deadline:
            raise _too_few(pages, found, whose)
        time.sleep(0.01)


@dataclass(frozen=True)
class Holder:
    """A process that maps hugepages."""

    pid: int
    command: str
    pages: int
    is_marked: bool  # started for a bench

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid}, {self.pages} pages)"


def holders() -> list[Holder]:
    """The processes that map pages of 2 MiB, most pages first (proc_pid_status(5), HugetlbPages)."""
    return sorted(_holders(), key=lambda one: -one.pages)


def _holders() -> Iterator[Holder]:
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            held = _HELD_KB.search((entry / "status").read_text())
            if held and (pages := int(held[1]) // PAGE_KB):
                mark = f"{ENVIRONMENT_MARK}=".encode() in (entry / "environ").read_bytes()
                yield Holder(int(entry.name), (entry / "comm").read_text().strip(), pages, mark)
        except OSError:
            continue  # it has ended meanwhile


def _too_few(pages: int, found: int, whose: str) -> RequirementError:
    found_holders = holders()
    names = ", ".join(map(str, found_holders[:MOST_HOLDERS])) or "no process; a file in a hugetlbfs keeps them"
    message = f"{whose}: {found} of {pages} hugepages of 2 MiB are free after {FREED_TIMEOUT_S:g} s; held by: {names}"
    return RequirementError(message, _mend(found_holders))


def _mend(found: list[Holder]) -> str:
    strangers = [str(one.pid) for one in found if not one.is_marked]
    if strangers:
        return f"end the processes that are no longer needed: kill {' '.join(strangers[:MOST_HOLDERS])}"
    return "pinchpoint clean" if found else "rm /dev/hugepages/rtemap_*, if no DPDK program runs"
