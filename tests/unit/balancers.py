"""A balancer of known truth in virtual time, in place of loads on a bench."""

from bisect import bisect_right
from collections import deque
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import get_type_hints

from support import RULES
from trials import measurement

from pinchpoint.account.validity import LoadJudgement, Seen, judge_load
from pinchpoint.engine.connections import MOST_BYTES, SAMPLED_S, Account, Client, PortCounts, Sample, Sources, Times
from pinchpoint.measure.served import Flush, Opened
from pinchpoint.measure.standing import Task
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service
from pinchpoint.model.trial import TrialValidity

SERVICE = Service(
    address="10.0.0.100",
    port=80,
    scheduler=Scheduler.ROUND_ROBIN,
    mode=Mode.DNAT,
    clients=Range(0x0A000101, 4),
    local=None,
    client_port="clients",
    server_port="servers",
    backends=tuple(Backend(f"10.1.0.{n}", 8080) for n in (1, 2, 3)),
)
REFUSED, SLOW = "nat/refused", "link/a/dropped"


@dataclass
class Balancer:
    """So many places, each held for a time; so many connections a second at most."""

    places: int = 80
    held_s: float | None = 1.0
    capacity_cps: float = 1e9
    reuses: float = 1.0  # times the places that it says: one that frees them early
    doubles: float = 2.0  # times the places that doubling gives
    drops: int = 0  # every so many-th SYN, whatever the rate; 0: none
    queue: float = 2.0  # connections that may come at once, although it opens no more than its capacity

    def limits(self):
        return (
            Limit(Resource.LOCAL_PORTS, self.places, self.held_s, "ports", "entries", (REFUSED,)),
            Limit(Resource.SOFTIRQ, None, None, "backlog", refused=("link/*/dropped",)),
        )

    def flush(self):
        pass

    def tracked(self):
        return 0

    @contextmanager
    def doubled(self, resource):
        if resource is not Resource.LOCAL_PORTS:
            raise BenchError(f"{resource} cannot be doubled")
        before = self.places, self.reuses
        self.places, self.reuses = 2 * self.places, self.reuses * self.doubles / 2
        yield "twice as many"
        self.places, self.reuses = before


@dataclass
class Opener:
    """Opens loads on it; the generator opens `ceiling_cps` at most."""

    balancer: Balancer
    ceiling_cps: float = 1e9
    disturbed: str = ""  # the phase in which the host takes the engine's core
    traffic_s: float = 0.0
    measurements: list = field(default_factory=list)
    flushes: list = field(default_factory=lambda: [Flush(0, 0, 0.01)])

    def open(self, phase, load):
        self.traffic_s += load.opening_s
        opened = min(load.connections, round(self.ceiling_cps * load.opening_s))
        done, refused, slow, most = self._borne(load, opened)
        borne = len(done)
        client = _client(load, opened, borne, slow, most)
        busy = 0.99 if client.shortfall else 0.4
        ports = (PortCounts("a", 0), PortCounts("b", 0))
        samples = tuple(_samples(load, opened, done)) if load.is_sampled else ()
        account = Account(load.opening_s + load.hold_s, client, (), busy, ports=ports, samples=samples)
        observed = {REFUSED: refused, SLOW: slow}
        seen = Seen(account, observed, (), load.opening_s + load.hold_s)
        judged = judge_load(seen, RULES)
        if phase == self.disturbed:
            judged = LoadJudgement(TrialValidity.NOISY_HOST, reason="others had the engine's core", due=opened)
        load_made = Opened(load, judged, seen)
        told = {"account": {"phase": phase}, "observed": observed, "repeat": 1}
        number = len(self.measurements) + 1
        self.measurements.append(measurement("connections", number, judged.validity, **told))
        return load_made

    def valid(self, phase, load):
        return self.open(phase, load)

    def unwatched(self):
        return nullcontext()

    def _borne(self, load, opened):
        """(when each was completed, refused, too slow, most at once), connection by connection."""
        places, live_s = round(self.balancer.places * self.balancer.reuses), load.hold_s
        release, done, refused, dropped, most = deque(), [], 0, 0, 0
        credit = self.balancer.queue - 2.0
        for n in range(opened):
            at_s = n / load.rate_cps
            while release and release[0] <= at_s:
                release.popleft()
            credit = min(credit + self.balancer.capacity_cps / load.rate_cps, self.balancer.queue)
            if self.balancer.drops and n % self.balancer.drops == 0:
                dropped += 1
            elif len(release) >= places:
                refused += 1
            elif credit >= 0.999:
                credit -= 1.0
                done.append(at_s + live_s)
                release.append(at_s + live_s + (self.balancer.held_s or 0.0))
                most = max(most, len(release))
        return done, refused, opened - len(done) - refused - dropped, most


def _samples(load, opened, done):
    """Whatever is completed is completed at once."""
    zeros = {name: 0 for name, kind in get_type_hints(Sample).items() if kind is int}
    for step in range(round(load.opening_s / SAMPLED_S) + 1):
        elapsed_s = step * SAMPLED_S
        counts = {"opened": min(opened, round(load.rate_cps * elapsed_s)), "completed": bisect_right(done, elapsed_s)}
        yield Sample(elapsed_s=elapsed_s, backends=(), **{**zeros, **counts})


def client(**counted):
    """What clients counted; all else is zero, or not known."""
    zeros = {name: 0 for name, kind in get_type_hints(Client).items() if kind is int}
    ends = {"backends": (), "local": Sources((), 0), "connect_ns": None, "answer_ns": None, "close_ns": None}
    return Client(**{**zeros, **ends, **counted})


def _client(load, opened, borne, slow, most):
    counts = {"opened": opened, "shortfall": load.connections - opened, "established": borne, "answered": borne}
    counts |= {"completed": borne, "most_open": most}
    counts |= {"timed_out_answering": slow, "timed_out_connecting": opened - borne - slow}
    times = Times(borne, 50_000, 90_000, 100_000)
    ends = {"connect_ns": times}
    if load.answer_bytes > MOST_BYTES:
        first, last = (Times(borne, ns, ns, ns) for ns in (10_000, 70_000))
        ends |= {"first_byte_ns": first, "answer_ns": last, "goodput_bps": 1e6}
    return client(**counts, **ends)


def bench(scenario, measure):
    """What a measure asks of a bench that stands."""
    return SimpleNamespace(scenario=replace(scenario, measure=measure), task=Task(), wall_s=0.0)
