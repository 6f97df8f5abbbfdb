"""What a kind of device declares if it can be watched in service, on no bench of the lab."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pinchpoint.dut.device import Device, Seen
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import InputError
from pinchpoint.model.hops import HopGraph
from pinchpoint.model.watch import TextReading
from pinchpoint.observe.snapshot import Collector


@dataclass(frozen=True)
class Attached:
    """A device in service. Its collectors read and change nothing."""

    place: str  # where it was found
    variant: str  # which of the kind's hop graphs, as `watched_graph` knows it
    ports: tuple[str, ...]
    collectors: tuple[Collector, ...]
    facts: Mapping[str, str]
    close: Callable[[], None]
    process: int | None = None  # that forwards; None: no process of this machine does


class Watchable(Device):
    """A kind of device that can be watched in service; an optional capability."""

    text_marks: ClassVar[tuple[bytes, ...]] = ()  # texts that it prints have one near their begin; none: it reads none
    text_example: ClassVar[str] = "the output of its commands"  # such a text

    def attach(self, place: str | None, host: Host) -> Attached:
        """One that runs already; `place` as the kind knows it, None: the host's own.

        Raises RequirementError if there is none.
        """
        raise NotImplementedError

    def watched_graph(self, variant: str, seen: Seen, ports: Sequence[str]) -> HopGraph:
        """Where frames are counted on their way through it; `seen` tells its ports apart.

        Raises InputError for a variant that there is not.
        """
        raise NotImplementedError

    def of_texts(self, texts: Mapping[str, str]) -> TextReading | None:
        """What was taken from one as text, by file, as a reading; None if it printed none of these."""
        return None

    def logical_names(self, seen: Seen) -> Mapping[str, str]:
        """What a network's controller calls its ports."""
        return {}


def watchable(device: Device) -> Watchable:
    """The device as one that is watched. Raises InputError where it cannot be."""
    if not isinstance(device, Watchable):
        raise InputError(f"{device.title} cannot be watched", "only devices that run on their own can")
    return device
