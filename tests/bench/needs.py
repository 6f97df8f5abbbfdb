"""What a machine may lack. `needs("af_xdp")` skips a test where its probe says why not.

A parameter that has the name of a need declares it as well: `parametrize("datapath", ["dpdk", "af_xdp"])`; not in
tests/unit, which need nothing of the machine.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from pinchpoint.bench import requirements
from pinchpoint.dut import vm
from pinchpoint.engine import process
from pinchpoint.host.guest_kernels import KERNELS, booted, releases
from pinchpoint.host.local import Local
from pinchpoint.observe.cpu import is_configured

BOOT_S = 120.0
HUGEPAGES = 1300  # of two switches at once, and their engine
PERF_LEVEL = Path("/proc/sys/kernel/perf_event_paranoid")
RECORD = ("perf", "record", "-e", "cpu-clock", "-o", "/dev/null", "--", "true")
SIMULATORS = Path("/var/cache/pinchpoint/vdpa-sim")
NODES = Path("/sys/devices/system/node")


def backend(name):
    """Why the engine cannot open ports of that kind here."""
    (there,) = (backend for backend in process.backends(Local()) if backend.name == name)
    return "" if there.available else f"{there.why}; {there.hint}"


def memory():
    """Why a switch with DPDK has no memory here."""
    pool = "/proc/sys/vm/nr_hugepages"
    if not os.access(pool, os.W_OK):
        return f"{pool} cannot be written"
    return detail([requirements.hugepages(Local(), HUGEPAGES, "leave these tests out")])


def program(name):
    """Why a program cannot be run."""
    return "" if shutil.which(name) else "not installed"


def detail(probes):
    """What the first of the lab's own probes lacks."""
    return next((f"{probe.name}: {probe.detail}; {probe.hint}" for probe in probes if not probe.ok), "")


def release(*wanted):
    """Why guests under qemu cannot have these kernels."""
    return detail(probe for kernel in wanted for probe in vm.probes(Local(), (KERNELS["qemu"],), kernel))


def simulator():
    """Why no guest has the kernel's simulator of vDPA."""
    made = any((SIMULATORS / release).is_dir() for release in releases(KERNELS["qemu"].place("6.12") / "modules"))
    return release("6.12") or ("" if made else "run packaging/vdpa-sim, or make test-vdpa")


def readable():
    """Why an ordinary user cannot start the lab here."""
    nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        Path(sys.executable).with_name("pinchpoint"),
    ]
    done = subprocess.run([*nobody, "--version"], capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def nodes():
    """Why nothing can be said to be the only NUMA node."""
    count = len(list(NODES.glob("node[0-9]*")))
    return f"this machine has {count}" if count > 1 else ""


def perf():
    """Why functions cannot be sampled."""
    if not PERF_LEVEL.exists():
        return "this kernel has no perf events"
    tried = program("perf") or subprocess.run(RECORD, capture_output=True, text=True, check=False).stderr
    return "" if "Captured and wrote" in tried else tried.strip()


def writable(folder):
    """Why nothing can be set below a folder."""
    return "is mounted read-only" if os.statvfs(folder).f_flag & os.ST_RDONLY else ""


def package(name, extra):
    """Why a Python package cannot be used."""
    return "" if importlib.util.find_spec(name) else f"not installed: pip install 'pinchpoint[{extra}]'"


def dpvs():
    """Why there is no DPVS."""
    return "" if os.environ.get("PINCHPOINT_DPVS") else "PINCHPOINT_DPVS names no folder with a build of DPVS"


def vlan():
    """Why no interface has tags."""
    built = [is_configured(Local(), f"CONFIG_VLAN_8021Q={how}") for how in "ym"]
    return "this kernel was built without CONFIG_VLAN_8021Q" if built == [False, False] else ""


PROBES = {
    "CPUs 0 and 1": lambda: detail([requirements.cpus(Local(), (0, 1), 2)]),
    "dpdk": lambda: backend("dpdk") or memory(),
    "af_xdp": lambda: backend("af_xdp"),
    "perf": perf,
    "one NUMA node": nodes,
    "kernels 6.1 and 6.12": lambda: release("6.1", "6.12"),
    "vdpa simulator": simulator,
    "checkout that anybody can read": readable,
    "writable /sys": lambda: writable("/sys"),
    "guest": lambda: lack("uml") and lack("qemu"),
    "ipvs": lambda: lack("guest"),
    "uml": lambda: (
        detail(vm.probes(Local(), (KERNELS["uml"],))) or booted(Local(), "uml", BOOT_S).why_not.partition("\n")[0]
    ),
    "qemu": lambda: detail(vm.probes(Local(), (KERNELS["qemu"],))),
    "testpmd": lambda: program("dpdk-testpmd"),
    "haproxy": lambda: program("haproxy"),
    "nginx": lambda: program("nginx"),
    "envoy": lambda: "" if importlib.util.find_spec("envoy") or shutil.which("envoy") else "not installed",
    "dpvs": dpvs,
    "vlan": vlan,
    "bpf-gcc": lambda: program("bpf-gcc") or program("bpftool"),
    "ray": lambda: package("ray", "campaign"),
    "scapy": lambda: package("scapy", "dev"),
}


@cache
def lack(name):
    """Why this machine does not have that; empty if it does."""
    why = PROBES[name]()
    return f"needs {name}: {why}" if why else ""


def require(name):
    """Skip the running test where the machine lacks that."""
    if name in PROBES and (why := lack(name)):
        pytest.skip(why)


def needed(item):
    """The needs of a test, by its marks and its parameters."""
    marked = [name for mark in item.iter_markers("needs") for name in mark.args]
    parameters = None if "unit" in item.path.parts else getattr(item, "callspec", None)
    values = parameters.params.values() if parameters else ()
    return list(dict.fromkeys([*marked, *(value for value in values if isinstance(value, str) and value in PROBES)]))


def reasons(reports):
    """Skipped tests by their reason, the most frequent first."""
    counted = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    return [f"{count} skipped: {reason}" for reason, count in counted.most_common()]
