"""The kernels that a guest can have: a module each, named by the scenario's word. A new one is a row here."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from pinchpoint.host import qemu, uml


class GuestKernels(Protocol):
    """What the module of a guest's kernel offers."""

    TITLE: str
    ABOUT: str  # for the documentation
    PROGRAMS: tuple[tuple[str, str], ...]  # (program, Debian's package of it)
    FILES: tuple[tuple[str, str], ...]  # (what it is, where it is); provided by:
    PROVIDED_BY: str  # the command that provides the kernel and its modules
    LEAST_MB: int  # memory with which it boots
    STANDING_S: float  # to boot and to end
    VCPU: re.Pattern[str]  # names of the threads, beside the first, that forward frames

    def command(self, folder: str, init: str, memory_mb: int, mtu: int, taps: Sequence[str]) -> tuple[str, ...]:
        """What boots it, with `taps` as its interfaces; `init` is a file that holds `init_line`."""

    def init_line(self) -> str:
        """The shell command with which the guest begins."""

    def interface(self, number: int) -> str:
        """The guest's name of the tap of that number."""

    def runs_on(self) -> str:
        """What stands for its CPU."""

    def has_module(self, name: str) -> bool:
        """Whether there is such a module of any release."""

    def is_configured(self, option: str) -> bool:
        """Whether it was built with an option, or has it as a module."""


KERNELS: Final[Mapping[str, GuestKernels]] = {"uml": uml, "qemu": qemu}
