"""What a machine must have for a private Open vSwitch, and what the switch's own program says of itself."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pinchpoint.bench.requirements import Probe, command, hugepages, kernel_module, packaged
from pinchpoint.dut import nics
from pinchpoint.dut.attach import pages_of
from pinchpoint.dut.device import ENGINE_MEMORY_MB, Device, Starter
from pinchpoint.dut.ovs.bench import SWITCH, VSWITCHD, hugepages_needed
from pinchpoint.dut.ovs.bench import program as program_of
from pinchpoint.dut.ovs.keys import DEFAULT_MEMORY_MB
from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath, OvsPort, spec
from pinchpoint.dut.ovs.tc import MODULES
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import BenchError, RequirementError
from pinchpoint.model.scenario import Scenario

_PACKAGES = {
    **dict.fromkeys(("ovs-vsctl", "ovs-ofctl", "ovsdb-server", "ovsdb-tool"), "openvswitch-switch"),
    **dict.fromkeys(("ip", "ss"), "iproute2"),
    "sysctl": "procps", "taskset": "util-linux", "ethtool": "ethtool",
}  # fmt: skip
_OTHERWISE = 'set dut.datapath = "af_packet"'
_STARTING_RULE = 'rules = """\nin_port={left},actions=output:{right}\n"""'
STARTERS = (
    Starter(rank=10, kind="ovs", words="Open vSwitch with DPDK", title="Open vSwitch with DPDK, one rule",
        why="one PMD thread, one rule, vhost-user ports", polls=True, backend="dpdk", ring=4096,
        dut=f'kind = "ovs"\ndatapath = "dpdk"\npmd_cpus = {{cpus}}\n{_STARTING_RULE}'),
    Starter(rank=20, kind="ovs", words="Open vSwitch in user space over veth", title="Open vSwitch over veth, one rule",
        why="one PMD thread, one rule, packet sockets, no hugepages", polls=True, backend="af_packet",
        dut=f'kind = "ovs"\ndatapath = "af_packet"\npmd_cpus = {{cpus}}\n{_STARTING_RULE}'),
)  # fmt: skip
_FIRST_LINE = re.compile(r"\S+ \(Open vSwitch\) \S+")


class Needs(Device):
    """What a switch of any datapath needs."""

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The programs of its datapath, hugepages or a kernel module, and what that datapath can do."""
        dut = spec(scenario)
        yield from (command(host, name, package) for name, package in _PACKAGES.items())
        yield _own_program(host, dut.vswitchd, dut.datapath) if dut.vswitchd else program(host, dut.datapath)
        if dut.datapath is Datapath.DPDK:
            yield hugepages(host, hugepages_needed(scenario), _OTHERWISE)
            yield from nics.needs(host, nics.beside_device(scenario))
            ends = [end for port in scenario.ports if isinstance(port, OvsPort) for end in (port.pf, port.vf)]
            yield from nics.shared(host, (end for end in ends if end))
        if dut.datapath is Datapath.TC:
            otherwise = 'set guest.kernel = "qemu", or dut.datapath = "kernel"'
            yield from (kernel_module(host, name, otherwise, scenario.guest) for name in MODULES)
            yield command(host, "tc", "iproute2")
        if dut.datapath in IN_KERNEL:
            yield kernel_module(host, "openvswitch", _OTHERWISE, scenario.guest)
            if dut.tunnels:
                detail = "not possible with the kernel datapath: the kernel delivers packets for its own addresses "
                detail += "itself"
                yield Probe("tunnels", False, detail, 'set dut.datapath = "af_packet", "af_xdp" or "dpdk"')

    def probes(self, host: Host) -> Iterator[Probe]:
        """Both of its programs, and the hugepages of a scenario that leaves every size at its default."""
        yield from (command(host, name, package) for name, package in _PACKAGES.items())
        yield program(host, Datapath.DPDK)
        yield hugepages(host, pages_of(DEFAULT_MEMORY_MB + ENGINE_MEMORY_MB), _OTHERWISE)
        yield program(host, Datapath.AF_PACKET)

    def pages(self, scenario: Scenario) -> int:
        """Those of switch, engine and relay."""
        return hugepages_needed(scenario)


def program(host: Host, datapath: Datapath) -> Probe:
    """Whether the datapath's switch is installed."""
    path = Path(VSWITCHD[datapath])
    there = host.exists(str(path))
    detail = str(path) if there else f"{path}: not installed"
    return packaged(path.name, there, detail, path.parent.name)


def _own_program(host: Host, path: str, datapath: Datapath) -> Probe:
    """A program given as dut.vswitchd is asked for its name and version before it runs as the switch."""
    wrong = what_is_wrong(host, path, datapath)
    hint = "set dut.vswitchd to the path of an ovs-vswitchd; for dpdk, of one built with DPDK"
    return Probe("dut.vswitchd", not wrong, f"{path}: {wrong or told_version(host, path)}", hint)


def told_version(host: Host, path: str) -> str:
    """What `PROGRAM --version` says, in one line. Raises BenchError or RequirementError if it does not run."""
    lines = host.run([path, "--version"], timeout_s=10.0).splitlines()
    return ", ".join(line.strip() for line in lines if line.strip())


def what_is_wrong(host: Host, path: str, datapath: Datapath) -> str:
    """Why a build of one's own cannot be the switch of this datapath; empty if it can."""
    if host.which(path) is None:
        return "not executable" if host.exists(path) else "no such file"
    if not Path(path).name.startswith(SWITCH):
        return f"its name does not begin with {SWITCH}, by which its threads are found"
    try:
        version = told_version(host, path)
    except (BenchError, RequirementError, OSError) as error:
        return f"--version failed: {error}"
    if not _FIRST_LINE.match(version):
        return f"--version says {version[:100]!r}, expected '{SWITCH} (Open vSwitch) VERSION'"
    if datapath is Datapath.DPDK and "DPDK" not in version:
        return f"built without DPDK ({version})"
    return ""


def program_facts(scenario: Scenario, host: Host) -> Mapping[str, str]:
    """The program's path, version and SHA-256, under a name that no other program of the run has."""
    path = program_of(scenario)
    own = spec(scenario).vswitchd is not None
    name = f"switch {path} program" if own else f"switch program for {spec(scenario).datapath}"
    digest = host.run(["sha256sum", path]).split()[0]
    return {name: f"{path}: {told_version(host, path)}, sha256 {digest}"}
