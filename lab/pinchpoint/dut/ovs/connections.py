"""The connections of a service that the switch tracks: what bounds them, as it says itself, and how they are forgotten.

Sources: ovs-vswitchd(8), `dpctl/ct-get-maxconns`, `dpctl/flush-conntrack`; lib/conntrack.h, CT_TIMEOUTS.
"""

import re
import time

from pinchpoint.dut.ovs import balancing
from pinchpoint.dut.ovs.daemons import vsctl
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.unixctl import Unixctl, UnixctlError
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Scenario, Service
from pinchpoint.observe.snapshot import Snapshot

CLOSED_S = 30  # the switch's own, of a connection that both sides have closed
# The switch looks for expired entries so often: seen with Open vSwitch 3.1, said by later ones. Until then they occupy
# the table; their ports can be taken at once (lib/conntrack.c, conn_key_lookup).
SWEEP_S = 20.0
FORGETTING_S = 10.0
_USED, _EXHAUSTED = "ovs/service/connections", "ovs/service/ports_exhausted"
_NO_PORT = "Unable to NAT due to tuple space exhaustion"
_COUNT, _MOST = "dpctl/ct-get-nconns", "dpctl/ct-get-maxconns"
_POLICY = re.compile(r"^Zone:(\d+), Timeout Policies: (.*)$", re.MULTILINE)


class Connections:
    """Of one service; also their collector."""

    name = "connections of the service"

    def __init__(self, service: Service, places: OvsPlaces, control: Unixctl) -> None:
        self._service, self._places, self._control = service, places, control

    def can_run(self) -> str | None:
        """Whether this release knows the command."""
        try:
            self._number(_COUNT)
        except UnixctlError as error:
            return str(error)
        return None

    def snapshot(self) -> Snapshot:
        """Gauge `ovs/service/connections`; with full-NAT each has two entries of the table.

        `ovs/service/ports_exhausted` are lines of the switch's log. It writes few of many: that it rises says
        something, not by how much.
        """
        at_s = time.monotonic()
        lines = self._places.host.read(self._places.log).count(_NO_PORT)
        connections = self._number(_COUNT) / balancing.entries(self._service)
        return Snapshot(at_s, {_EXHAUSTED: lines}, {_USED: connections})

    def limits(self) -> tuple[Limit, ...]:
        """Entries of the table and, with full-NAT, local ports."""
        service = self._service
        most, each = self._number(_MOST), balancing.entries(service)
        held_s = float(service.closed_s or CLOSED_S)
        waits = f"tcp_close = {held_s:g} s"
        swept_s = self._sweep_s()
        told = f"ct-get-maxconns = {most}, {each} for each connection, {waits}, swept every {swept_s:g} s"
        table = Limit(Resource.TABLE, most // each, held_s + swept_s, told, _USED, ("ovs/coverage/conntrack_full",))
        if not balancing.is_full(service):
            return (table,)
        ports = balancing.local_ports(service).count
        places = len(service.locals) * ports * len(service.backends)
        pool = f"{len(service.locals):,} addresses x {ports:,} ports x {len(service.backends):,} backends"
        return table, Limit(Resource.LOCAL_PORTS, places, held_s, f"{pool}, {waits}", refused=(_EXHAUSTED,))

    def flush(self) -> None:
        """Forget all connections. Raises BenchError."""
        self._control.call("dpctl/flush-conntrack")
        deadline = time.monotonic() + FORGETTING_S
        while (left := self._number(_COUNT)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            raise BenchError(f"{left:,} entries are still in the table {FORGETTING_S:g} s after the flush")

    def tracked(self) -> int | None:
        """Entries, of which a connection with full-NAT has two."""
        return self._number(_COUNT)

    def _sweep_s(self) -> float:
        try:
            return self._number("dpctl/ct-get-sweep-interval") / 1000
        except UnixctlError:
            return SWEEP_S

    def _number(self, command: str) -> int:
        said = self._control.call(command).strip()
        if not said.isdecimal():
            raise BenchError(f"{command} says {said!r}, which is no number")
        return int(said)


def settings(scenario: Scenario, places: OvsPlaces, control: Unixctl) -> dict[str, str]:
    """The size of its table and the time-outs, as read back; nothing without a service. Raises BenchError."""
    if (service := scenario.service) is None:
        return {}
    most = control.call(_MOST).strip()
    if service.max_connections is not None and most != str(service.max_connections):
        raise BenchError(f"ct-set-maxconns: {service.max_connections} was set, {most} is in force")
    in_force = {"ct-get-maxconns": most}
    if wanted := balancing.timeouts(service):
        argv = ["ovs-vsctl", *vsctl(places), "list-zone-tp", balancing.DATAPATH]
        stored = policies(places.host.run(argv, environment=places.environment))
        for zone in balancing.zones(service):
            if stored.get(zone) != wanted:
                raise BenchError(f"time-outs of zone {zone}: {wanted} was set, {stored.get(zone)} is stored")
            in_force[f"time-outs of zone {zone}"] = ", ".join(f"{name} = {value} s" for name, value in wanted.items())
    return in_force


def policies(text: str) -> dict[int, dict[str, str]]:
    """`ovs-vsctl list-zone-tp`: zone -> its time-outs in seconds, by name."""
    return {int(zone): dict(sorted(re.findall(r"(\w+)=(\d+)", words))) for zone, words in _POLICY.findall(text)}
