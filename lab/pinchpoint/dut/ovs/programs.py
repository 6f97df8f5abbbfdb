"""The switch's own program: what it says of itself, and its hash, which distinguishes two builds of one version."""

import re
from collections.abc import Mapping
from pathlib import Path

from pinchpoint.dut.ovs.daemons import program
from pinchpoint.dut.ovs.spec import Datapath, spec
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import BenchError, RequirementError
from pinchpoint.model.scenario import Scenario

_FIRST_LINE = re.compile(r"\S+ \(Open vSwitch\) \S+")
_NAME = "ovs-vswitchd"  # by which its main thread is found


def told_version(host: Host, path: str) -> str:
    """What `PROGRAM --version` says, in one line. Raises BenchError or RequirementError if it does not run."""
    lines = host.run([path, "--version"], timeout_s=10.0).splitlines()
    return ", ".join(line.strip() for line in lines if line.strip())


def what_is_wrong(host: Host, path: str, datapath: Datapath) -> str:
    """Why a build of one's own cannot be the switch of this datapath; empty if it can."""
    if host.which(path) is None:
        return "not executable" if host.exists(path) else "no such file"
    if not Path(path).name.startswith(_NAME):
        return f"its name does not begin with {_NAME}, by which its threads are found"
    try:
        version = told_version(host, path)
    except (BenchError, RequirementError, OSError) as error:
        return f"--version failed: {error}"
    if not _FIRST_LINE.match(version):
        return f"--version says {version[:100]!r}, expected '{_NAME} (Open vSwitch) VERSION'"
    if datapath is Datapath.DPDK and "DPDK" not in version:
        return f"built without DPDK ({version})"
    return ""


def program_facts(scenario: Scenario, host: Host) -> Mapping[str, str]:
    """The program's path, version and SHA-256, under a name that no other program of the run has."""
    path = program(scenario)
    own = spec(scenario).vswitchd is not None
    name = f"switch {path} program" if own else f"switch program for {spec(scenario).datapath}"
    digest = host.run(["sha256sum", path]).split()[0]
    return {name: f"{path}: {told_version(host, path)}, sha256 {digest}"}
