"""OpenFlow rules in bulk (ovs-ofctl(8)): one for each of many destinations, above the scenario's own.

Every rule matches one address of 240.0.0.0/4, which no scenario's traffic uses (RFC 1112, section 4).
Rules are removed strictly: a loose removal compares itself with every rule of its
table, so that removing n of n costs n squared.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pinchpoint.bulk.making import FIRST_ADDRESS, Watch, allowed_s
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.unixctl import Unixctl
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.model.errors import BenchError, DutError, PinchpointError
from pinchpoint.model.rules import expand_template

METHODS = ("process", "file", "bundle")
PRIORITY = 60000
COOKIE = 0x70696E6368
LOOK_TIMEOUT_S = 0.3
_OPENFLOW = ("-O", "OpenFlow14")
_RULES = re.compile(r"\brules:(\d+)")
_CLOSED = re.compile(r"Broken pipe|Connection reset", re.IGNORECASE)
_FLOW_COUNT = re.compile(r"flow_count=(\d+)")


@dataclass(frozen=True)
class Flows:
    """Rules of the first bridge. `actions` is what each does, e.g. "output:1"."""

    places: OvsPlaces
    control: Unixctl
    count: int
    method: str
    concurrency: int
    actions: str

    def make(self, watch: Watch) -> None:
        """Add all; the curve of one process is the count of rules that the switch tells of its memory."""
        before = self._held(self.control)
        self._work("add-flow", self.rules(), (), watch, lambda held: held - before)

    def rules(self) -> Iterator[str]:
        """Their text, one a rule, as ovs-ofctl reads it."""
        return expand_template(f"cookie={COOKIE:#x},{_match()},actions={self.actions}", self.count)

    def remove(self, watch: Watch) -> None:
        """Remove all, each by its match (`--strict`); the curve is that of `make`."""
        before = self._held(self.control)
        matches = expand_template(_match(), self.count)
        self._work("del-flows", matches, ("--strict",), watch, lambda held: before - held)

    @contextmanager
    def unmatched_dropped(self) -> Iterator[None]:
        """Inside, frames for these rules' addresses are dropped until their rule is there."""
        guard = f"priority={PRIORITY - 1},ip,nw_dst=240.0.0.0/4"
        words = self._ofctl("add-flow", self.places.management, f"{guard},actions=drop")
        self.places.host.run(words, environment=self.places.environment)
        yield
        words = self._ofctl("--strict", "del-flows", self.places.management, guard)
        self.places.host.run(words, environment=self.places.environment)

    def shown(self) -> int:
        """How many the bridge's tables hold, as OpenFlow tells it."""
        words = self._ofctl("dump-aggregate", self.places.management, f"cookie={COOKIE:#x}/-1")
        said = self.places.host.run(words, environment=self.places.environment)
        if not (match := _FLOW_COUNT.search(said)):
            raise DutError(f"ovs-ofctl dump-aggregate printed no flow_count: {said[:200]!r}", "see ovs-vswitchd's log")
        return int(match[1])

    def _work(
        self, command: str, rules: Iterator[str], options: Sequence[str], watch: Watch, done: Callable[[int], int]
    ) -> None:
        """Do `command` with every rule; `done` tells from the rules that the switch holds how many are done."""
        host, environment, bridge = self.places.host, self.places.environment, self.places.management
        if self.method == "process":
            commands = (self._ofctl(*options, command, bridge, rule) for rule in rules)
            try:
                watch.run(host, watch.reach, run_many, commands, self.concurrency, environment)
            except CommandFailed as error:
                raise _explained(error, self.concurrency) from error
            return
        bundle = ("--bundle",) if self.method == "bundle" else ()
        many = "add-flows" if command == "add-flow" else command
        argv = self._ofctl(*options, *bundle, many, bridge, "-")
        looking = Unixctl(host, self.places.control, LOOK_TIMEOUT_S)

        def there() -> int | None:
            try:
                return done(self._held(looking))
            except DutError:
                return None  # busy with a whole bundle; if it died, the command says so

        try:
            most_s = allowed_s(self.count)
            watch.run(host, lambda _written: watch.look(there), run_fed, argv, rules, environment, timeout_s=most_s)
        finally:
            looking.close()

    @staticmethod
    def _held(control: Unixctl) -> int:
        """Rules of all bridges: cheap to ask, whatever their number (ovs-appctl memory/show)."""
        match = _RULES.search(control.call("memory/show"))
        return int(match[1]) if match else 0

    @staticmethod
    def _ofctl(*words: str) -> list[str]:
        return ["ovs-ofctl", *_OPENFLOW, *words]


def _explained(error: CommandFailed, concurrency: int) -> PinchpointError:
    """The error itself, or the one that says why Open vSwitch closed the connection (ovs 3.1, lib/rconn.c)."""
    if not _CLOSED.search(error.output):
        return error
    return BenchError(
        f"{error.message}\n  Open vSwitch closes a connection whose other end has said nothing for 1 s",
        f"so slow are {concurrency} processes at once on this machine: run fewer at once (build.concurrency)",
    )


def _match() -> str:
    return f"priority={PRIORITY},ip,nw_dst={{ipv4:{FIRST_ADDRESS}}}"
