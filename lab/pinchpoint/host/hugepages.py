"""A host's pool of 2 MiB hugepages: its size, how many are free, and which processes hold the rest.

A process returns its pages as it ends, which takes a moment. So a bench waits for the pages that it needs.
"""

from contextlib import suppress
from dataclasses import dataclass

from pinchpoint.host.interface import PROC, SYS, Host, text_at
from pinchpoint.host.processes import ENVIRONMENT_MARK, kib, marked_pids, soon
from pinchpoint.model.errors import RequirementError

NR_HUGEPAGES = f"{PROC}/sys/vm/nr_hugepages"
KERNEL = f"{SYS}/kernel/mm/hugepages/hugepages-2048kB"
FREED_TIMEOUT_S = 60.0
"""An ending process gives a gigabyte back in some 10 ms on an idle core; one that hardly runs takes seconds."""
PAGE_KB = 2048
MOST_HOLDERS = 8
_HELD = "HugetlbPages"  # of /proc/PID/status (proc_pid_status(5))


def pool(host: Host) -> tuple[int, int]:
    """(pages in the pool, pages available); (0, 0) on a kernel without them. Raises nothing.

    The size is not the kernel's nr_hugepages below /sys: that also counts what a process that is just ending
    gives back for good, and a bench that took it for a part of the pool would leave as much behind.
    """
    try:
        return _size(host), available(host)
    except OSError:
        return 0, 0


def available(host: Host) -> int:
    """Free pages that no mapping has reserved (hugetlbpage.rst). Raises OSError on a kernel without hugepages."""
    return int(host.read(f"{KERNEL}/free_hugepages")) - int(host.read(f"{KERNEL}/resv_hugepages"))


def resize(host: Host, pages: int) -> int:
    """Ask for a pool of `pages`; returns what the kernel made of it. Raises OSError.

    Where it has too few, memory is compacted and it is asked again.
    """
    host.write(NR_HUGEPAGES, str(pages))
    if _size(host) < pages:
        host.write(f"{PROC}/sys/vm/compact_memory", "1")
        host.write(NR_HUGEPAGES, str(pages))
    return _size(host)


def give_back(host: Host, before: int, after: int) -> None:
    """Take what was added out of the pool, but never more than is in it beyond what was there. Raises OSError."""
    present, _ = pool(host)
    if (wanted := max(before, present - (after - before))) < present:
        resize(host, wanted)


def _size(host: Host) -> int:
    return int(host.read(NR_HUGEPAGES))


def wait_for(host: Host, pages: int, whose: str) -> None:
    """Return as soon as `pages` are available. Raises RequirementError naming the holders after FREED_TIMEOUT_S."""
    if not soon(lambda: available(host) >= pages, FREED_TIMEOUT_S):
        raise _too_few(holders(host), pages, available(host), whose)


@dataclass(frozen=True)
class Holder:
    """A process that maps hugepages."""

    pid: int
    command: str
    pages: int
    is_marked: bool  # started for a bench

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid}, {self.pages} pages)"


def holders(host: Host) -> list[Holder]:
    """The processes that map pages of 2 MiB, most pages first."""
    present = list[Holder]()
    for name in filter(str.isdigit, host.names(PROC)):
        place = f"{PROC}/{name}"
        with suppress(OSError):  # it has ended meanwhile
            if pages := kib(host.read(f"{place}/status"), _HELD) // PAGE_KB:
                mark = f"{ENVIRONMENT_MARK}=".encode() in host.read_bytes(f"{place}/environ")
                present.append(Holder(int(name), host.read(f"{place}/comm").strip(), pages, mark))
    return sorted(present, key=lambda holder: -holder.pages)


def held(host: Host, bench_id: str) -> int:
    """Pages that the processes of a bench map; one that two of them share counts twice."""
    status = (text_at(host, f"{PROC}/{pid}/status") for pid in marked_pids(host, bench_id))
    return sum(kib(text, _HELD) for text in status) // PAGE_KB


def _too_few(holding: list[Holder], pages: int, free: int, whose: str) -> RequirementError:
    names = ", ".join(map(str, holding[:MOST_HOLDERS])) or "no process; a file in a hugetlbfs keeps them"
    message = f"{whose}: {free} of {pages} hugepages of 2 MiB are free after {FREED_TIMEOUT_S:g} s; held by: {names}"
    return RequirementError(message, _mend(holding))


def _mend(holding: list[Holder]) -> str:
    strangers = [str(holder.pid) for holder in holding if not holder.is_marked]
    if strangers:
        return f"end the processes that are no longer needed: kill {' '.join(strangers[:MOST_HOLDERS])}"
    return "pinchpoint clean" if holding else "rm /dev/hugepages/rtemap_*, if no DPDK program runs"
