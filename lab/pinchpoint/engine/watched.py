"""Connections over frames, watched while they are opened: `connect --sample` (docs/engine.md, "Connections")."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from pinchpoint.engine.connections import Account, Load, parse
from pinchpoint.host.interface import Environment, Host
from pinchpoint.host.processes import end_processes
from pinchpoint.model.errors import EngineError

SAMPLED_S = 0.1
_GRACE_S = 2.0  # between SIGTERM, at which the engine prints its account, and SIGKILL
_SAMPLE = b'{"type":"sample"'


@dataclass(frozen=True)
class Outage:
    """A time at which a backend does not answer, since the first connection was due."""

    backend: int
    from_s: float
    until_s: float
    resets: bool  # it answers by resets; otherwise not at all

    @property
    def word(self) -> str:
        """As the engine's command line has it."""
        return f"{self.backend}@{self.from_s:.3f}s-{self.until_s:.3f}s" + (":reset" if self.resets else "")


class Sample(msgspec.Struct, frozen=True):
    """Counts since the first connection was due, as of `elapsed_s`; by backend where there are several."""

    elapsed_s: float
    opened: int
    shortfall: int
    answered: int
    refused: int
    reset: int
    timed_out_connecting: int
    timed_out_answering: int
    timed_out_closing: int
    wrong_backend: int
    backends: tuple[int, ...]  # that answered, up to the last that did
    kept: tuple[int, ...] = ()  # answered by the backend that the tuple's connection before had, by that backend
    left: tuple[int, ...] = ()  # and by another one


def options(by_tuple: bool, outages: Sequence[Outage]) -> list[str]:
    """What follows the command of `pinchpoint.engine.connections`; `by_tuple`: where tuples come again."""
    down = [word for outage in outages for word in ("--backend-down", outage.word)]
    return ["--sample", f"{SAMPLED_S}s", *(["--by-tuple"] if by_tuple else []), *down]


class Watched:
    """An engine that opens connections. Its output goes to files of a folder that goes with the bench."""

    def __init__(self, host: Host, argv: Sequence[str], environment: Environment, path: str) -> None:
        self._host, self._argv = host, argv
        self._output, self._errors = f"{path}.jsonl", f"{path}.log"
        self._pid = host.spawn(argv, environment, self._output, self._errors)
        self._has_ended, self._read, self._rest = False, 0, b""
        self.samples: list[Sample] = []
        self.began: float | None = None  # when the first connection was due, on the monotonic clock

    def look(self) -> bool:
        """Take in what was printed; returns whether it still runs. Raises EngineError."""
        self._has_ended = self._has_ended or self._host.ended(self._pid)
        with suppress(FileNotFoundError):
            text = self._host.read_bytes(self._output, self._read)
            self._read += len(text)
            *lines, self._rest = (self._rest + text).split(b"\n")
            for line in lines:
                self._take(line)
        return not self._has_ended

    def _take(self, line: bytes) -> None:
        if not line.startswith(_SAMPLE):
            return
        try:
            sample = msgspec.json.decode(line, type=Sample)
        except msgspec.MsgspecError as error:
            raise EngineError(f"a sample of the engine cannot be read: {error}: {line[:200]!r}") from error
        # A sample is read late, never early: the earliest start is the nearest to the truth.
        began = time.monotonic() - sample.elapsed_s
        self.began = began if self.began is None else min(began, self.began)
        self.samples.append(sample)

    def account(self) -> Account:
        """The whole account, once it has ended. Raises EngineError."""
        said = self._host.read(self._output)
        if not said.strip().startswith("ready"):
            raise EngineError(f"the engine opened no connections: {self._host.read(self._errors).strip()}")
        return parse(said)

    def end(self) -> None:
        """End it if it runs. Raises BenchError if it cannot be ended."""
        if not self._has_ended:
            end_processes(self._host, [self._pid], _GRACE_S)
            self._has_ended = self._host.ended(self._pid)


def lasting_s(load: Load) -> float:
    """Seconds from the first connection's time to the last one's end, at most."""
    return load.opening_s + load.hold_s + load.timeout_s
