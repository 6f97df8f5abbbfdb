"""The way of a host to a switch that the kernel does not know: from its veth link to a vhost-user port.

The host is a namespace with one end of a veth link. The other end and the switch's port are joined by
`pinchpoint-engine relay`; it is the server of the vhost-user socket, as a guest would be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pinchpoint.bench.resource import Command, Relay

# Buffers for both rings of each vhost-user port, of 2.5 kB at least, and what DPDK itself takes: two links
# with rings of 1,024 frames were seen to run.
LEAST_MEMORY_MB = 64
MEMORY_PER_LINK_MB = 32


@dataclass(frozen=True)
class RelayLink:
    """A host's link that ends at a vhost-user port."""

    host: str  # the word for it in accounts
    interface: str  # the link's end outside the host
    netns: str  # where that end is
    port: str  # of the switch
    socket: str  # that the switch's port connects to


def relay_memory_mb(links: int) -> int:
    """Hugepage memory in MB that one relay with this many links takes."""
    return LEAST_MEMORY_MB + (links - 1) * MEMORY_PER_LINK_MB


def relay(
    name: str,
    links: Sequence[RelayLink],
    *,
    engine: Sequence[str],
    directory: PurePosixPath,
    bench_id: str,
    cpu: int,
    ring: int = 1024,
) -> Relay:
    """One process that carries all `links` on `cpu`; it comes after the switch's ports, which must connect to it.

    `engine` is the command that starts the engine; `ring` frames of the vhost-user rings. It yields when idle: clients
    or servers may share the core.
    """
    ports: list[str] = []
    directions: list[tuple[str, str]] = []
    for number, link in enumerate(links):
        ports.append(f"af_packet:{link.interface}@{link.netns}")
        ports.append(f"dpdk:net_virtio_user{number},path={link.socket},server=1,queues=1,queue_size={ring}")
        directions += [(link.host, link.port), (link.port, link.host)]
    eal = f"--no-pci --in-memory --single-file-segments -m {relay_memory_mb(len(links))}"
    timeout = f"{len(links) * Relay.LINK_TIMEOUT_S:g}s"
    options = ("--core", str(cpu), "--idle", "yield", "--json", "--eal", eal)
    rings = ("--rx-ring", str(ring), "--tx-ring", str(ring), "--link-timeout", timeout)
    return Relay(
        name=name,
        argv=(*engine, "relay", *ports, *options, *rings),
        directions=tuple(directions),
        pidfile=f"{directory}/{name}.pid",
        account=f"{directory}/{name}.account",
        log=f"{directory}/{name}.log",
        bench_id=bench_id,
        cpu=cpu,
    )


def plain_frames(interface: str, netns: str) -> Command:
    """Have the kernel send whole frames with whole checksums there: nobody behind a relay finishes them."""
    offloads = [word for name in ("tx", "tso", "gso", "gro") for word in (name, "off")]
    return Command(("ethtool", "-K", interface, *offloads), netns=netns)
