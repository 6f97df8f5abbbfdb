"""What another generator really sends: its command runs at the ports of a wire that is watched.

Over veth the command has the interfaces, in their namespace; both ends of a pair are ports, and an inspector reads at
each what the other sends. Over vhost-user it has the sockets, and serves them as the engine does
(`net_virtio_user0,path={port},server=1`); the inspector carries the frames from port to port.

The far end maps the memory of such a device by its file descriptors, of which vhost-user passes eight: a generator of
DPDK needs one file for all of it (`--single-file-segments`), or EAL and device start and no link comes up.
"""

import re
import shlex
import signal
import statistics
import time
from collections.abc import Mapping
from typing import Final

from pinchpoint.dut.setup import Setup, planned_ends, prepare
from pinchpoint.dut.wire import WireLive, inspected, joined, without_device
from pinchpoint.host.interface import Host, prefix
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import share_priority
from pinchpoint.host.processes import ENVIRONMENT_MARK, alive, end_processes, session
from pinchpoint.measure.standing import Listener, standing_bench
from pinchpoint.model.errors import BenchError, DutError, InputError, RequirementError
from pinchpoint.model.measurement import Foreign, Sent, Wire
from pinchpoint.model.scenario import Scenario
from pinchpoint.observe.relay import Inspected, InspectedPort, SeenAtPort

GRACE_S = 2.0  # for a generator to end after SIGINT, and again after SIGTERM
LOOK_S = 0.05  # how often it is looked whether it has ended
LAST_S = 0.2  # for its last frames to arrive
LEAST_PERIODS = 3
WORDS_KEPT = 2_000  # of what it printed, in an error
LINES_KEPT = 3
EAL: Final = "--in-memory --single-file-segments --no-pci -m 256"
SERVING: Final = f"with DPDK: {EAL} --vdev=net_virtio_user0,path={{PORT}},server=1 of each port"
"""What a generator of DPDK needs in order to serve a port's socket, as a hint."""
_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9-]*)\}")  # other braces are the command's own


def arguments(host: Host, command: str, ports: Mapping[str, str], serves_all: bool = False) -> list[str]:
    """The words of a command, with `{port}` replaced by where that port is found; with `serves_all` it names each.

    Raises InputError, and RequirementError if there is no such program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--generator {command!r}: {error}", "quote it as for a shell") from error
    if not words:
        raise InputError("--generator: expected a command", "--generator 'trafgen --dev {left} ...'")
    named = {name for word in words for name in _FIELD.findall(word)}
    if unknown := named - set(ports):
        known = ", ".join(f"{{{name}}}" for name in ports)
        raise InputError(f"--generator: {{{min(unknown)}}} is no port of the scenario", f"one of {known}")
    if missing := set(ports) - named if serves_all else ():
        raise InputError(
            f"--generator: the command has to serve {{{min(missing)}}}, too", "a wire uses both of its ends"
        )
    if host.which(words[0]) is None:
        raise RequirementError(f"--generator: {words[0]}: not installed", "give the path of the program")
    return [_FIELD.sub(lambda match: ports[match[1]], word) for word in words]


def wire_of(scenario: Scenario, host: Host) -> Scenario:
    """The scenario's ports joined, and watched. Raises RequirementError where they cannot be."""
    return inspected(without_device(scenario, any(end.backend == "dpdk" for end in planned_ends(scenario, host))))


def watched(machines: Machines, scenario: Scenario, command: str, duration_s: float, listener: Listener) -> Foreign:
    """Stand the wire, run the command for at most `duration_s`, and say what was sent.

    Raises InputError, RequirementError where the wire cannot be built, BenchError where the command fails.
    """
    wire = wire_of(scenario, machines.lab)
    over_dpdk, setup = wire.dut.polls, prepare(wire, machines)
    places = setup.places
    names = [port.name for port in scenario.ports]
    found_at = {name: places.vhost_socket(name) if over_dpdk else name for name in names}
    words = arguments(places.machine, command, found_at, serves_all=over_dpdk)
    with standing_bench(setup, listener):
        listener.phase("generator", 1)
        ended = _run(words, setup, None if over_dpdk else places.engine_netns, duration_s)
        live = setup.bench.open()
        assert isinstance(live, WireLive)
        try:
            inspected = live.inspected()
        except DutError as error:
            if over_dpdk:
                message = f"the generator did not serve the sockets of {' and '.join(names)}: {error.message}"
                printed = _printed(places.machine, str(places.directory))
                raise BenchError(message + (f"; it printed: {printed}" if printed else ""), SERVING) from error
            raise
    # Over veth each inspected port is the other end of the pair of the one that sent.
    partner = {port: other for pair in joined(scenario) for port, other in (pair, pair[::-1])}
    watched_ports = [name for pair in joined(scenario) for name in pair]
    senders = watched_ports if over_dpdk else [partner[name] for name in watched_ports]
    each = zip(senders, inspected.ports, inspected.seen, strict=True)
    sent = {sender: _sent(sender, port, seen) for sender, port, seen in each}
    return Foreign(command, ended, _wire(inspected, carries=over_dpdk), tuple(sent[name] for name in sorted(sent)))


def _run(words: list[str], setup: Setup, netns: str | None, duration_s: float) -> str:
    """How the command ended. Raises BenchError where it failed, RequirementError where there is no such program."""
    folder, host = setup.places.directory, setup.places.machine
    status, output, errors = (f"{folder}/generator.{name}" for name in ("status", "out", "err"))
    # The shell only keeps the exit status; it reads none of the command's words.
    keeping = ["sh", "-c", '"$@"; echo $? > "$0"', status, *words]
    argv = [*prefix(netns, setup.scenario.engine.cpus), *keeping]
    pid = host.spawn(argv, ((ENVIRONMENT_MARK, setup.places.bench_id),), output, errors)
    share_priority(host, pid)
    until_s = time.monotonic() + duration_s
    while not (has_ended := host.ended(pid)) and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    if not has_ended and not host.exists(status):
        _stop(host, pid)
        time.sleep(LAST_S)
        return f"stopped after {duration_s:g} s"
    time.sleep(LAST_S)
    code = host.read(status).strip() if host.exists(status) else "unknown"
    if code != "0":
        said = _end_of(host, errors) or _end_of(host, output)
        hint = SERVING if netns is None else shlex.join(words)  # over vhost-user, or over veth
        raise BenchError(f"the generator ended with status {code}: {said or 'it printed nothing'}", hint)
    return "ended by itself"


def _end_of(host: Host, path: str) -> str:
    """The last of what it printed, without what would move a terminal's cursor."""
    text = host.read_bytes(path, max(0, host.size(path) - WORDS_KEPT)).decode(errors="replace")
    return "\n".join("".join(filter(str.isprintable, line)) for line in text.splitlines()).strip()


def _printed(host: Host, folder: str) -> str:
    """The last lines that say why it did not serve: of its errors, or of its output."""
    told = (_end_of(host, path) for name in ("err", "out") if host.exists(path := f"{folder}/generator.{name}"))
    return " | ".join(next(filter(None, told), "").splitlines()[-LINES_KEPT:])


def _stop(host: Host, pid: int) -> None:
    """All of its session: SIGINT, on which generators print what they know, then SIGTERM, then SIGKILL."""
    host.signal(session(host, pid), signal.SIGINT)
    until_s = time.monotonic() + GRACE_S
    while (left := alive(host, session(host, pid))) and time.monotonic() < until_s:
        host.ended(pid)
        time.sleep(LOOK_S)
    end_processes(host, left, GRACE_S)
    host.ended(pid)


def _wire(inspected: Inspected, carries: bool) -> Wire:
    """Shares of the time from the first frame to the last: what came before and after left the core idle."""
    first_s = min((seen.first_s for seen in inspected.seen if seen.first_s is not None), default=0.0)
    lasted_s = max((seen.last_s for seen in inspected.seen if seen.last_s is not None), default=0.0) - first_s
    if lasted_s <= 0:
        return Wire(carries, 0.0, 0.0)
    busy_s, still_s = inspected.busy_share * inspected.elapsed_s, inspected.gaps.total_s
    return Wire(carries, min(1.0, busy_s / lasted_s), min(1.0, still_s / lasted_s))


def _sent(sender: str, port: InspectedPort, seen: SeenAtPort) -> Sent:
    missed = port.rx_missed
    lasted_s = (seen.last_s or 0.0) - (seen.first_s or 0.0)
    rates = [frames / seen.long_period_s for frames in seen.by_long_period]
    low, median, high = _band(rates)
    return Sent(
        port=sender,
        frames=seen.frames,
        missed=missed,
        duration_s=lasted_s,
        mean_fps=(seen.frames + (missed or 0)) / lasted_s if lasted_s else 0.0,
        median_fps=median,
        low_fps=low,
        high_fps=high,
        shortest=seen.shortest,
        longest=seen.longest,
        mean_bytes=seen.bytes / seen.frames if seen.frames else 0.0,
        most_in_1_ms=seen.most_in_short_period,
        dispersion=seen.dispersion,
        longest_silence_s=seen.longest_silence_s,
        checked=seen.checked,
        wrong_checksums=seen.wrong_checksums,
        not_ip=seen.not_ip,
        flows=seen.flows,
        flows_at_least=seen.flows_at_least,
        answered_flows=seen.answered_flows,
    )


def _band(rates: list[float]) -> tuple[float | None, float | None, float | None]:
    """5, 50 and 95 % of the periods; nothing of too few."""
    if len(rates) < LEAST_PERIODS:
        return None, None, None
    quantiles = statistics.quantiles(rates, n=20, method="inclusive")
    return quantiles[0], statistics.median(rates), quantiles[-1]
