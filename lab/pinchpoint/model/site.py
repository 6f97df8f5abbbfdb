"""Where the parts of a bench stand, and what joins them: made once, as a scenario is read. Pure."""

from dataclasses import dataclass
from typing import Final

LAB: Final = "lab"
"""How a scenario names the machine on which the lab runs, where another host is meant otherwise."""


@dataclass(frozen=True)
class Remote:
    """How another machine is reached."""

    name: str  # in the scenario
    address: str  # a destination of ssh(1)
    sudo: bool  # whether root is reached by it where the user is not root
    lease_s: float  # without the lab, after which the bench is undone there


@dataclass(frozen=True)
class Site:
    """One machine of a bench, with the parts that stand there.

    The first site of a scenario has the device, and every part that no other site names.
    """

    remote: Remote | None = None  # None: the machine on which the lab runs
    ports: tuple[str, ...] = ()  # of the device, by their names, whose other ends the engine here has
    ends: tuple[str, ...] = ()  # ends of a socket workload, `[[host]]`, by their names

    @property
    def is_lab(self) -> bool:
        """Whether it is the machine on which the lab runs."""
        return self.remote is None

    @property
    def name(self) -> str:
        """As the scenario names the machine."""
        return self.remote.name if self.remote else LAB

    @property
    def address(self) -> str:
        """Where ssh(1) reaches it; empty: the machine on which the lab runs. One machine has one."""
        return self.remote.address if self.remote else ""


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link: a NIC or an interface that its machine has, or else one that the bench makes.

    What is made depends on the device: a veth pair, a vhost-user ring, a tap, a memif.
    """

    site: Site
    nic: str | None = None  # a PCI address: a driver in userspace has it
    interface: str | None = None  # the kernel has it
    shared_nics: tuple[str, ...] = ()  # PCI addresses: the device uses them too, and they keep their drivers

    @property
    def nics(self) -> tuple[str, ...]:
        """The PCI addresses of all that it needs."""
        return (*((self.nic,) if self.nic else ()), *self.shared_nics)


@dataclass(frozen=True)
class Link:
    """What joins the device to an engine, or to an end of a socket workload."""

    device: LinkEnd
    far: LinkEnd

    @property
    def is_local(self) -> bool:
        """Whether both ends are on the device's machine."""
        return self.far.site == self.device.site

    @property
    def is_lent(self) -> bool:
        """Whether it is a cable between machines, or between interfaces of one, that only one bench can borrow.

        NICs of one machine are not among them: benches with others may stand beside it.
        """
        return not self.is_local or bool(self.device.interface)
