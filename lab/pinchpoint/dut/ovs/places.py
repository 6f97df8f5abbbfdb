"""Where everything of one private switch is found: its folder, sockets, files and namespaces."""

from dataclasses import dataclass

from pinchpoint.dut.places import Places
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
        folder = str(self.directory)
        return (
            ("OVS_RUNDIR", folder),
            ("OVS_LOGDIR", folder),
            ("OVS_DBDIR", folder),
            ("OVS_SYSCONFDIR", folder),
            (ENVIRONMENT_MARK, self.bench_id),
        )


def ovs_places(places: Places) -> OvsPlaces:
    """The same, of a bench that is known to be of this kind."""
    assert isinstance(places, OvsPlaces)
    return places
