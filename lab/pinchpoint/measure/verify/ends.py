"""Real programs as the ends of a service: an HTTP server for each backend, `curl` as the client."""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pinchpoint.bench import requirements
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.interface import Host as Machine
from pinchpoint.host.processes import end_processes
from pinchpoint.measure.kernel_ends import kernel_ends
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.verify.judged import REQUESTS, Got, label, path
from pinchpoint.model.errors import BenchError, RequirementError
from pinchpoint.model.scenario import Backend, Service

READY_S = 20.0  # for a server to start on a busy host
_GRACE_S = 2.0
_ASKED_BY = "verify.programs"
_SERVER = str(Path(__file__).with_name("http_server.py"))


def check_programs(host: Machine) -> None:
    """Raises RequirementError if the machine lacks what the ends need."""
    if not (probe := requirements.command(host, "curl", "curl")).ok:
        raise RequirementError(f"{_ASKED_BY}: {probe.name}: {probe.detail}", probe.hint)


def tried(bench: Standing, service: Service, timeout_s: float) -> tuple[tuple[Got, ...], tuple[str, ...]]:
    """What the client gets of each request, and what each server has logged. Raises what `kernel_ends` does."""
    places, machine = bench.setup.places, bench.host
    logs = tuple(f"{places.directory}/server-{number}.log" for number in range(len(service.backends)))
    with kernel_ends(bench, service, _ASKED_BY) as (client, netns), ExitStack() as undo:
        pids = list[int]()
        undo.callback(_end, machine, pids)
        for number, backend in enumerate(service.backends):
            pids.append(_start(places, number, backend, netns, logs[number]))
        _await_ready(machine, pids, logs)
        got = tuple(_get(places, client, service, number, timeout_s) for number in range(1, REQUESTS + 1))
        return got, tuple(machine.read(log) for log in logs)


def _get(places: Places, netns: str, service: Service, number: int, timeout_s: float) -> Got:
    """What the client in a namespace gets when it asks for request `number`."""
    url = f"http://{service.address}:{service.port}{path(number)}"
    words = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", f"{timeout_s}", url]
    try:
        return Got(places.machine.run(words, netns, places.environment))
    except CommandFailed as error:
        return Got("", error.output)


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
