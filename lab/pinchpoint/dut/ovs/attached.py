"""A switch that runs already and that no bench of ours built: found by its run directory, read and never changed."""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pinchpoint.dut.device import Attached
from pinchpoint.dut.ovs.collectors import Ports, of_datapath
from pinchpoint.dut.ovs.live import threads
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.rpc import Unixctl
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.dut.ovs.tc import TcFilters
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.model.errors import DutError, RequirementError
from pinchpoint.observe.printed import Links

MOST_FLOWS = 1_000  # of a switch in service, listed at each reading: some 20 ms of its main thread
SYSTEM = "/var/run/openvswitch"
_PIDFILES = ("ovs-vswitchd.pid", "vswitchd.pid")  # the system's, and that of a private bench
_DESCRIPTION = re.compile(r"^ (\d+|[A-Z]+)\(([^)]+)\): ", re.MULTILINE)
_TYPES = {"dpdk": Datapath.DPDK, "afxdp": Datapath.AF_XDP}


class InService(OvsPlaces):
    """Where everything of a switch in service is found; what asks it belongs to no bench."""

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Its run directory alone."""
        return (("OVS_RUNDIR", str(self.directory)),)


def attach(place: str | None, host: Host) -> Attached:
    """The switch whose run directory is `place`; None: the system's. Raises RequirementError or DutError."""
    places = InService("", PurePosixPath(place or SYSTEM), host)
    pidfile, pid = _process(places)
    control = Unixctl(host, _control(places, pidfile, pid))
    version = control.call("version").splitlines()
    bridges = {bridge: _ports(places, bridge) for bridge in _asked(places, "list-br").split()}
    names = tuple(dict.fromkeys(name for numbers in bridges.values() for name in numbers.values()))
    datapath = _datapath(places, control)
    collectors = of_datapath(control, MOST_FLOWS)
    if datapath is Datapath.TC:
        collectors.append(TcFilters(host, None, names))
    if datapath is not Datapath.DPDK:
        collectors.append(Links(host, None, "dut", names))  # in the namespace of whoever watches
    collectors += (Ports(places, bridge, numbers) for bridge, numbers in bridges.items())
    collectors += threads(host, pidfile, control)
    facts = {"switch": version[0] if version else "unknown", "datapath": str(datapath)}
    return Attached(str(places.directory), str(datapath), names, tuple(collectors), facts, control.close)


def _process(places: OvsPlaces) -> tuple[str, int]:
    """(pid file, process)."""
    for name in _PIDFILES:
        path = f"{places.directory}/{name}"
        try:
            pid = int(places.host.read(path))
        except PermissionError as error:
            raise RequirementError(f"{path}: no permission", "run as root: sudo pinchpoint watch") from error
        except (OSError, ValueError):
            continue
        if places.host.exists(f"{PROC}/{pid}"):
            return path, pid
    where = f"{places.directory}: no running switch found there"
    raise RequirementError(where, "give its run directory: pinchpoint watch PLACE")


def _control(places: OvsPlaces, pidfile: str, pid: int) -> str:
    stem = pidfile.removesuffix(".pid")
    for path in (f"{stem}.{pid}.ctl", f"{stem}.ctl"):
        if places.host.exists(path):
            return path
    where = f"{places.directory}: no control socket of process {pid}"
    raise RequirementError(where, "run as root: sudo pinchpoint watch")


def _told(places: OvsPlaces, who: str, *argv: str) -> str:
    try:
        return places.ask(*argv)
    except CommandFailed as error:
        raise DutError(f"{who} does not answer: {error.output}") from error


def _asked(places: OvsPlaces, *words: str) -> str:
    who, database = f"{places.directory}: the switch's database", f"--db={places.database}"
    return _told(places, who, "ovs-vsctl", database, "--timeout=10", "--no-wait", *words)


def _ports(places: OvsPlaces, bridge: str) -> dict[str, str]:
    """OpenFlow number -> name of the ports of one bridge, but its own."""
    argv = ("ovs-ofctl", "--timeout=10", "dump-ports-desc", places.management_of(bridge))
    text = _told(places, f"{bridge}: the switch", *argv)
    return {number: name for number, name in _DESCRIPTION.findall(text) if number.isdigit()}


def _datapath(places: OvsPlaces, control: Unixctl) -> Datapath:
    """How most of its ports are attached: what decides where frames are counted."""
    if not control.call("dpctl/show").startswith("netdev@"):
        offloads = _asked(places, "--if-exists", "get", "Open_vSwitch", ".", "other_config:hw-offload")
        return Datapath.TC if offloads.strip().strip('"') == "true" else Datapath.KERNEL
    types = set(_interface_types(_asked(places, "--format=json", "--columns=type", "list", "Interface")))
    for begin, datapath in _TYPES.items():
        if any(interface_type.startswith(begin) for interface_type in types):
            return datapath
    return Datapath.AF_PACKET


def _interface_types(text: str) -> Iterator[str]:
    """The types in a table that ovs-vsctl printed as JSON; what is no such table has none."""
    try:
        table = json.loads(text)
    except ValueError:
        return
    rows = table.get("data", ()) if isinstance(table, dict) else ()
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and row and isinstance(row[0], str):
            yield row[0]
