"""What `make bench-exhaustion` plants: a resource that is too small, a bad backend, an unfair scheduler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pinchpoint.dut.device import Live
from pinchpoint.dut.nft.tracking import dealt_to
from pinchpoint.dut.program import answer
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
WEIGHTS = (4, 1, 1)  # of an unfair scheduler
BLOCK = 20  # connections that one backend gets in a row, of a scheduler that only counts
SLOW_FRAMES = 20  # a second that a slow backend takes
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


def _dropping(what: str) -> Change:
    """The device's namespace sends the second backend only what a rule lets through."""

    def change(setup: Setup, live: Live) -> None:
        host, netns = setup.places.host, setup.places.dut_netns
        for words in (
            "add table ip planted",
            "add chain ip planted out { type filter hook postrouting priority 300; }",
            f"add rule ip planted out ip daddr 10.1.0.2 {what}",
        ):
            host.run(["nft", words], netns)

    return change


def shaped(setup: Setup, live: Live) -> None:
    """The servers' port sends no more than a megabit a second."""
    words = ("tc", "qdisc", "add", "dev", "servers", "root", "tbf", "rate", "1mbit", "burst", "10kb", "latency", "10ms")
    setup.places.host.run(words, setup.places.dut_netns)


DEAD, SLOW = _dropping("drop"), _dropping(f"limit rate over {SLOW_FRAMES}/second burst 1 packets drop")


def _dealing(*in_a_row: int) -> Change:
    """The rule that deals names each backend so many times in a row."""

    def change(setup: Setup, live: Live) -> None:
        service, places = setup.scenario.service, setup.places
        assert service is not None
        dealt = [backend for backend, times in zip(service.backends, in_a_row, strict=True) for _ in range(times)]
        path = f"{places.directory}/unfair.nft"
        places.host.write(path, "\n".join(dealt_to(service, dealt)) + "\n")
        places.host.run(["nft", "-f", path], places.dut_netns)

    return change


def unfair_servers(setup: Setup, live: Live) -> None:
    """The lines of one server weigh more."""
    socket = f"{setup.places.directory}/haproxy.sock"
    for local in range(4):
        for number, weight in enumerate(WEIGHTS):
            words = f"set server servers/backend{number}-local{local} weight {weight}\n"
            if said := answer(setup.places.host, socket, words).strip():
                raise RuntimeError(f"haproxy answers {said!r}")


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


def _each(what: str, expected: Limit | None, kinds: Sequence[str], **more: object) -> list[Plant]:
    return [Plant(what, kind, expected, **more) for kind in kinds]  # type: ignore[arg-type]


FEW_PORTS, FEW_PLACES = 'local_ports = "2000-2009"', "max_connections = 40"
PLANTS = (
    *_each("local ports", Limit.LOCAL_PORTS, KINDS, service=FEW_PORTS),
    *_each("table", Limit.TABLE, ("nginx", "envoy"), service=FEW_PLACES, hold_s=0.4),
    *_each("table", Limit.TABLE, ("haproxy",), service=FEW_PLACES, work=STAYING),
    *_each("descriptors", Limit.DESCRIPTORS, ("haproxy", "nginx"), dut="descriptors = 256", work=STAYING),
    *_each("accept queue", Limit.ACCEPT_QUEUE, ("haproxy", "nginx"), dut="backlog = 1", max_cps=20_000),
    *_each("queueing discipline", Limit.NAMED_DROP, ("nft", "haproxy"), change=shaped),
    *_each("slow backend", Limit.BACKEND, KINDS, change=SLOW),
    *_each("dead backend", Limit.BACKEND, KINDS, change=DEAD),
    Plant(UNFAIR, "nft", None, change=_dealing(*WEIGHTS), measure="verify"),
    Plant("blocks instead of turns", "nft", None, change=_dealing(BLOCK, BLOCK, BLOCK), measure="verify"),
    Plant(UNFAIR, "haproxy", None, change=unfair_servers, measure="verify"),
)
CLEAN = (
    *_each("clean", None, KINDS, max_cps=1000),
    *_each("clean", None, ("nft", "haproxy"), measure="verify"),
)
