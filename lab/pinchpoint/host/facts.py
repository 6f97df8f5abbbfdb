"""What the local machine is: recorded with every run, since no number means anything without it."""

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from pinchpoint import __version__
from pinchpoint.host.interface import PROC
from pinchpoint.host.numa import NODES

_TOOLS = {"iproute2": ("ip", "-V")}


def host_facts() -> dict[str, str]:
    """Processor, cores, memory, kernel; values for people."""
    cpu = _first_value(f"{PROC}/cpuinfo", "model name")
    flags = _first_value(f"{PROC}/cpuinfo", "flags").split()
    return {
        "processor": cpu or platform.processor(),
        "cpus": ", ".join(map(str, sorted(os.sched_getaffinity(0)))),
        "virtual machine": "yes" if "hypervisor" in flags else "no",
        "memory": f"{int((_first_value(f'{PROC}/meminfo', 'MemTotal') or '0').split()[0]) / 2**20:.1f} GiB",
        "kernel": platform.release(),
        "system": _os_name(),
        "numa nodes": str(len(list(Path(NODES).glob("node[0-9]*"))) or 1),
        "kernel options": _read(f"{PROC}/cmdline"),
    }


def modules_folder() -> Path:
    """Where the modules of the running kernel are."""
    return Path("/lib/modules", platform.release())


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    found = {"pinchpoint": __version__, "python": platform.python_version()}
    for package in ("MLRsearch",):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    for name, command in _TOOLS.items():
        found |= {name: version} if (version := _first_line(command)) else {}
    return found


def _first_line(command: tuple[str, ...]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.partition("\n")[0].strip()


def _first_value(path: str, key: str) -> str:
    for line in _read(path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _os_name() -> str:
    return _first_os_release().get("PRETTY_NAME", platform.system())


def _first_os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""
