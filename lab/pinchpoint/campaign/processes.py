"""Attempts as processes of this machine: on its own bench, and on those of hosts by ssh."""

import time
from collections.abc import Sequence
from typing import Final

from pinchpoint.campaign.attempt import Attempt
from pinchpoint.campaign.executor import Ended, Event, Joined, Order
from pinchpoint.model.campaign import Bench
from pinchpoint.store.campaign import CampaignFolder

_POLL_S: Final = 0.1


class Processes:
    """Each machine's attempts are started here, in the campaign's own folder."""

    grace_s = absent_s = 0.0

    def __init__(self, folder: CampaignFolder, benches: Sequence[Bench]) -> None:
        self._folder = folder
        self._joining = [Joined(bench) for bench in benches]
        self._running: dict[str, tuple[Order, Attempt]] = {}  # by machine

    def start(self, order: Order) -> None:
        attempt = Attempt(self._folder.attempt(order.attempt), order.bench, order.programs, order.ceiling)
        self._running[order.bench.name] = order, attempt

    def wait(self, timeout_s: float) -> Sequence[Event]:
        until_s = time.monotonic() + timeout_s
        while True:
            if found := self._joining:
                self._joining = []
                return found
            if ended := list(self._ended()):
                return ended
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return ()
            time.sleep(min(_POLL_S, left_s))

    def _ended(self) -> Sequence[Event]:
        found: list[Event] = []
        for machine, (order, attempt) in list(self._running.items()):
            code = attempt.ended()
            if code is not None:
                del self._running[machine]
                found.append(Ended(order.attempt, machine, code, {}, attempt.said()))
        return found

    def stop(self) -> None:
        for _, attempt in self._running.values():
            attempt.stop()

    def close(self) -> None:
        """Whatever still runs is interrupted and waited for: a bench is never left."""
        self.stop()
        while self._running:
            if not self.wait(60.0):
                break
