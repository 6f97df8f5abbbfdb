"""Kernels in the place of the engine: a namespace for the clients, and one with the addresses of all backends.

Each gets the engine's end of its port, and announces its addresses by gratuitous ARP requests (arp_notify, ip-sysctl in
the kernel), since the device still knows the engine's Ethernet address. Checksums are complete when they leave (`tx
off`, ethtool(8)): a device that is not a kernel does not finish them. All of it is given back, and has the bench's name
where it could not be.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from pinchpoint.bench.actions import create, remove
from pinchpoint.bench.resource import Namespace
from pinchpoint.dut.device import Attachment
from pinchpoint.host.interface import SYS, Host
from pinchpoint.measure.standing import Standing
from pinchpoint.model.addresses import shown
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.scenario import Mode, Service

MACS: Final = ("02:00:00:00:00:01", "02:00:00:00:00:02")  # of both ends: where a device sends that asks nobody


@contextmanager
def kernel_ends(bench: Standing, service: Service, asked_by: str, clients: int = 1) -> Iterator[tuple[str, str]]:
    """Inside, two namespaces are in the engine's place: that of `clients` clients, and that of all servers.

    Raises BenchError, or InputError where a port is no interface: what `asked_by` says, as `verify.programs`, needs it.
    """
    places, machine = bench.setup.places, bench.host
    ends = [_attached(bench, name, asked_by) for name in (service.client_port, service.server_port)]
    client, servers = names = places.host_netns(service.client_port), places.host_netns(service.server_port)
    sources = [shown(service.clients.first + number) for number in range(clients)]
    backends = list(dict.fromkeys(backend.address for backend in service.backends))
    with ExitStack() as undo:
        for end, name, mac, addresses in zip(ends, names, MACS, (sources, backends), strict=True):
            _move(machine, end, name, mac, addresses, undo)
        _ip(machine, client, f"route add {service.address}/32 dev {ends[0].device} src {sources[0]}")
        _ip(machine, servers, f"route add default dev {ends[1].device}")  # what leaves it is asked for by ARP
        if service.mode is Mode.DNAT:  # the clients are behind the device
            file = f"{SYS}/class/net/{service.server_port}/address"
            mac = places.host.run(["cat", file], places.dut_netns).strip()
            at = f"lladdr {mac} dev {ends[1].device} nud permanent"
            _ip(machine, servers, *(f"neighbour add {source} {at}" for source in sources))
        yield names


def _attached(bench: Standing, name: str, asked_by: str) -> Attachment:
    scenario = bench.scenario
    number, port = next((number, port) for number, port in enumerate(scenario.ports) if port.name == name)
    attachment = bench.setup.bench.attachment(number, port)
    if attachment.netns is None:
        raise InputError(
            f"{scenario.path}: {asked_by}: port {name} of {scenario.dut.kind} is no interface of a kernel",
            f"leave out {asked_by}: the engine's own connections need none",
        )
    return attachment


def _ip(host: Host, netns: str, *lines: str) -> None:
    for line in lines:
        host.run(["ip", "-n", netns, *line.split()])


def _quietly(step: Callable[..., object], *arguments: object) -> None:
    """What is gone needs no removal, and the bench's end takes the rest."""
    with suppress(BenchError):
        step(*arguments)


def _move(machine: Host, end: Attachment, netns: str, mac: str, addresses: Iterable[str], undo: ExitStack) -> None:
    """The engine's end of a port to a namespace of its own, where it has these addresses."""
    link, home, namespace = end.device, end.netns or "", Namespace(netns)
    before = machine.run(["cat", f"{SYS}/class/net/{link}/address"], home).strip()
    undo.callback(_quietly, remove, namespace, machine)
    undo.callback(_quietly, _ip, machine, home, f"link set dev {link} address {before}", f"link set dev {link} up")
    undo.callback(_quietly, _ip, machine, netns, f"link set dev {link} netns {home}")
    create(namespace, machine)
    _ip(machine, home, f"link set dev {link} netns {netns}")
    machine.run(["ethtool", "-K", link, "tx", "off", "tso", "off"], netns)
    machine.run(["sysctl", "-qw", f"net/ipv4/conf/{link}/arp_notify=1"], netns)
    _ip(machine, netns, *(f"address add {address}/32 dev {link}" for address in addresses))
    _ip(machine, netns, f"link set dev {link} address {mac}", f"link set dev {link} up")
