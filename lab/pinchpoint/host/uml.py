"""User-mode Linux as a guest's kernel: its command, and what it was built with. Debian's package: user-mode-linux.

Options: Documentation/virt/uml/user_mode_linux_howto_v2.rst in the kernel.
"""

import shlex
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pinchpoint.host.guest import LINE
from pinchpoint.host.local import LOCAL

TITLE = "user-mode Linux"
PROGRAM = "linux.uml"
PACKAGE = "user-mode-linux"
_MODULES = Path("/usr/lib/uml/modules")  # where modprobe(8) does not look


def command(folder: str, init: str, memory_mb: int, mtu: int, taps: Sequence[str]) -> tuple[str, ...]:
    """What boots it, with `taps` as its interfaces vec0, vec1 and so on; `init` is the file of `init_line`.

    Its root is this machine's, read only. It runs in a process namespace: when its first process ends, however that
    ends, the kernel ends the rest, those that stand for processes of the guest and would else be left stopped.
    """
    vectors = (f"vec{n}:transport=tap,ifname={tap},mtu={mtu}" for n, tap in enumerate(taps))
    return (
        *("unshare", "--pid", "--fork", "--kill-child"),
        *(PROGRAM, f"mem={memory_mb}M", f"uml_dir={folder}/", "umid=guest"),
        *("rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"),
        "ipv6.disable_ipv6=1",  # no frame is the kernel's own idea; no namespace can say so before the module is there
        *("console=tty0", "con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{LINE}"),
        *vectors,
        *("init=/bin/sh", "--", init),
    )


def init_line() -> str:
    """The shell command with which the guest begins. In a file, since a kernel's command line knows no quotes."""
    here = Path(__file__)
    words = (here.with_name("guest_init.sh"), sys.executable, here.parents[2], _MODULES)
    return f"exec /bin/sh {shlex.join(map(str, words))}"


def interface(number: int) -> str:
    """The guest's name of the tap of that number."""
    return f"vec{number}"


def has_module(name: str) -> bool:
    """Whether there is such a module of any release."""
    return any(_MODULES.rglob(f"{name}.ko*"))


def is_configured(option: str) -> bool:
    """Whether the kernel was built with an option, or has it as a module. Raises CommandFailed or RequirementError."""
    return any(line in (f"{option}=y", f"{option}=m") for line in _configuration())


@cache
def _configuration() -> tuple[str, ...]:
    return tuple(LOCAL.run([PROGRAM, "--showconfig"], timeout_s=10.0).splitlines())
