"""OpenFlow rules and internal ports in bulk, on the first bridge (ovs-ofctl(8), ovs-vswitchd.conf.db(5)).

Every rule matches one address of 240.0.0.0/4, which no scenario's traffic uses (RFC 1112, section 4).
Rules are removed strictly: a loose removal compares itself with every rule of its
table, so that removing n of n costs n squared.

One process a port costs the square of their number: each ovs-vsctl first reads the
whole database, and the switch compares all of its configuration with it.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from pinchpoint.bulk.making import FIRST_ADDRESS, Watch, allowed_s
from pinchpoint.dut.ovs import text as ovs_text
from pinchpoint.dut.ovs.places import BRIDGE, Operation, Ovsdb, OvsPlaces, Unixctl, selected
from pinchpoint.host.interface import PROC, CommandFailed
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.host.netlink import remove_kind
from pinchpoint.model.addresses import expand_template
from pinchpoint.model.errors import BenchError, DutError, PinchpointError

FLOW_METHODS = ("process", "file", "bundle")
PORT_METHODS = ("process", "command", "transaction")  # a scenario has no "command": it is for the benchmark
PRIORITY = 60000
COOKIE = 0x70696E6368
LOOK_TIMEOUT_S = 0.3
PREFIX = "pp"
_ASK_EVERY_S = 0.02
_MATCH = f"priority={PRIORITY},ip,nw_dst={{ipv4:{FIRST_ADDRESS}}}"
_RULES = re.compile(r"\brules:(\d+)")
_CLOSED = re.compile(r"Broken pipe|Connection reset", re.IGNORECASE)


@dataclass(frozen=True)
class _Items:
    """`count` items of one kind, made by `method` with `concurrency` processes at once."""

    places: OvsPlaces
    control: Unixctl
    count: int
    method: str
    concurrency: int


@dataclass(frozen=True)
class Flows(_Items):
    """Rules of the first bridge. `actions` is what each does, e.g. "output:1"."""

    actions: str

    def make(self, watch: Watch) -> None:
        """Add all; the curve of one process is the count of rules that the switch tells of its memory."""
        before = self._held(self.control)
        self._work("add-flow", self.rules(), (), watch, lambda held: held - before)

    def rules(self) -> Iterator[str]:
        """Their text, one a rule, as ovs-ofctl reads it."""
        return expand_template(f"cookie={COOKIE:#x},{_MATCH},actions={self.actions}", self.count)

    def remove(self, watch: Watch) -> None:
        """Remove all, each by its match (`--strict`); the curve is that of `make`."""
        before = self._held(self.control)
        self._work("del-flows", expand_template(_MATCH, self.count), ("--strict",), watch, lambda held: before - held)

    @contextmanager
    def unmatched_dropped(self) -> Iterator[None]:
        """Inside, frames for these rules' addresses are dropped until their rule is there."""
        guard = f"priority={PRIORITY - 1},ip,nw_dst=240.0.0.0/4"
        self.places.ask(*self._ofctl("add-flow", f"{guard},actions=drop"))
        yield
        self.places.ask(*self._ofctl("del-flows", guard, options=("--strict",)))

    def shown(self) -> int:
        """How many the bridge's tables hold, as OpenFlow tells it."""
        said = self.places.ask(*self._ofctl("dump-aggregate", f"cookie={COOKIE:#x}/-1"))
        if (count := ovs_text.rule_count(said)) is None:
            raise DutError(f"ovs-ofctl dump-aggregate printed no flow_count: {said[:200]!r}", "see ovs-vswitchd's log")
        return count

    def _work(
        self, command: str, rules: Iterator[str], options: Sequence[str], watch: Watch, done: Callable[[int], int]
    ) -> None:
        """Do `command` with every rule; `done` tells from the rules that the switch holds how many are done."""
        host, environment = self.places.host, self.places.environment
        if self.method == "process":
            commands = (self._ofctl(command, rule, options=options) for rule in rules)
            try:
                watch.run(host, watch.reach, run_many, commands, self.concurrency, environment)
            except CommandFailed as error:
                raise _explained(error, self.concurrency) from error
            return
        bundle = ("--bundle",) if self.method == "bundle" else ()
        many = "add-flows" if command == "add-flow" else command
        argv = self._ofctl(many, "-", options=(*options, *bundle))
        looking = Unixctl(host, self.places.control, LOOK_TIMEOUT_S)

        def there() -> int | None:
            try:
                return done(self._held(looking))
            except DutError:
                return None  # busy with a whole bundle; if it died, the command says so

        def look(_written: int) -> None:
            watch.look(there)

        with closing(looking):
            watch.run(host, look, run_fed, argv, rules, environment, timeout_s=allowed_s(self.count))

    @staticmethod
    def _held(control: Unixctl) -> int:
        """Rules of all bridges: cheap to ask, whatever their number (ovs-appctl memory/show)."""
        match = _RULES.search(control.call("memory/show"))
        return int(match[1]) if match else 0

    def _ofctl(self, command: str, word: str, options: Sequence[str] = ()) -> list[str]:
        return ["ovs-ofctl", "-O", "OpenFlow14", *options, command, self.places.management, word]


def _explained(error: CommandFailed, concurrency: int) -> PinchpointError:
    """The error itself, or the one that says why Open vSwitch closed the connection (ovs 3.1, lib/rconn.c)."""
    if not _CLOSED.search(error.output):
        return error
    return BenchError(
        f"{error.message}\n  Open vSwitch closes a connection whose other end has said nothing for 1 s",
        f"so slow are {concurrency} processes at once on this machine: run fewer at once (build.concurrency)",
    )


class Ports(_Items):
    """Ports named `pp1`, `pp2`, ..., of type internal."""

    def make(self, watch: Watch) -> None:
        """Add all; returns when the switch has taken its whole new configuration over."""
        before = self._links()
        if self.method == "transaction":
            self._transact(self._additions(), watch, lambda: self._links() - before)
            return
        words = [["add-port", BRIDGE, name, "--", "set", "interface", name, "type=internal"] for name in self.names]
        self._vsctl(words, watch, lambda: self._links() - before)

    def remove(self, watch: Watch) -> None:
        """Remove all. The kernel waits for its readers before a tap is gone, about 20 ms for each.

        The switch removes them one by one, so before a transaction their taps are taken away together.
        """
        before = self._links()
        if self.method == "transaction":
            watch.run(self.places.host, watch.reach, remove_kind, self.places.dut_netns, "tun", self.names)
            self._transact(self._removals(), watch, lambda: before - self._links())
            return
        self._vsctl([["del-port", BRIDGE, name] for name in self.names], watch, lambda: before - self._links())

    def shown(self) -> int:
        """How many ports with these names the datapath lists (ovs-appctl dpctl/show)."""
        return len(re.findall(rf": {PREFIX}\d+(?: |$)", self.control.call("dpctl/show"), re.MULTILINE))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all ports, in the order in which they are made."""
        return tuple(f"{PREFIX}{number}" for number in range(1, self.count + 1))

    def _vsctl(self, calls: Sequence[Sequence[str]], watch: Watch, there: Callable[[], int]) -> None:
        host, environment = self.places.host, self.places.environment
        base = ["ovs-vsctl", f"--db={self.places.database}", f"--timeout={allowed_s(self.count):.0f}"]
        if self.method == "process":
            commands = ([*base, *words] for words in calls)
            watch.run(host, watch.reach, run_many, commands, self.concurrency, environment)
            return
        all_words = [word for words in calls for word in ("--", *words)]
        watch.run(host, lambda _written: watch.look(there), run_fed, [*base, *all_words[1:]], (), environment)

    def _transact(self, operations: Sequence[Operation], watch: Watch, there: Callable[[], int]) -> None:
        """One transaction, then the switch's own word that it has taken it over (`cur_cfg`)."""
        ask = selected("Open_vSwitch", "next_cfg", "cur_cfg")
        bump = {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["next_cfg", "+=", 1]]}
        deadline_s = watch.elapsed_s + allowed_s(self.count)
        with Ovsdb(self.places.host, self.places.database) as database:
            done = database.transact([*operations, bump, ask], lambda: watch.look(there))
            wanted = done[-1]["rows"][0]["next_cfg"]
            while done[-1]["rows"][0]["cur_cfg"] < wanted:
                watch.look(there)
                if watch.elapsed_s > deadline_s:
                    raise DutError(
                        f"the switch did not add {self.count:,} ports within {deadline_s:.0f} s",
                        "lower build.count, or see ovs-vswitchd's log",
                    )
                time.sleep(_ASK_EVERY_S)
                done = database.transact([ask], lambda: watch.look(there))

    def _additions(self) -> list[Operation]:
        operations: list[Operation] = []
        for name in self.names:
            interface, port = f"i_{name}", f"p_{name}"
            row: dict[str, Any] = {"name": name, "type": "internal"}
            operations.append({"op": "insert", "table": "Interface", "uuid-name": interface, "row": row})
            row = {"name": name, "interfaces": ["named-uuid", interface]}
            operations.append({"op": "insert", "table": "Port", "uuid-name": port, "row": row})
        return [*operations, _change_ports("insert", [["named-uuid", f"p_{name}"] for name in self.names])]

    def _removals(self) -> list[Operation]:
        """The port rows; what nobody refers to any more goes by itself (RFC 7047, 3.2)."""
        names = set(self.names)
        with Ovsdb(self.places.host, self.places.database) as database:
            (ports,) = database.transact([selected("Port", "_uuid", "name")])
        return [_change_ports("delete", [row["_uuid"] for row in ports["rows"] if row["name"] in names])]

    def _links(self) -> int:
        """Interfaces of the switch's namespace: what can be seen while the switch is too busy to answer."""
        try:
            pid = int(self.places.host.read(self.places.pidfile("vswitchd")))
            return self.places.host.read(f"{PROC}/{pid}/net/dev").count("\n")
        except (OSError, ValueError) as error:
            raise DutError(f"ovs-vswitchd has exited: {error}", "see its log") from error


def _change_ports(mutator: str, uuids: Sequence[Any]) -> Operation:
    where = [["name", "==", BRIDGE]]
    return {"op": "mutate", "table": "Bridge", "where": where, "mutations": [["ports", mutator, ["set", list(uuids)]]]}
