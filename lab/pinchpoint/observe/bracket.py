"""Two rounds of snapshots round a trial, and what changed between them."""

from collections.abc import Sequence

from pinchpoint.observe.snapshot import Collector, Observation, Snapshot, difference


class Bracket:
    """Snapshots all collectors in one order before and in reverse after.

    So the collector nearest to the traffic is listed last and read last before
    the trial and first after it.
    """

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self.cannot: dict[str, str] = {}
        usable = []
        for collector in collectors:
            why = collector.can_run()
            if why is None:
                usable.append(collector)
            else:
                self.cannot[collector.name] = why
        self._collectors = tuple(usable)
        self._before: dict[int, Snapshot] = {}

    def open(self) -> None:
        """Take the first snapshot of every collector that can run."""
        self._before = {number: collector.snapshot() for number, collector in enumerate(self._collectors)}

    def turn(self) -> Observation:
        """Read everything; what changed since it was last read, so that no time lies between two turns."""
        return self._read(renew=True)

    def close(self) -> Observation:
        """Read everything after; what changed since `open`, each time that it is called."""
        return self._read(renew=False)

    def _read(self, *, renew: bool) -> Observation:
        """All differences together; the elapsed time is that of the last collector."""
        changes: dict[str, int] = {}
        gauges: dict[str, float] = {}
        went_back: list[str] = []
        elapsed_s = 0.0
        for number, collector in reversed(list(enumerate(self._collectors))):
            after = collector.snapshot()
            seen = difference(self._before[number], after)
            if renew:
                self._before[number] = after
            changes |= seen.differences
            gauges |= seen.gauges
            gauges[f"elapsed_s/{collector.name}"] = seen.elapsed_s
            went_back += seen.went_back
            elapsed_s = elapsed_s or seen.elapsed_s
        return Observation(elapsed_s, changes, gauges, tuple(went_back))
