"""Where everything of one private switch is found, and how commands speak to it and to no other."""

from dataclasses import dataclass

from pinchpoint.bench.resource import Command
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import COMMAND_TIMEOUT_S
from pinchpoint.host.processes import ENVIRONMENT_MARK

BRIDGE = "br0"  # the first bridge of every switch


@dataclass(frozen=True)
class OvsPlaces(Places):
    """Where everything of one private switch is found."""

    @classmethod
    def of(cls, places: Places) -> "OvsPlaces":
        """Those of the bench, as a switch has them."""
        return cls(places.bench_id, places.directory, places.host, places.sites)

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
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
