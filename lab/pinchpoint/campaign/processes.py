"""Attempts as processes of this machine: on its own bench, and on those of hosts by ssh.

A machine by ssh is asked by `pinchpoint clean --host` whether it answers: before it joins; when an attempt on it has
failed, since the machine may be what failed; and again and again while it does not answer.
"""

import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinchpoint.campaign.executor import INTERRUPTED, Attempt, Ended, Event, Gone, Joined, Order, asking, said_in
from pinchpoint.host.local import Local, exit_code
from pinchpoint.model.campaign import Bench
from pinchpoint.store.campaign import CampaignFolder

ASKED_EVERY_S: Final = 10.0  # a machine that does not answer
MISSED_S: Final = 300.0  # for so long what no other machine can measure waits for a lost machine
_POLL_S: Final = 0.1


@dataclass
class _Asked:
    """A machine by ssh that is asked whether it answers."""

    bench: Bench
    ended: Ended | None = None  # the attempt that failed on it; if it answers, the attempt alone is to blame
    lost_s: float | None = None  # since when it does not answer; None: not known yet
    pid: int | None = None  # of the process that asks
    next_s: float = 0.0  # when the next one does


class Processes:
    """Each machine's attempts are started here, in the campaign's own folder."""

    def __init__(self, folder: CampaignFolder, benches: Sequence[Bench]) -> None:
        self._folder, self._host = folder, Local()
        self._joining: list[Event] = [Joined(bench) for bench in benches if not bench.addresses]
        self._asked = {bench.name: _Asked(bench) for bench in benches if bench.addresses}
        self._running: dict[str, tuple[Order, Attempt]] = {}  # by machine
        self._logs = tempfile.TemporaryDirectory(prefix="pinchpoint-campaign-", ignore_cleanup_errors=True)
        self._stopped = False

    @property
    def grace_s(self) -> float:
        """Others may come while it is not known of one whether it answers, and for a time after it is lost."""
        since_s = [time.monotonic() if ask.lost_s is None else ask.lost_s for ask in self._asked.values()]
        return float("inf") if since_s and time.monotonic() - max(since_s) < MISSED_S else 0.0

    @property
    def absent_s(self) -> float:
        """None comes where none is asked any more."""
        return MISSED_S if self._asked else 0.0

    def start(self, order: Order) -> None:
        self._running[order.bench.name] = order, Attempt(self._folder.attempt(order.attempt), order)

    def wait(self, timeout_s: float) -> Sequence[Event]:
        until_s = time.monotonic() + timeout_s
        while True:
            events, self._joining = self._joining, []
            if events := [*events, *self._ended(), *self._answered()]:
                return events
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return ()
            time.sleep(min(_POLL_S, left_s))

    def _ended(self) -> Iterator[Event]:
        for machine, (order, attempt) in list(self._running.items()):
            code = attempt.ended()
            if code is None:
                continue
            del self._running[machine]
            ended = Ended(order.attempt, machine, code, {}, attempt.said())
            failed = code not in (0, INTERRUPTED, -signal.SIGTERM)
            if failed and order.bench.addresses and not self._stopped:
                self._asked[machine] = _Asked(order.bench, ended)
            else:
                yield ended

    def _answered(self) -> Iterator[Event]:
        """What machines that are asked have said."""
        for machine, ask in list(self._asked.items()):
            log = Path(self._logs.name) / f"{machine}.log"
            if ask.pid is None:
                if time.monotonic() >= ask.next_s:
                    log.unlink(missing_ok=True)
                    ask.pid = self._host.spawn(asking(ask.bench), (), str(log), str(log))
                continue
            code = exit_code(ask.pid)
            if code is None:
                continue
            ask.pid, ask.next_s = None, time.monotonic() + ASKED_EVERY_S
            if code == 0:
                del self._asked[machine]
                yield ask.ended or Joined(ask.bench)
            elif ask.lost_s is None:
                yield self._lost(ask, said_in(log))

    def _lost(self, ask: _Asked, said: str) -> Gone:
        """A machine that never answered is not awaited: the file is wrong, rather than the machine."""
        reason = " / ".join(said.splitlines()[-4:]) or "it does not answer"
        if is_new := ask.ended is None:
            del self._asked[ask.bench.name]
        ask.ended, ask.lost_s = None, time.monotonic()
        return Gone(ask.bench.name, reason, is_unusable=is_new)

    def stop(self) -> None:
        self._stopped = True
        for _, attempt in self._running.values():
            attempt.stop()
        for ask in self._asked.values():
            if ask.ended is not None:
                self._joining.append(ask.ended)
            if ask.pid is not None:
                self._host.signal([ask.pid], signal.SIGTERM)
                while exit_code(ask.pid) is None:
                    time.sleep(_POLL_S)
        self._asked.clear()

    def close(self) -> None:
        """Whatever still runs is interrupted and waited for: a bench is never left."""
        self.stop()
        while self._running:
            if not self.wait(60.0):
                break
        self._logs.cleanup()
