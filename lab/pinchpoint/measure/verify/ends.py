"""Kernels in the place of the engine: a namespace for the client, and one with the addresses of all backends.

Each gets the engine's end of its port, and announces its addresses by gratuitous ARP requests (arp_notify, ip-sysctl in
the kernel), since the device still knows the engine's Ethernet address. Checksums are complete when they leave (`tx
off`, ethtool(8)): a device that is not a kernel does not finish them. All of it is given back, and has the bench's name
where it could not be.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from pinchpoint.bench import requirements
from pinchpoint.bench.actions import create, remove
from pinchpoint.bench.resource import Namespace
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
MACS: Final = ("02:00:00:00:00:01", "02:00:00:00:00:02")  # of both ends: where a device sends that asks nobody
_GRACE_S = 2.0
_SERVER = str(Path(__file__).with_name("http_server.py"))


def check_programs(host: Machine) -> None:
    """Raises RequirementError if the machine lacks what the ends need."""
    if not (probe := requirements.command(host, "curl", "curl")).ok:
        raise RequirementError(f"verify.programs: {probe.name}: {probe.detail}", probe.hint)


@contextmanager
def program_ends(bench: Standing, service: Service) -> Iterator[tuple[str, str]]:
    """Inside, namespaces are in the place of the engine: the client's, and that of all servers.

    Raises BenchError, or InputError where a port is no interface.
    """
    places, machine = bench.setup.places, bench.host
    ends = [_attached(bench, name) for name in (service.client_port, service.server_port)]
    client, servers = names = places.host_netns("client"), places.host_netns("servers")
    first = str(IPv4Address(service.clients.first))
    backends = list(dict.fromkeys(backend.address for backend in service.backends))
    with ExitStack() as undo:
        for end, name, mac, addresses in zip(ends, names, MACS, ([first], backends), strict=True):
            _move(machine, end, name, mac, addresses, undo)
        _ip(machine, client, f"route add {service.address}/32 dev {ends[0].device} src {first}")
        _ip(machine, servers, f"route add default dev {ends[1].device}")  # what leaves it is asked for by ARP
        if service.mode is Mode.DNAT:  # the client is behind the device
            file = f"{SYS}/class/net/{service.server_port}/address"
            mac = places.host.run(["cat", file], places.dut_netns).strip()
            _ip(machine, servers, f"neighbour add {first} lladdr {mac} dev {ends[1].device} nud permanent")
        yield names


def tried(bench: Standing, service: Service, timeout_s: float) -> tuple[tuple[Got, ...], tuple[str, ...]]:
    """What the client gets of each request, and what each server has logged. Raises what `program_ends` does."""
    places, machine = bench.setup.places, bench.host
    logs = tuple(f"{places.directory}/server-{number}.log" for number in range(len(service.backends)))
    with program_ends(bench, service) as (_, netns), ExitStack() as undo:
        pids = list[int]()
        undo.callback(_end, machine, pids)
        for number, backend in enumerate(service.backends):
            pids.append(_start(places, number, backend, netns, logs[number]))
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


def _move(machine: Machine, end: Attachment, netns: str, mac: str, addresses: Iterable[str], undo: ExitStack) -> None:
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
