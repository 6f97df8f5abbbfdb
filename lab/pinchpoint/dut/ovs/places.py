"""Where everything of one private switch is found: its folder, sockets, files and namespaces."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from pinchpoint.bench.resource import ENVIRONMENT_MARK

BRIDGE = "br0"  # the first bridge of every switch


@dataclass(frozen=True)
class OvsPlaces:
    """Where everything of one private switch is found."""

    bench_id: str
    directory: PurePosixPath

    @property
    def dut_netns(self) -> str:
        """The switch's namespace."""
        return f"pp-{self.bench_id}-dut"

    @property
    def engine_netns(self) -> str:
        """The namespace of the engine's ends of veth links."""
        return f"pp-{self.bench_id}-gen"

    def host_netns(self, host: str) -> str:
        """The namespace that is the host of that name."""
        return f"pp-{self.bench_id}-host-{host}"

    @property
    def control(self) -> str:
        """ovs-vswitchd's unixctl socket."""
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

    def vhost_socket(self, port: str) -> str:
        """The vhost-user socket of one port."""
        return f"{self.directory}/vhost-{port}.sock"

    def pidfile(self, daemon: str) -> str:
        """The pid file of one daemon."""
        return f"{self.directory}/{daemon}.pid"

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Keeps every OVS tool away from the system's own switch."""
        folder = str(self.directory)
        return (
            ("OVS_RUNDIR", folder),
            ("OVS_LOGDIR", folder),
            ("OVS_DBDIR", folder),
            ("OVS_SYSCONFDIR", folder),
            (ENVIRONMENT_MARK, self.bench_id),
        )
