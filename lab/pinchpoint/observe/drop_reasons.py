"""Why the kernel freed frames that it did not deliver, in its own words: what no counter names.

The tracepoint skb:kfree_skb has a reason from Linux 5.17 on (include/net/dropreason-core.h). perf records
the first of them. It slows what it watches, and belongs to a trial whose numbers nobody reads.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pinchpoint.host.interface import SYS, Environment, Host
from pinchpoint.model.errors import BenchError
from pinchpoint.model.measurement import DropReason
from pinchpoint.observe.perf import OPTIONS, Recording

EVENT: Final = "skb:kfree_skb"
MOST: Final = "8M"  # bytes that are recorded, some 80,000 drops: then perf ends
MOUNT: Final = f"mount -t tracefs nodev {SYS}/kernel/tracing"
_FORMATS: Final = tuple(f"{SYS}/kernel/{place}/events/skb/kfree_skb/format" for place in ("tracing", "debug/tracing"))
_REASON: Final = re.compile(r"\breason: (\w{1,60})\s*$", re.MULTILINE)


class DropReasons:
    """One recording on the CPUs of a bench."""

    def __init__(self, host: Host, folder: str, cpus: Sequence[int], environment: Environment) -> None:
        self._host, self._cpus = host, sorted(set(cpus))
        self._perf = Recording(host, folder, environment)

    def can_run(self) -> str | None:
        """Needs perf, the tracepoint, and its reasons."""
        if (why := self._perf.can_run()) is not None:
            return why
        formats = [path for path in _FORMATS if self._host.exists(path)]
        if not formats:
            return f"the kernel's tracepoints are not mounted, or it has none: {MOUNT}"
        if "reason" not in self._host.read(formats[0]):
            return f"this kernel ({self._host.release()}) gives no reasons for drops; Linux 5.17 and later do"
        return None

    def start(self, duration_s: float) -> None:
        """Record for so long, beside whatever happens; once."""
        cpus = ",".join(map(str, self._cpus))
        self._perf.start((*OPTIONS, "-e", EVENT, "--max-size", MOST, "-C", cpus), duration_s)

    def stop(self) -> None:
        """End the recording. Nothing if none runs."""
        self._perf.stop()

    def read(self) -> tuple[DropReason, ...]:
        """The reasons, most frequent first, once it has ended. Raises BenchError and RequirementError."""
        return reasons(self._perf.script(("-F", "trace")))


def reasons(text: str) -> tuple[DropReason, ...]:
    """`perf script -F trace` of the tracepoint. Raises BenchError where no line gives a reason."""
    counts = Counter(_REASON.findall(text))
    if text.strip() and not counts:
        raise BenchError(f"perf script shows no reason: {text.strip()[:80]!r}")
    total = sum(counts.values())
    return tuple(DropReason(reason, count, count / total) for reason, count in counts.most_common())
