"""A switch that runs already and that no bench of ours built: found by its run directory, read and never changed."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from pinchpoint.dut.device import Attached
from pinchpoint.dut.ovs.collectors import Conntrack, Coverage, DatapathFlows, FlowDump, PmdThreads, Ports, ReceiveQueues
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.dut.ovs.tc import TcFilters
from pinchpoint.dut.ovs.unixctl import Unixctl
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.model.errors import DutError, RequirementError
from pinchpoint.observe.cpu import PacketThreads
from pinchpoint.observe.printed import Links
from pinchpoint.observe.snapshot import Collector

MOST_FLOWS = 1_000  # of a switch in service, listed at each reading: some 20 ms of its main thread
SYSTEM = "/var/run/openvswitch"
_POLLING = re.compile(r"pmd-c\d+/id:\d+")
_MAIN = re.compile(r"ovs-vswitchd\S*")
_PIDFILES = ("ovs-vswitchd.pid", "vswitchd.pid")  # the system's, and that of a private bench
_DESCRIPTION = re.compile(r"^ (\d+|[A-Z]+)\(([^)]+)\): ", re.MULTILINE)
_TYPES = {"dpdk": Datapath.DPDK, "afxdp": Datapath.AF_XDP}


def attach(place: str | None, host: Host) -> Attached:
    """The switch whose run directory is `place`; None: the system's. Raises RequirementError or DutError."""
    folder = PurePosixPath(place or SYSTEM)
    pidfile, pid = _process(folder, host)
    control = Unixctl(host, _control(folder, pidfile, pid, host))
    version = control.call("version").splitlines()
    bridges = {bridge: _ports(folder, bridge, host) for bridge in _bridges(folder, host)}
    names = tuple(dict.fromkeys(name for numbers in bridges.values() for name in numbers.values()))
    datapath = _datapath(folder, control, host)
    collectors: list[Collector] = [
        Coverage(control),
        Conntrack(control),
        DatapathFlows(control),
        ReceiveQueues(control),
        FlowDump(control, MOST_FLOWS),
    ]
    if datapath is Datapath.TC:
        collectors.append(TcFilters(host, None, names))
    if datapath is not Datapath.DPDK:
        collectors.append(Links(host, None, "dut", names))  # in the namespace of whoever watches
    collectors += [
        Ports(host, bridge, str(folder / f"{bridge}.mgmt"), numbers, _environment(folder))
        for bridge, numbers in bridges.items()
    ]
    collectors += [PacketThreads(host, pidfile, _POLLING, _MAIN), PmdThreads(control)]
    facts = {"switch": version[0] if version else "unknown", "datapath": str(datapath)}
    return Attached(str(folder), str(datapath), names, tuple(collectors), facts, control.close)


def _process(folder: PurePosixPath, host: Host) -> tuple[str, int]:
    for name in _PIDFILES:
        path = str(folder / name)
        try:
            pid = int(host.read(path))
        except PermissionError as error:
            raise RequirementError(f"{path}: no permission", "run as root: sudo pinchpoint watch") from error
        except (OSError, ValueError):
            continue
        if host.exists(f"{PROC}/{pid}"):
            return path, pid
    raise RequirementError(f"{folder}: no running switch found there", "give its run directory: pinchpoint watch PLACE")


def _control(folder: PurePosixPath, pidfile: str, pid: int, host: Host) -> str:
    stem = PurePosixPath(pidfile).stem
    for name in (f"{stem}.{pid}.ctl", f"{stem}.ctl"):
        if host.exists(path := str(folder / name)):
            return path
    raise RequirementError(f"{folder}: no control socket of process {pid}", "run as root: sudo pinchpoint watch")


def _environment(folder: PurePosixPath) -> Mapping[str, str]:
    return {"OVS_RUNDIR": str(folder)}


def _asked(folder: PurePosixPath, host: Host, *words: str) -> str:
    command = ["ovs-vsctl", f"--db=unix:{folder}/db.sock", "--timeout=10", "--no-wait", *words]
    try:
        return host.run(command, environment=tuple(_environment(folder).items()))
    except CommandFailed as error:
        raise DutError(f"{folder}: the switch's database does not answer: {error.output}") from error


def _bridges(folder: PurePosixPath, host: Host) -> list[str]:
    return _asked(folder, host, "list-br").split()


def _ports(folder: PurePosixPath, bridge: str, host: Host) -> dict[str, str]:
    """OpenFlow number -> name of the ports of one bridge, but its own."""
    command = ["ovs-ofctl", "--timeout=10", "dump-ports-desc", str(folder / f"{bridge}.mgmt")]
    try:
        text = host.run(command, environment=tuple(_environment(folder).items()))
    except CommandFailed as error:
        raise DutError(f"{bridge}: the switch does not answer: {error.output}") from error
    return {number: name for number, name in _DESCRIPTION.findall(text) if number.isdigit()}


def _datapath(folder: PurePosixPath, control: Unixctl, host: Host) -> Datapath:
    """How most of its ports are attached: what decides where frames are counted."""
    if not control.call("dpctl/show").startswith("netdev@"):
        offloads = _asked(folder, host, "--if-exists", "get", "Open_vSwitch", ".", "other_config:hw-offload")
        return Datapath.TC if offloads.strip().strip('"') == "true" else Datapath.KERNEL
    types = set(_interface_types(_asked(folder, host, "--format=json", "--columns=type", "list", "Interface")))
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
