"""`make bench-balancers`: completed connections a second through real balancers, by the engine and by wrk.

The engine opens them as `measure = "connections"` does. wrk asks nginx for two bytes, each time over a new connection.
In every round either has a bench of its own, of the same scenario: the balancer on one core, both ends on the other.
wrk asks again once it is answered, so that it can be what is full: its core's share stands beside the balancer's.

The smoke round opens one load of a second through each balancer, instead of searching its rate.
"""

import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import cpu
import engine_rows
import msgspec
from contest import Aim, Contender, Contest, Line, Sample
from cpu import CpuMeter
from exhaustion_plants import FOUR, ONE, SCENARIO
from peers import missing, peer

from pinchpoint.bench.journal import machine_lock
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.services import served
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.connections import Account, Load
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.connections.run import STEADY
from pinchpoint.measure.connections.steady import settled
from pinchpoint.measure.kernel_ends import kernel_ends
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.served import Opener, ends_of
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.scenario import Backend, Scenario
from pinchpoint.model.trial import Record, ThreadLoad
from pinchpoint.scenario import parse

ROUNDS = 3
CORE = 0  # of both ends; the balancer's is 1
CONNECTIONS = 64  # of wrk, under way at the same time
SETTLE_S, SMOKE_S, STEADY_S = 0.5, 1.0, 4.0
SMOKE_CPS = 200.0
SEARCH_S = 8.0  # of traffic, in trials of half a second: no interval follows from a few
FAILING = 0.001  # of the connections, that may fail
LEAST, MOST = 0.9, 1.3  # of the peer's rate
COMPLETED = "completed rate"
AS_WRK = 'closes = "backend"\ntimestamps = true'  # as kernels and the server before wrk do
# Keys of [dut], of [service], and tables, by kind; a table of 65,536 places is as large as in the study.
KINDS = {
    "haproxy": ("", "", ""),
    "nginx": ("", "", ""),
    "nft": ("", "closed_s = 4", ""),
    "envoy": ("", "max_connections = 4096", ""),
    "ovs": ('datapath = "af_packet"\npmd_cpus = [1]', 'scheduler = "hash"', ""),
    "ipvs": ("", "max_connections = 65_536\nclosed_s = 4", '[guest]\nkernel = "auto"\n'),
}
TABLE = """[connections]
failure_ratios = [{failing}]
max_cps = 100_000
trial_duration_s = 0.5
max_traffic_s = {search_s}
sustain_within_s = 0
steady_s = {steady_s}
"""
# Where wrk closes first, its port is kept for a minute; one that finds none is never tried again (ip-sysctl, wrk.c).
CLIENT_SYSCTLS = ("net.ipv4.ip_local_port_range=1024 65535", "net.ipv4.tcp_tw_reuse=1")
# What wrk prints in the end (wrk.c, main); the lines of errors only where there are some.
_ANSWERED = re.compile(r"^ +(\d+) requests in ", re.MULTILINE)
_RATE = re.compile(r"^Requests/sec: +([\d.]+)$", re.MULTILINE)
_REFUSED = re.compile(r"Non-2xx or 3xx responses: \d+")
_ERRORS = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")


def scenario(kind: str, seconds: float) -> Scenario:
    """Of one balancer; loads of the completed rate last for `seconds`."""
    dut, service, more = KINDS[kind]
    tables = TABLE.format(failing=FAILING, search_s=SEARCH_S, steady_s=seconds) + more
    local = ONE if kind == "envoy" else FOUR
    service = f"{AS_WRK}\n{service}"
    text = SCENARIO.format(measure="connections", kind=kind, dut=dut, local=local, service=service, tables=tables)
    return parse(text, f"{kind}.toml")


@contextmanager
def standing(wanted: Scenario, task: Task | None = None) -> Iterator[Standing]:
    """A bench of it stands inside the block."""
    setup = prepare(wanted, Machines(Local()))
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        yield Standing(setup, live, [find_engine(Local())], task or Task(), time.monotonic())


def ours(kind: str, seconds: float, _bench: object) -> Sample:
    """The completed rate that the measure publishes. Raises RuntimeError where it publishes none."""
    kept = list[Record]()
    with standing(scenario(kind, seconds), Task(keep=kept.append)) as bench:
        result = measure_of(bench.scenario).run(bench)
    completed = [metric.value for metric in result.metrics if metric.name == COMPLETED]
    if not completed:
        raise RuntimeError(result.reason or "; ".join(map(str, result.warnings)) or "it gave no completed rate")
    loads = [record for record in kept if isinstance(record, Measurement)]
    steady = [load for load in loads if load.account["phase"] == STEADY]
    accounts = [msgspec.convert(load.account["engine"], Account).of_client() for load in steady]
    frames = sum(frames_of(load.threads) for load in steady) / max(1, sum(client.completed for client in accounts))
    return Sample(completed[0], notes={**busiest(result.threads), "frames each": frames})


def one_load(kind: str, _bench: object) -> Sample:
    """Of a load that any balancer carries, what is completed. Raises RuntimeError where nothing is."""
    load = Load(round(SMOKE_CPS * SMOKE_S), SMOKE_CPS, requests=1, timeout_s=1.0, is_sampled=True)
    with standing(scenario(kind, SMOKE_S)) as bench, ends_of(bench) as ends:
        opener = Opener(ends, lambda _: ())
        opened = opener.valid("smoke", load)
        completed = settled(opener.balancer.limits(), opened)
    if completed is None or not completed.completed_cps:
        raise RuntimeError(opened.judged.reason or f"{opened.client.completed} of {load.connections} were completed")
    return Sample(completed.completed_cps, notes=busiest(opened.seen.threads))


def asking(address: str, port: int, seconds: float) -> list[str]:
    """The command line of wrk: a connection for each request."""
    load = ("-t1", f"-c{CONNECTIONS}", f"-d{round(seconds)}s")
    return ["wrk", *load, "-H", "Connection: close", f"http://{address}:{port}/"]


def wrk(kind: str, seconds: float, folder: Path, _bench: object) -> Sample:
    """What wrk says, and how much of their core it and the server took."""
    wanted = scenario(kind, seconds)
    service = served(wanted)
    with standing(wanted) as bench, kernel_ends(bench, service, "wrk") as (client, servers), ExitStack() as running:
        bench.host.run(["sysctl", "-qw", *CLIENT_SYSCTLS], client)
        stem = folder / f"{kind}-servers"
        stem.with_suffix(".conf").write_text(server(stem, service.backends))
        command = ["nginx", "-e", f"{stem}.errors", "-c", f"{stem}.conf"]
        answering = running.enter_context(peer(command, CORE, stem.with_suffix(".log"), servers))
        time.sleep(SETTLE_S)
        bracket = bench.bracket()
        bracket.open()
        command = asking(service.address, service.port, seconds)
        client_runs = running.enter_context(peer(command, CORE, folder / f"{kind}-wrk.log", client))
        time.sleep(seconds / 4)
        with CpuMeter([*answering.members(), *client_runs.members()], (CORE,)) as meter:
            time.sleep(seconds / 2)
        said = client_runs.ended(seconds + 20)
        threads = device_of(wanted).loads(bracket.close().flat(), seconds)
    answered = _ANSWERED.search(said)
    frames = frames_of(threads) / max(1, int(answered[1])) if answered else 0.0
    return Sample(told(said), meter.share, meter.kernel_share, {**busiest(threads), "frames each": frames})


def server(stem: Path, backends: Sequence[Backend]) -> str:
    """The configuration of an HTTP server that is all backends."""
    listening = " ".join(f"listen {backend.end} backlog=4096;" for backend in backends)
    answer = f"server {{ {listening} location / {{ return 200 ok; }} }}"
    return (
        f"daemon off; master_process off; pid {stem}.pid; error_log {stem}.errors error;\n"
        "events { worker_connections 512; }\n"
        f"http {{ access_log off; keepalive_timeout 0; {answer} }}\n"
    )


def told(said: str) -> float:
    """Requests a second, as wrk prints them. Raises RuntimeError where it says none, or that too many failed."""
    answered, rate = _ANSWERED.search(said), _RATE.search(said)
    if not answered or not rate or not float(rate[1]):
        raise RuntimeError(f"wrk was not answered: {' | '.join(said.splitlines()[-3:])}")
    failed = _ERRORS.search(said)
    if failed and sum(map(int, failed.groups())) > FAILING * int(answered[1]):
        raise RuntimeError(f"wrk says {failed[0]}, of {answered[1]} requests")
    if refused := _REFUSED.search(said):  # the rate counts them, too
        raise RuntimeError(f"wrk says {refused[0]}")
    return float(rate[1])


def frames_of(threads: Sequence[ThreadLoad]) -> float:
    """That the balancer received."""
    return sum(thread.received for thread in threads)


def busiest(threads: Sequence[ThreadLoad]) -> dict[str, float]:
    """The note of the share of the balancer's busiest thread; none where it is not known."""
    shares = [thread.busy_share for thread in threads if thread.busy_share is not None]
    return {"balancer busy %": 100 * max(shares)} if shares else {}


def absent(kind: str, seconds: float) -> str | None:
    """What this machine lacks for the balancer; None: nothing."""
    wanted = scenario(kind, seconds)
    lacking = (f"{probe.name}: {probe.detail}" for probe in device_of(wanted).needs(wanted, Local()) if not probe.ok)
    return next(lacking, None)


def contests(folder: Path, is_short: bool) -> Iterator[Contest]:
    """One for each kind of balancer; short ones for the smoke round."""
    seconds = SMOKE_S if is_short else STEADY_S
    for kind in KINDS:
        work, lacks = f"connections a second through {kind}", absent(kind, seconds)
        contenders = (
            Contender("pinchpoint", partial(one_load, kind) if is_short else partial(ours, kind, seconds), lacks),
            Contender("wrk", partial(wrk, kind, seconds, folder), lacks or missing("wrk", "nginx")),
        )
        aims = () if is_short else (Aim("ratio", LEAST), Aim("ratio", MOST, at_most=True))
        line = Line(work, "pinchpoint", "wrk", aims, "where wrk's core is full, it is what wrk can")
        yield Contest(work, "connections", contenders, (line,))


def main() -> int:
    """Measure and print."""
    arguments = engine_rows.chosen(engine_rows.options(__doc__, ROUNDS))
    cpu.end_on_signals()
    with machine_lock(Local()), tempfile.TemporaryDirectory() as name:
        rows = list(contests(Path(name), arguments.smoke))
        outcomes = engine_rows.hold_all(rows, arguments.rounds, arguments.only)
    engine_rows.tell(outcomes, arguments.rounds, arguments.json)
    return engine_rows.exit_code(outcomes, arguments.smoke)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(str(error))
