"""Kernels in the place of the engine: a namespace for the client and one for each backend's address.

The client's namespace gets the engine's end of the clients' port itself. The end of the servers' port joins a bridge,
to which every backend's namespace is linked. Each announces its new Ethernet address by a gratuitous ARP request
(arp_notify, ip-sysctl in the kernel), since the device still knows the engine's. Checksums are complete when they leave
(`tx off`, ethtool(8)): a device that is not a kernel does not finish them. All of it is taken down again, and has the
bench's name where it could not be.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path

from pinchpoint.bench import requirements
from pinchpoint.bench.actions import create, remove
from pinchpoint.bench.resource import Host, Namespace
from pinchpoint.dut.attach import STANDARD_MTU
from pinchpoint.dut.device import Attachment
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import SYS, CommandFailed
from pinchpoint.host.interface import Host as Machine
from pinchpoint.host.processes import end_processes
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.verify.judged import REQUESTS, Got, label, path
from pinchpoint.model.errors import BenchError, InputError, RequirementError
from pinchpoint.model.scenario import Backend, Mode, Service

READY_S = 20.0  # for a server to start on a busy host
_BRIDGE, _LINK = "pp-servers", "pp-server"
_MACS = "02:00:00:01:00:{:02x}"  # of the servers
_GRACE_S = 2.0
_SERVER = str(Path(__file__).with_name("http_server.py"))


def check_programs(host: Machine) -> None:
    """Raises RequirementError if the machine lacks what the ends need."""
    otherwise = "leave out verify.programs"
    for probe in (requirements.command(host, "curl", "curl"), requirements.kernel_module(host, "bridge", otherwise)):
        if not probe.ok:
            raise RequirementError(f"verify.programs: {probe.name}: {probe.detail}", probe.hint)


@contextmanager
def program_ends(bench: Standing, service: Service) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Inside, namespaces are in the place of the engine: the client's, and that of each backend's address.

    Raises BenchError, or InputError where a port is no interface.
    """
    places = bench.setup.places
    client, servers = (_attached(bench, name) for name in (service.client_port, service.server_port))
    addresses = dict.fromkeys(backend.address for backend in service.backends)
    namespaces = {address: places.host_netns(f"server{number}") for number, address in enumerate(addresses)}
    with ExitStack() as undo:
        _make_client(places, service, client, undo)
        _make_servers(places, service, servers, namespaces, undo)
        yield places.host_netns("client"), namespaces


def tried(bench: Standing, service: Service, timeout_s: float) -> tuple[tuple[Got, ...], tuple[str, ...]]:
    """What the client gets of each request, and what each server has logged. Raises what `program_ends` does."""
    places, machine = bench.setup.places, bench.host
    logs = tuple(f"{places.directory}/server-{number}.log" for number in range(len(service.backends)))
    with program_ends(bench, service) as (_, namespaces), ExitStack() as undo:
        pids = list[int]()
        undo.callback(_end, machine, pids)
        for number, backend in enumerate(service.backends):
            pids.append(_start(places, number, backend, namespaces[backend.address], logs[number]))
        _await_ready(machine, pids, logs)
        got = tuple(_get(places, service, number, timeout_s) for number in range(1, REQUESTS + 1))
        return got, tuple(machine.read(log) for log in logs)


def _get(places: Places, service: Service, number: int, timeout_s: float) -> Got:
    """What the client gets when it asks for request `number`."""
    url = f"http://{service.address}:{service.port}{path(number)}"
    words = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", f"{timeout_s}", url]
    try:
        return Got(places.machine.run(words, places.host_netns("client"), places.environment))
    except CommandFailed as error:
        return Got("", error.output)


def _attached(bench: Standing, name: str) -> Attachment:
    scenario = bench.scenario
    number, port = next((number, port) for number, port in enumerate(scenario.ports) if port.name == name)
    attachment = bench.setup.bench.attachment(number, port)
    if attachment.netns is None:
        raise InputError(
            f"{scenario.path}: verify.programs: port {name} of {scenario.dut.kind} is no interface of a kernel",
            "leave out verify.programs: the engine verifies it",
        )
    return attachment


def _ip(host: Machine, netns: str, *lines: str) -> None:
    for line in lines:
        host.run(["ip", "-n", netns, *line.split()])


def _quietly(step: Callable[..., object], *arguments: object) -> None:
    """What is gone needs no removal, and the bench's end takes the rest."""
    with suppress(BenchError):
        step(*arguments)


def _make_client(places: Places, service: Service, end: Attachment, undo: ExitStack) -> None:
    """The first of the clients' addresses, and a route to the service."""
    netns, link, home = places.host_netns("client"), end.device, end.netns or ""
    machine, namespace, address = places.machine, Namespace(netns), IPv4Address(service.clients.first)
    undo.callback(_quietly, remove, namespace, machine)
    undo.callback(_quietly, _ip, machine, home, f"link set dev {link} up")
    undo.callback(_quietly, _ip, machine, netns, f"link set dev {link} netns {home}")
    create(namespace, machine)
    _ip(machine, home, f"link set dev {link} netns {netns}")
    machine.run(["ethtool", "-K", link, "tx", "off", "tso", "off"], netns)
    _ip(
        machine,
        netns,
        f"address add {address}/32 dev {link}",
        f"link set dev {link} up",
        f"route add {service.address}/32 dev {link} src {address}",
    )


def _make_servers(
    places: Places, service: Service, end: Attachment, namespaces: Mapping[str, str], undo: ExitStack
) -> None:
    """A namespace for each address. What leaves it is asked for by ARP; with dnat, the client is behind the device."""
    home, machine = end.netns or "", places.machine
    hosts = [
        Host(netns, f"{address}/32", f"{_LINK}{number}", home, STANDARD_MTU, offloads=False)
        for number, (address, netns) in enumerate(namespaces.items())
    ]
    for host in reversed(hosts):
        undo.callback(_quietly, remove, host, machine)
    undo.callback(_quietly, _ip, machine, home, f"link delete dev {_BRIDGE}")
    _ip(
        machine,
        home,
        f"link add name {_BRIDGE} type bridge",
        f"link set dev {_BRIDGE} up",
        f"link set dev {end.device} master {_BRIDGE}",
    )
    for number, host in enumerate(hosts):
        create(host, machine)
        _ip(machine, home, f"link set dev {host.peer} master {_BRIDGE}")
        _ip(machine, host.netns, f"route add default dev {Host.INTERFACE}")
        machine.run(["sysctl", "-qw", f"net.ipv4.conf.{Host.INTERFACE}.arp_notify=1"], host.netns)
        _ip(machine, host.netns, f"link set dev {Host.INTERFACE} address {_MACS.format(number)}")
        if service.mode is Mode.DNAT:
            file = f"{SYS}/class/net/{service.server_port}/address"
            mac = places.host.run(["cat", file], places.dut_netns).strip()
            neighbour = f"{IPv4Address(service.clients.first)} lladdr {mac} dev {Host.INTERFACE} nud permanent"
            _ip(machine, host.netns, f"neighbour add {neighbour}")


def _start(places: Places, number: int, backend: Backend, netns: str, log: str) -> int:
    """Start the server of a backend; returns its process."""
    python, server = _server(places)
    words = [python, "-I", server, label(number), backend.address, str(backend.port)]
    return places.machine.spawn(["ip", "netns", "exec", netns, *words], places.environment, log, f"{log}.errors")


def _server(places: Places) -> tuple[str, str]:
    """Python, and the server's file; another host has neither of the lab's own."""
    if not places.machine.name:
        return sys.executable, _SERVER
    path = f"{places.directory}/{Path(_SERVER).name}"
    places.machine.write(path, Path(_SERVER).read_text(encoding="utf-8"))
    return "python3", path


def _await_ready(host: Machine, pids: Sequence[int], logs: Sequence[str]) -> None:
    deadline = time.monotonic() + READY_S
    for pid, log in zip(pids, logs, strict=True):
        while not (host.exists(log) and host.read(log).startswith("ready\n")):
            if host.ended(pid):
                raise BenchError(f"a server did not start: {host.read(f'{log}.errors').strip()}")
            if time.monotonic() > deadline:
                raise BenchError(f"a server was not ready within {READY_S:g} s")
            time.sleep(0.01)


def _end(host: Machine, pids: Sequence[int]) -> None:
    end_processes(host, pids, _GRACE_S)
    for pid in pids:
        host.ended(pid)
