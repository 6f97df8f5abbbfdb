"""What `make bench-exhaustion` plants: a resource that is too small, a bad backend, an unfair scheduler.

Sizes and places are drawn by a seed, anew in each round.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from random import Random

from pinchpoint.dut.device import Live
from pinchpoint.dut.nft.tracking import dealt_to
from pinchpoint.dut.program import answer
from pinchpoint.dut.proxy_live import ProxyLive
from pinchpoint.dut.setup import Setup
from pinchpoint.model.result import Limit

UNFAIR = "unfair scheduler"
PLANTED = (
    Limit.LOCAL_PORTS,
    Limit.TABLE,
    Limit.DESCRIPTORS,
    Limit.ACCEPT_QUEUE,
    Limit.BACKEND,
    Limit.NAMED_DROP,
)
"""What a clean bench must not be accused of."""

FOUR, ONE = "10.1.0.240-10.1.0.243", "10.1.0.240"
BACKENDS = ("10.1.0.1", "10.1.0.2", "10.1.0.3")
SCENARIO = """
measure = "{measure}"
[dut]
kind = "{kind}"
{dut}
[service]
address = "10.0.0.100"
port = 80
clients = "10.0.1.1-10.0.1.50"
local = "{local}"
{service}
[[backend]]
address = "10.1.0.1"
port = 8080
[[backend]]
address = "10.1.0.2"
port = 8080
[[backend]]
address = "10.1.0.3"
port = 8081
[[port]]
name = "clients"
[[port]]
name = "servers"
[engine]
cpus = [0]
{tables}
"""
CONNECTIONS = """[connections]
max_cps = {max_cps}
trial_duration_s = 0.5
max_traffic_s = {traffic_s}
timeout_s = 0.5
hold_s = {hold_s}
sustain_within_s = 0
steady_s = 0
work = "{work}"
"""
VERIFY = "[verify]\nconnections = 120\ntimeout_s = 5.0\n"
Change = Callable[[Setup, Live], None]


def nothing(setup: Setup, live: Live) -> None:
    """A bench as it was built."""


def dropping(address: str, what: str) -> Change:
    """The device's namespace sends a backend only what a rule lets through."""

    def change(setup: Setup, live: Live) -> None:
        host, netns = setup.places.host, setup.places.dut_netns
        for words in (
            "add table ip planted",
            "add chain ip planted out { type filter hook postrouting priority 300; }",
            f"add rule ip planted out ip daddr {address} {what}",
        ):
            host.run(["nft", words], netns)

    return change


def shaped(port: str, kbit: int) -> Change:
    """A token bucket limits what a port of the device sends (tc-tbf(8))."""

    def change(setup: Setup, live: Live) -> None:
        shaping = ("tbf", "rate", f"{kbit}kbit", "burst", "10kb", "latency", "10ms")
        setup.places.host.run(("tc", "qdisc", "add", "dev", port, "root", *shaping), setup.places.dut_netns)

    return change


def lowered(descriptors: int) -> Change:
    """The processes of a proxy that runs may open fewer files than they were started with (prlimit(1))."""

    def change(setup: Setup, live: Live) -> None:
        assert isinstance(live, ProxyLive)
        for process in live.processes():
            limit = f"--nofile={descriptors}:{descriptors}"
            setup.places.host.run(("prlimit", f"--pid={PurePath(process).name}", limit))

    return change


def dealing(*in_a_row: int) -> Change:
    """The rule that deals names each backend so many times in a row."""

    def change(setup: Setup, live: Live) -> None:
        service, places = setup.scenario.service, setup.places
        assert service is not None
        dealt = [backend for backend, times in zip(service.backends, in_a_row, strict=True) for _ in range(times)]
        path = f"{places.directory}/unfair.nft"
        places.host.write(path, "\n".join(dealt_to(service, dealt)) + "\n")
        places.host.run(["nft", "-f", path], places.dut_netns)

    return change


def weighing(*weights: int) -> Change:
    """The lines of each of haproxy's servers have a weight."""

    def change(setup: Setup, live: Live) -> None:
        socket = f"{setup.places.directory}/haproxy.sock"
        for local in range(4):
            for number, weight in enumerate(weights):
                words = f"set server servers/backend{number}-local{local} weight {weight}\n"
                if said := answer(setup.places.host, socket, words).strip():
                    raise RuntimeError(f"haproxy answers {said!r}")

    return change


@dataclass(frozen=True)
class Plant:
    """One bench in which one thing is wrong, or none."""

    what: str
    kind: str
    expected: Limit | None  # None: an unfair scheduler, or nothing
    dut: str = ""
    service: str = ""
    max_cps: int = 2000
    hold_s: float = 0.0
    work: str = "request"
    change: Change = nothing
    measure: str = "connections"
    drawn: str = ""  # its size or place, in words

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.what}: {self.kind}"

    @property
    def is_clean(self) -> bool:
        """Whether nothing is planted."""
        return self.what == "clean"

    def text(self, traffic_s: float) -> str:
        """Its scenario file."""
        tables = VERIFY
        if self.measure == "connections":
            tables = CONNECTIONS.format(max_cps=self.max_cps, hold_s=self.hold_s, traffic_s=traffic_s, work=self.work)
        local = ONE if self.kind == "envoy" else FOUR
        return SCENARIO.format(
            measure=self.measure, kind=self.kind, dut=self.dut, service=self.service, local=local, tables=tables
        )


STAYING = "request:60,abandon:40"  # clients that connect and say nothing keep their places
PROXIES = ("haproxy", "nginx", "envoy")
KINDS = ("nft", *PROXIES)


def planted(draw: Random) -> Iterator[Plant]:
    """Every exhaustion and fault of a round."""
    for kind in KINDS:
        first, count = draw.randrange(2000, 60_000), draw.randint(8, 20)
        ports = f'local_ports = "{first}-{first + count - 1}"'
        yield Plant("local ports", kind, Limit.LOCAL_PORTS, service=ports, drawn=ports)
        slow, dead, rate = draw.choice(BACKENDS), draw.choice(BACKENDS), draw.randint(10, 30)
        change = dropping(slow, f"limit rate over {rate}/second burst 1 packets drop")
        yield Plant("slow backend", kind, Limit.BACKEND, change=change, drawn=f"{slow}, {rate} frames a second")
        yield Plant("hole", kind, Limit.BACKEND, change=dropping(dead, "drop"), drawn=dead)
    for kind in PROXIES:
        places = f"max_connections = {draw.randint(20, 60)}"
        work, hold_s = (STAYING, 0.0) if kind == "haproxy" else ("request", 0.4)
        yield Plant("table", kind, Limit.TABLE, service=places, hold_s=hold_s, work=work, drawn=places)
    for kind in ("haproxy", "nginx"):
        files, queue = f"descriptors = {draw.randint(256, 400)}", f"backlog = {draw.randint(1, 3)}"
        yield Plant("descriptors", kind, Limit.DESCRIPTORS, dut=files, work=STAYING, drawn=files)
        yield Plant("accept queue", kind, Limit.ACCEPT_QUEUE, dut=queue, max_cps=20_000, drawn=queue)
        change, words = lowered(left := draw.randint(120, 180)), f"{left} while it runs"
        yield Plant("lowered descriptors", kind, Limit.DESCRIPTORS, hold_s=0.4, change=change, drawn=words)
    for kind in ("nft", "haproxy"):
        port, kbit = draw.choice(("clients", "servers")), draw.randint(500, 2000)
        words = f"{kbit} kbit/s of the port {port}"
        yield Plant("queueing discipline", kind, Limit.NAMED_DROP, change=shaped(port, kbit), drawn=words)
    yield from _unfair(draw)


def _unfair(draw: Random) -> Iterator[Plant]:
    """What `verify` finds: each backend has another share than it should, or its share in one go."""
    for kind, deal in (("nft", dealing), ("haproxy", weighing)):
        weights = draw.sample((draw.randint(2, 6), 1, 1), 3)
        words = " / ".join(map(str, weights))
        yield Plant(UNFAIR, kind, None, change=deal(*weights), measure="verify", drawn=words)
    block = draw.choice((5, 10, 20, 40))  # of which a third of the connections is a multiple
    words = f"{block} in a row"
    yield Plant("blocks", "nft", None, change=dealing(block, block, block), measure="verify", drawn=words)


def clean(draw: Random) -> Iterator[Plant]:
    """Benches in which nothing is wrong."""
    for kind in (*KINDS, *KINDS):
        first, most = draw.randrange(2000, 40_000), draw.randint(200, 1000)
        ports = f'local_ports = "{first}-{first + 19_999}"'
        yield Plant("clean", kind, None, service=ports, max_cps=most, drawn=f"{most}/s at most, {ports}")
    for kind in ("nft", "haproxy"):
        yield Plant("clean", kind, None, measure="verify")
