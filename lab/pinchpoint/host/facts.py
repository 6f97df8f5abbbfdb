"""What a machine is: recorded with every run, since no number means anything without it."""

import platform
import re
import shlex
import shutil
import subprocess
from importlib import metadata

from pinchpoint import __version__
from pinchpoint.host.interface import PROC, Host
from pinchpoint.host.numa import NODES

_TOOLS = {"iproute2": ("ip", "-V")}


def host_facts(host: Host) -> dict[str, str]:
    """Processor, cores, memory, kernel of a host; values for people."""
    cpu = _first_value(host, f"{PROC}/cpuinfo", "model name")
    flags = _first_value(host, f"{PROC}/cpuinfo", "flags").split()
    nodes = host.names(NODES) if host.exists(NODES) else []
    return {
        "processor": cpu or platform.processor(),
        "cpus": ", ".join(map(str, sorted(host.cpus()))),
        "virtual machine": "yes" if "hypervisor" in flags else "no",
        "memory": f"{int((_first_value(host, f'{PROC}/meminfo', 'MemTotal') or '0').split()[0]) / 2**20:.1f} GiB",
        "kernel": host.release(),
        "system": _os_name(host),
        "numa nodes": str(sum(re.fullmatch("node[0-9]+", name) is not None for name in nodes) or 1),
        "kernel options": _read(host, f"{PROC}/cmdline"),
    }


def modules_folder(host: Host) -> str:
    """Where the modules of the running kernel are."""
    return f"/lib/modules/{host.release()}"


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    by_program = {"pinchpoint": __version__, "python": platform.python_version()}
    for package in ("MLRsearch",):
        try:
            by_program[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    for name, command in _TOOLS.items():
        by_program |= {name: version} if (version := _first_line(command)) else {}
    return by_program


def _first_line(command: tuple[str, ...]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.partition("\n")[0].strip()


def _first_value(host: Host, path: str, key: str) -> str:
    for line in _read(host, path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _os_name(host: Host) -> str:
    """PRETTY_NAME of os-release(5); the kernel's name where there is none."""
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        for line in _read(host, path).splitlines():
            if line.startswith("PRETTY_NAME="):
                return "".join(shlex.split(line.partition("=")[2]))
    return platform.system()


def _read(host: Host, path: str) -> str:
    try:
        return host.read(path).strip()
    except OSError:
        return ""
