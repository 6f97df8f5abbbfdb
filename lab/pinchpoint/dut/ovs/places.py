"""Where everything of one private switch is found, and how commands speak to it and to no other.

Clients of the daemons' sockets, which speak JSON-RPC 1.0: the control socket, and the database (RFC 7047). A connection
of our own instead of one ovs-appctl process per command saves some 5 ms each, eight commands on either side of a trial.
Commands: ovs-vswitchd(8), "RUNTIME MANAGEMENT COMMANDS".
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pinchpoint.bench.resource import Command
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import COMMAND_TIMEOUT_S, Host
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.model.errors import DutError

BRIDGE = "br0"  # the first bridge of every switch


@dataclass(frozen=True)
class OvsPlaces(Places):
    """Where everything of one private switch is found."""

    @classmethod
    def of(cls, places: Places) -> "OvsPlaces":
        """Those of the bench, as a switch has them."""
        return cls(places.bench_id, places.directory, places.host, places.sites, places.vms)

    @property
    def control(self) -> str:
        """Path of ovs-vswitchd's unixctl socket."""
        return f"{self.directory}/vswitchd.ctl"

    @property
    def log(self) -> str:
        """ovs-vswitchd's log; it goes with the bench."""
        return f"{self.directory}/vswitchd.log"

    @property
    def management(self) -> str:
        """The first bridge's OpenFlow socket."""
        return self.management_of(BRIDGE)

    def management_of(self, bridge: str) -> str:
        """The OpenFlow socket of one bridge."""
        return f"{self.directory}/{bridge}.mgmt"

    @property
    def database(self) -> str:
        """The database's socket, as ovs-vsctl wants it."""
        return f"unix:{self.directory}/db.sock"

    def rules_of(self, bridge: str) -> str:
        """The file with all OpenFlow rules of one bridge, one a line."""
        return f"{self.directory}/rules-{bridge}.txt"

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Keeps every OVS tool away from the system's own switch."""
        folders = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        return (*((name, str(self.directory)) for name in folders), (ENVIRONMENT_MARK, self.bench_id))

    def ask(self, *argv: str) -> str:
        """What a command prints that speaks to this switch. Raises CommandFailed or RequirementError."""
        return self.host.run(list(argv), environment=self.environment)

    def ask_vsctl(self, *words: str) -> str:
        """What ovs-vsctl prints. Raises CommandFailed or RequirementError."""
        return self.ask(*self._vsctl(30), *words)

    def command(self, *argv: str, timeout_s: float = COMMAND_TIMEOUT_S) -> Command:
        """A command of the bench that speaks to this switch."""
        return Command(argv, environment=self.environment, timeout_s=timeout_s)

    def vsctl(self, *words: str, timeout_s: int = 30) -> Command:
        """A call of ovs-vsctl, which waits so long for the switch."""
        return self.command(*self._vsctl(timeout_s), *words, timeout_s=max(COMMAND_TIMEOUT_S, timeout_s))

    def appctl(self, *words: str) -> Command:
        """A command to the running switch."""
        return self.command("ovs-appctl", "-t", self.control, "--timeout=10", *words)

    def _vsctl(self, timeout_s: int) -> tuple[str, ...]:
        return "ovs-vsctl", f"--db={self.database}", f"--timeout={timeout_s}"


def quoted(value: str) -> str:
    """A database string (ovs-vsctl(8), "Database Values")."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


MAX_REPLY_BYTES = 256 * 1024 * 1024  # a dump of a million datapath flows
_ANSWER_S = 0.2  # how long a stop may have to wait
Operation = dict[str, Any]


class UnixctlError(DutError):
    """The daemon answered with an error, in its own words."""


class _Stream:
    """JSON objects one after the other. Everything raises OSError; what comes and is no object, ValueError."""

    def __init__(self, host: Host, path: str, timeout_s: float) -> None:
        self._connection, self._timeout_s = host.connect(path), timeout_s
        self._received = bytearray()

    def close(self) -> None:
        self._connection.close()

    def send(self, message: Mapping[str, object]) -> None:
        """However long it is."""
        self._connection.settimeout(None)
        self._connection.sendall(json.dumps(message).encode())
        self._connection.settimeout(self._timeout_s)

    def receive(self, on_wait: Callable[[], None] | None = None) -> dict[str, Any]:
        """The next object. Where nothing comes in time, `on_wait` is called; without it that is an error."""
        while (message := self._whole()) is None:
            try:
                chunk = self._connection.recv(1 << 20)
            except TimeoutError:
                if on_wait is None:
                    raise
                on_wait()
                continue
            if not chunk:
                raise ValueError("connection closed")
            self._received += chunk
            if len(self._received) > MAX_REPLY_BYTES:
                raise ValueError(f"reply longer than {MAX_REPLY_BYTES} bytes")
        if not isinstance(message, dict):
            raise ValueError("reply is not an object")
        return message

    def _whole(self) -> Any:
        """The first object of what came; None: more is to come. There is no other framing than an object's own end."""
        if not self._received[-16:].rstrip().endswith(b"}"):
            return None
        text = self._received.decode().lstrip()
        try:
            message, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            return None  # a brace inside it
        self._received = bytearray(text[end:].encode())
        return message


class Appctl(Protocol):
    """Whoever answers commands of the control socket."""

    def call(self, command: str, *arguments: str) -> str:
        """The command's output. Raises UnixctlError if it was refused, DutError if nobody answers."""


class Unixctl:
    """One connection to a control socket; reconnects by itself after an error."""

    def __init__(self, host: Host, path: str, timeout_s: float = 10.0) -> None:
        self.path = path
        self._host, self._timeout_s = host, timeout_s
        self._stream: _Stream | None = None
        self._id = 0

    def call(self, command: str, *arguments: str) -> str:
        """The command's output. Raises UnixctlError if it was refused, DutError if nobody answers."""
        self._id += 1
        try:
            if self._stream is None:
                self._stream = _Stream(self._host, self.path, self._timeout_s)
            self._stream.send({"id": self._id, "method": command, "params": list(arguments)})
            reply = self._stream.receive()
        except (OSError, ValueError) as error:
            self.close()
            raise DutError(f"{self.path}: no answer to {command}: {error}", "see ovs-vswitchd's log") from error
        if reply.get("error") is not None:
            said = str(reply["error"]).strip()  # dpctl's commands begin with their own name
            raise UnixctlError(said if said.startswith(f"{command}:") else f"{command}: {said}")
        return str(reply.get("result", ""))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class Ovsdb:
    """One connection to an ovsdb-server, by its Unix socket. Close it, or use it in a `with`."""

    def __init__(self, host: Host, path: str, name: str = "Open_vSwitch") -> None:
        """`name`: of the database."""
        self._path, self._name = path.removeprefix("unix:"), name
        self._id = 0
        try:
            self._stream = _Stream(host, self._path, _ANSWER_S)
        except OSError as error:
            raise DutError(f"{self._path}: {error.strerror}", "see ovsdb-server's log") from error

    def __enter__(self) -> "Ovsdb":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def transact(self, operations: Sequence[Operation], on_wait: Callable[[], None] = lambda: None) -> list[Any]:
        """The results of one transaction (RFC 7047, 4.1.3). Raises DutError naming what was refused.

        `on_wait` is called while there is no answer; what it raises ends the waiting.
        """
        self._id += 1
        try:
            self._stream.send({"method": "transact", "params": [self._name, *operations], "id": self._id})
            while (answer := self._stream.receive(on_wait)).get("id") != self._id:
                if answer.get("method") == "echo":  # the server asks whether we live (RFC 7047, 4.1.11)
                    self._stream.send({"id": answer["id"], "result": [], "error": None})
        except (OSError, ValueError) as error:
            raise DutError(f"{self._path}: no answer to a transaction: {error}", "see ovsdb-server's log") from error
        results = answer.get("result")
        if answer.get("error") or not isinstance(results, list):
            raise DutError(f"the database refused a transaction: {answer.get('error')}")
        for result in results:
            if isinstance(result, dict) and "error" in result:
                raise DutError(f"the database refused a transaction: {result['error']}: {result.get('details', '')}")
        return results


def patience(longest_s: float = 5.0) -> Callable[[], None]:
    """For `transact`: what ends the waiting for an answer that does not come, with a DutError."""
    left = iter(range(round(longest_s / _ANSWER_S)))

    def wait() -> None:
        if next(left, None) is None:
            raise TimeoutError(f"none within {longest_s:g} s")

    return wait


def selected(table: str, *columns: str) -> Operation:
    """The operation that gives these columns of every row (RFC 7047, 5.2.2)."""
    return {"op": "select", "table": table, "where": [], "columns": list(columns)}
