"""The kernels that a guest can have: a module each, named by the scenario's word. A new one is a row here.

AUTO stands for the first of them that boots on this machine and has what the device needs (`dut/placement.py`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from pinchpoint.host import qemu, uml
from pinchpoint.host.interface import Host


class GuestKernels(Protocol):
    """What the module of a guest's kernel offers."""

    TITLE: str
    ABOUT: str  # for the documentation
    PROGRAMS: tuple[tuple[str, str], ...]  # (program, Debian's package of it)
    HAS_RELEASES: bool  # whether a scenario may choose one; else `release` is always None
    HAS_NODES: bool  # whether it can have several NUMA nodes with a CPU each; else `nodes` has always one
    LEAST_MB: int  # memory with which it boots
    STANDING_S: float  # to boot and to end
    LINE: str  # the guest's device that leads to the lab
    VCPU: re.Pattern[str]  # names of the threads, beside the first, that forward frames

    def files(self, release: str | None = None) -> Sequence[tuple[str, str]]:
        """What it needs, each as (what it is, where it is)."""

    def provided_by(self, release: str | None = None) -> str:
        """The command that provides the kernel and its modules."""

    def mended_by(self) -> str:
        """The command that may make it boot; empty if none is known."""

    def command(
        self,
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
        """What boots it on `machine`, with `taps` as its interfaces; `init` is a file that holds `init_line`.

        `nodes` has for each of its NUMA nodes the one of this machine from which the memory is taken (None: any). With
        `shares_cpu` all its virtual CPUs run on one CPU of this machine.
        """

    def init_line(self, release: str | None = None) -> str:
        """The shell command with which the guest begins."""

    def interface(self, number: int) -> str:
        """The guest's name of the tap of that number."""

    def thread(self, number: int) -> str:
        """A pattern of the name of the thread that is the virtual CPU of that number, where it has several."""

    def runs_on(self, machine: Host) -> str:
        """What stands for its CPU there."""

    def has_module(self, name: str, release: str | None = None) -> bool:
        """Whether there is such a module."""

    def is_configured(self, machine: Host, option: str, release: str | None = None) -> bool:
        """Whether it was built with an option, or has it as a module."""


AUTO: Final = "auto"
KERNELS: Final[Mapping[str, GuestKernels]] = {"uml": uml, "qemu": qemu}
