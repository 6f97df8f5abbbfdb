"""User-mode Linux as a guest's kernel: its command, and what it was built with. Debian's package: user-mode-linux.

Options: Documentation/virt/uml/user_mode_linux_howto_v2.rst in the kernel.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pinchpoint.host import guest
from pinchpoint.host.interface import Host

TITLE = "user-mode Linux"
ABOUT = "user-mode Linux, as Debian's package user-mode-linux provides it; it has no nf_tables for IPv4"
PROGRAM = "linux.uml"
PROGRAMS: tuple[tuple[str, str], ...] = ((PROGRAM, "user-mode-linux"),)
HAS_RELEASES = False  # the package has one
HAS_NODES = False  # it has one CPU
LEAST_MB = 64
STANDING_S = 4.0  # to boot and to end; seen on a machine of two cores
VCPU = re.compile(r"(?!)")  # its process is its one CPU
_MODULES = Path("/usr/lib/uml/modules")  # where modprobe(8) does not look
LINE = "/dev/ttyS0"  # to the lab
_PTRACE = Path(sys.prefix) / "lib/pinchpoint/uml-ptrace.so"  # built of uml_ptrace.c by `make setup`


def files(release: str | None = None) -> Sequence[tuple[str, str]]:
    """None but the program."""
    return ()


def provided_by(release: str | None = None) -> str:
    """The command that provides the kernel and its modules."""
    return "apt-get install user-mode-linux"


def mended_by() -> str:
    """The command that may make it boot; empty if none is known."""
    if _PTRACE.exists():
        return ""
    source = Path(__file__).with_name("uml_ptrace.c")
    return f"with AMX it needs: mkdir -p {_PTRACE.parent} && cc -shared -fPIC -o {_PTRACE} {source}"


def command(
    machine: Host,
    folder: str,
    init: str,
    memory_mb: int,
    mtu: int,
    taps: Sequence[str],
    release: str | None = None,
    nodes: Sequence[int | None] = (None,),
    shares_cpu: bool = False,
) -> tuple[str, ...]:
    """What boots it, with `taps` as its interfaces vec0, vec1 and so on; `init` is the file of `init_line`.

    Its root is this machine's, read only. Processes that stand for those of the guest would be left stopped, were it
    not in a namespace of its own.
    """
    vectors = (f"vec{n}:transport=tap,ifname={tap},mtu={mtu}" for n, tap in enumerate(taps))
    return (
        *guest.OWN_NAMESPACE,
        *preloaded(),
        *(PROGRAM, f"mem={memory_mb}M", f"uml_dir={folder}/", "umid=guest"),
        *("rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"),
        "ipv6.disable_ipv6=1",  # no frame is the kernel's own idea; no namespace can say so before the module is there
        *("console=tty0", "con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{guest.LINE}"),
        *vectors,
        *("init=/bin/sh", "--", init),
    )


def preloaded() -> tuple[str, ...]:
    """What stands before the program so that it boots on a processor with AMX, too; nothing where it is not built."""
    return ("env", f"LD_PRELOAD={_PTRACE}") if _PTRACE.exists() else ()


def init_line(release: str | None = None) -> str:
    """The shell command with which the guest begins."""
    return guest.init_line(_MODULES, LINE)


def interface(number: int) -> str:
    """The guest's name of the tap of that number."""
    return f"vec{number}"


def thread(number: int) -> str:
    """Its process is its one CPU."""
    return re.escape(PROGRAM)


def runs_on(machine: Host) -> str:
    """What stands for its CPU."""
    return "a process"


def has_module(name: str, release: str | None = None) -> bool:
    """Whether there is such a module."""
    return guest.has_module(_MODULES, name)


def is_configured(machine: Host, option: str, release: str | None = None) -> bool:
    """Whether the kernel was built with an option, or has it as a module. Raises CommandFailed or RequirementError."""
    said = machine.run([PROGRAM, "--showconfig"], timeout_s=10.0)
    return any(line in (f"{option}=y", f"{option}=m") for line in said.splitlines())
