"""What is shown during a campaign: one live line on a terminal, a line every ten seconds when piped."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pinchpoint.cli.progress import log_every_s
from pinchpoint.model import units
from pinchpoint.model.campaign import MachineProgress, Progress

_MOST = 6  # machines that are named
Show = Callable[[Progress], None]


@contextmanager
def shown(quiet: bool) -> Iterator[Show]:
    """What shows the progress of a campaign, on stderr."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield lambda _: None
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda found: live.update(Text(line(found), overflow="ellipsis", no_wrap=True), refresh=True)
    else:
        yield _Log(log_every_s()).show


class _Log:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._began_s = self._next_s = time.monotonic()

    def show(self, found: Progress) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self._every_s
            print(f"[{now_s - self._began_s:7.1f} s] {line(found)}", file=sys.stderr, flush=True)


def line(found: Progress) -> str:
    """Everything worth knowing now, in one line."""
    parts = [f"{found.measured} of {found.units} measured"]
    parts += [f"{found.left_out} left out"] if found.left_out else []
    parts += [f"{found.withdrawn} to be measured again"] if found.withdrawn else []
    parts += [f"about {units.duration(found.left_s)} left"] if found.left_s and found.left_s >= 1 else []
    parts += [f"cost {found.cost:.4g}"] if found.cost else []
    busy = [one for one in found.machines if one.state != "gone"]
    parts += [_machine(one) for one in busy[:_MOST]]
    parts += [f"{len(busy) - _MOST} more machines"] if len(busy) > _MOST else []
    return "  ·  ".join(parts)


def _machine(one: MachineProgress) -> str:
    return f"{one.name}: {one.unit or one.state}"
