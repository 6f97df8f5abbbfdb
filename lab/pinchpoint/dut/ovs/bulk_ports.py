"""Internal ports in bulk, on the first bridge (ovs-vswitchd.conf.db(5)).

One process a port costs the square of their number: each ovs-vsctl first reads the
whole database, and the switch compares all of its configuration with it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pinchpoint.bulk.making import Watch, allowed_s
from pinchpoint.dut.ovs.ovsdb import Ovsdb
from pinchpoint.dut.ovs.places import BRIDGE, OvsPlaces
from pinchpoint.dut.ovs.unixctl import Unixctl
from pinchpoint.host.interface import PROC
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.host.netlink import remove_kind
from pinchpoint.model.errors import DutError

METHODS = ("process", "command", "transaction")  # a scenario has no "command": it is for the benchmark
PREFIX = "pp"
_ASK_EVERY_S = 0.02


@dataclass(frozen=True)
class Ports:
    """Ports named `pp1`, `pp2`, ..., of type internal."""

    places: OvsPlaces
    control: Unixctl
    count: int
    method: str
    concurrency: int

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
        wanted = f": {PREFIX}"
        return sum(
            wanted in line and line.split(wanted, 1)[1].partition(" ")[0].isdigit()
            for line in self.control.call("dpctl/show").splitlines()
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all ports, in the order in which they are made."""
        return tuple(f"{PREFIX}{number}" for number in range(1, self.count + 1))

    def _vsctl(self, each: Sequence[Sequence[str]], watch: Watch, there: Callable[[], int]) -> None:
        base = ["ovs-vsctl", f"--db={self.places.database}", f"--timeout={allowed_s(self.count):.0f}"]
        host, environment = self.places.host, self.places.environment
        if self.method == "process":
            commands = ([*base, *words] for words in each)
            watch.run(host, watch.reach, run_many, commands, self.concurrency, environment)
            return
        all_words = [word for words in each for word in ("--", *words)]
        argv = [*base, *all_words[1:]]
        watch.run(host, lambda _written: watch.look(there), run_fed, argv, (), environment)

    def _transact(self, operations: Sequence[dict[str, Any]], watch: Watch, there: Callable[[], int]) -> None:
        """One transaction, then the switch's own word that it has taken it over (`cur_cfg`)."""
        ask = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["next_cfg", "cur_cfg"]}
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

    def _additions(self) -> list[dict[str, Any]]:
        operations: list[dict[str, Any]] = []
        for name in self.names:
            interface, port = f"i_{name}", f"p_{name}"
            row: dict[str, Any] = {"name": name, "type": "internal"}
            operations.append({"op": "insert", "table": "Interface", "uuid-name": interface, "row": row})
            row = {"name": name, "interfaces": ["named-uuid", interface]}
            operations.append({"op": "insert", "table": "Port", "uuid-name": port, "row": row})
        ports = [["named-uuid", f"p_{name}"] for name in self.names]
        return [*operations, _change_ports("insert", ports)]

    def _removals(self) -> list[dict[str, Any]]:
        """The port rows; what nobody refers to any more goes by itself (RFC 7047, 3.2)."""
        names = set(self.names)
        with Ovsdb(self.places.host, self.places.database) as database:
            ask = {"op": "select", "table": "Port", "where": [], "columns": ["_uuid", "name"]}
            (selected,) = database.transact([ask], lambda: None)
        return [_change_ports("delete", [row["_uuid"] for row in selected["rows"] if row["name"] in names])]

    def _links(self) -> int:
        """Interfaces of the switch's namespace: what can be seen while the switch is too busy to answer."""
        try:
            pid = int(self.places.host.read(self.places.pidfile("vswitchd")))
            return self.places.host.read(f"{PROC}/{pid}/net/dev").count("\n")
        except (OSError, ValueError) as error:
            raise DutError(f"ovs-vswitchd has exited: {error}", "see its log") from error


def _change_ports(mutator: str, uuids: Sequence[Any]) -> dict[str, Any]:
    where = [["name", "==", BRIDGE]]
    return {"op": "mutate", "table": "Bridge", "where": where, "mutations": [["ports", mutator, ["set", list(uuids)]]]}
