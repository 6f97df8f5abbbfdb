"""Where everything of one bench is found: its folder, its namespaces, its hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pinchpoint.host.guest import BenchGuest, Guest
from pinchpoint.host.interface import Host
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.model.site import Site


@dataclass(frozen=True)
class Places:
    """Where everything of one bench is found."""

    bench_id: str
    directory: PurePosixPath
    host: Host  # on which the device runs
    sites: Mapping[str, Host] = field(default_factory=dict)  # by their names; may be empty of a bench on one machine
    vms: Mapping[str, Guest] = field(default_factory=dict)  # ends that are virtual machines, by their names

    @property
    def machine(self) -> Host:
        """The machine on which the bench stands: the device's host; of a guest with the device alone, that outside."""
        return self.host if isinstance(self.host, BenchGuest) else self.outside

    @property
    def outside(self) -> Host:
        """The machine on which a guest is a process, and whose files it sees; without a guest `machine`."""
        return self.host.machine if isinstance(self.host, Guest) else self.host

    @property
    def guests(self) -> dict[str, Guest]:
        """Every guest of the bench by its name in resources: the device's, or the whole bench's, has none."""
        own = {"": self.host} if isinstance(self.host, Guest) else {}
        return {**own, **self.vms}

    def at(self, site: Site) -> Host:
        """The machine of a site; of a bench in a guest its one site is that guest."""
        return self.sites[site.name] if self.sites else self.machine

    def of_end(self, name: str, site: Site) -> Host:
        """On which the workload of an end runs: the virtual machine that it is, or the machine of its site."""
        return self.vms.get(name) or self.at(site)

    @property
    def dut_netns(self) -> str:
        """Name of the device's network namespace."""
        return f"pp-{self.bench_id}-dut"

    @property
    def engine_netns(self) -> str:
        """The namespace of the engine's ends of veth links."""
        return f"pp-{self.bench_id}-gen"

    def host_netns(self, host: str) -> str:
        """The namespace that is the host of that name."""
        return f"pp-{self.bench_id}-host-{host}"

    def vhost_socket(self, port: str) -> str:
        """The vhost-user socket of one port."""
        return f"{self.directory}/vhost-{port}.sock"

    def pidfile(self, daemon: str) -> str:
        """The pid file of one daemon."""
        return f"{self.directory}/{daemon}.pid"

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Marks every process of the bench."""
        return ((ENVIRONMENT_MARK, self.bench_id),)
