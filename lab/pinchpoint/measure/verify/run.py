"""The measure `verify`: connections through a balancer that stands, and what each says of it."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final

import msgspec

from pinchpoint.account.ledger import signed
from pinchpoint.account.validity import by_account
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.services import Balancer
from pinchpoint.engine.connections import Client, Load
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.loop import NOTHING_OF_THE_DEVICE, Loop, once
from pinchpoint.measure.served import (
    TRIES,
    Ends,
    ends_of,
    held_s,
    looked_again,
    percentiles,
    remembered,
    state_of,
    suffices,
)
from pinchpoint.measure.standing import Begun, Standing, Undoable
from pinchpoint.measure.summary import scenario_result
from pinchpoint.measure.verify.ends import check_programs, tried
from pinchpoint.measure.verify.judged import Assertion, checks, direct, forgotten, program_checks, repeated
from pinchpoint.measure.verify.turns import Dealing
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Wanted
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Scenario, Service

SETUP_S = 1.0  # of the engine
_SINCE = "since the connection was due; where it was held, since the request that ended that was due"
MOST_AWAITED_S = 5.0  # until closed connections are forgotten; for longer nobody waits
SLACK_S = 0.5  # of a balancer that looks for what it has to forget now and then
PROGRAMS_S = 4.0  # of namespaces and servers


@dataclass(frozen=True)
class Verify:
    """How many connections are looked at, and how fast they are opened."""

    kind: ClassVar[str] = "verify"
    connections: int
    rate_cps: float
    requests: int
    timeout_s: float
    hold_s: float
    programs: bool = False  # real ones, too


VERIFY: Final = Table("verify",
    "Connections that are opened one by one, each with requests that say which backend answered, from which address it "
    "was reached, and what arrived there. With a hash all are opened once more: each tuple has to reach its backend "
    "again.", (
    Key("connections", kinds.integer(1, 1_000_000), "How many.", 300),
    Key("rate_cps", kinds.number(1, 100_000), "Connections per second.", 200.0),
    Key("requests", kinds.integer(1, 100), "Requests of each, which one backend has to answer.", 2),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that takes longer has failed, seconds.", 2.0),
    Key("hold_s", kinds.number(0, 60),
        "How long each stays open between its first request and its second, so that backends tell whether two open "
        "ones come from the same address and port, seconds.", 0.5),
    Key("programs", kinds.boolean(),
        "Whether this is repeated with real programs: an HTTP server for each backend and `curl` as the "
        "client, in two namespaces; what the client got and what the servers' logs saw. Needs a device whose ports "
        "are interfaces of a kernel.", False),
), measures=("verify",))  # fmt: skip


def wanted(values: Values) -> Wanted | None:
    """The connections, none of which may find its pool exhausted; None where a key is wrong."""
    cps, connections = values.get("rate_cps"), values.get("connections")
    return None if cps is None or connections is None else Wanted(cps, connections)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    verify = asked(scenario, Verify)
    closed_s = scenario.service.closed_s if scenario.service else None
    awaited_s = closed_s if closed_s is not None and closed_s <= MOST_AWAITED_S else 0.0
    programs_s = PROGRAMS_S if verify.programs else 0.0
    loads = 2 if _is_hashed(scenario.service) else 1
    return loads * verify.connections / verify.rate_cps + _hold_s(verify) + awaited_s + programs_s + SETUP_S


def _is_hashed(service: Service | None) -> bool:
    """Whether each tuple has a backend of its own, so that all are tried twice."""
    return service is not None and service.scheduler.is_hash


def _hold_s(verify: Verify) -> float:
    """A connection is held before its second request."""
    return verify.hold_s if verify.requests > 1 else 0.0


def measure_verify(bench: Standing) -> ScenarioResult:
    """Open the connections and judge what became of them. Raises EngineError where nothing can be said."""
    measurement = once(bench, _measure)
    if measurement.validity in NOTHING_OF_THE_DEVICE:
        return replace(
            scenario_result(bench.scenario, bench.wall_s, [measurement]),
            outcome=Outcome.FAILED,
            reason=measurement.reason,
        )
    names = measurement.account.get("wrong")
    wrong = list(map(str, names)) if isinstance(names, list | tuple) else []
    notes = {metric.name: metric.note for metric in measurement.metrics}
    return replace(
        scenario_result(bench.scenario, bench.wall_s),
        outcome=Outcome.WRONG if wrong else Outcome.MEASURED,
        reason="; ".join(f"{name}: {notes.get(name, '')}" for name in wrong),
        metrics=measurement.metrics,
    )


def _measure(bench: Standing, loop: Loop[Measurement]) -> Measurement:
    scenario, verify = bench.scenario, asked(bench.scenario, Verify)
    bench.task.on_stoppable(Undoable())
    if verify.programs:
        check_programs(bench.host)
    hold_s, asks = _hold_s(verify), (verify.connections, verify.rate_cps, verify.requests, verify.timeout_s)
    load = Load(*asks, hold_s=hold_s, hold_before=int(hold_s > 0), in_order=True)
    balancer = bench.live.balancer()
    with ends_of(bench) as engine_ends:  # closed before programs have the same ports
        engine_ends.prepare(load)  # a device that joins its ports answers from then on
        if balancer:
            suffices(scenario, balancer.limits(), Wanted(verify.rate_cps, verify.connections))
        bench.task.note_facts(bench.live.ready())
        before = state_of(bench.live, balancer) if balancer else None
        begun = Begun(scenario, loop.begin(expected_s(scenario)))
        service, dealing = engine_ends.service, _dealing(scenario)
        with loop.observing(bench.bracket()):
            account = engine_ends.connect(load)
        observed = loop.whole().flat()
        client = account.of_client(service.address)
        judged = [*checks(service, client, dealing)]
        judged += [direct(account, _entered(scenario, service, observed))] if service.is_direct else []
        judged += _forgotten(bench, client)  # before others are opened
        again = _again(engine_ends, balancer, load) if _is_hashed(service) else None
        judged += [*repeated(client, again)] if again else []
    got, logs = tried(bench, service, verify.timeout_s) if verify.programs else ((), ())
    judged += program_checks(service, got, logs, dealing)
    changed = looked_again(before, bench.live, balancer)[1] if before and balancer else ""
    wrong = [check.name for check in judged if not check.is_right]
    accounts = {"engine": msgspec.to_builtins(account), "again": msgspec.to_builtins(again)}
    told = {"wrong": wrong, **accounts, "got": [*map(asdict, got)], "logs": logs}
    stages = (("connect", client.connect_ns), ("answer", client.answer_ns), ("close", client.close_ns))
    times = (metric for name, ns in stages for metric in percentiles(name, ns, _SINCE))
    return begun.ended(
        (*map(_metric, judged), *times), told, observed, judged=by_account(account, changed), load=account
    )


def _dealing(scenario: Scenario) -> Dealing:
    """How the device deals in turn, as its kind declares."""
    can, workers = device_of(scenario).keys.services, len(scenario.dut.cpus)
    if can and can.in_turn_by_worker:
        return Dealing(turns=workers)
    service = scenario.service
    return Dealing(at_once=workers, lines=len(service.locals) if can and can.weighs_pairs and service else 0)


def _again(ends: Ends, balancer: Balancer | None, load: Load) -> Client:
    """The same tuples once more, their connections forgotten where the balancer can be made to.

    Until the engine has opened all of them, `TRIES` times at most.
    """
    for _ in range(TRIES - 1):
        if not (client := _once_more(ends, balancer, load)).shortfall:
            return client
    return _once_more(ends, balancer, load)


def _once_more(ends: Ends, balancer: Balancer | None, load: Load) -> Client:
    if balancer:
        with suppress(BenchError):
            balancer.flush()
    return ends.connect(replace(load, hold_s=0.0, hold_before=0)).of_client(ends.service.address)


def _entered(scenario: Scenario, service: Service, observed: Mapping[str, float]) -> int | None:
    """Frames that the device received from the backends' side; None where it counts none."""
    port = service.server_port
    places = device_of(scenario).graph(scenario).places
    first = next(place for place in places if place.ports is None or port in place.ports)
    names = (signed(name.replace("{port}", port)) for name in first.entered)
    known = [sign * observed[name] for sign, name in names if name in observed]
    return int(sum(known)) if known else None


def _forgotten(bench: Standing, client: Client) -> Iterator[Assertion]:
    """Whether closed connections are forgotten in time, where the balancer says how many it remembers and for how
    long, and that is not too long to wait for.
    """
    balancer = bench.live.balancer()
    if balancer is None or not client.answered or balancer.tracked() is None:
        return
    closed_s = held_s(balancer.limits())
    if closed_s is not None and closed_s <= MOST_AWAITED_S:
        within_s = closed_s + SLACK_S
        yield forgotten(client.opened, remembered(balancer, within_s), within_s)


def _metric(check: Assertion) -> Metric:
    return Metric(check.name, "share", check.share, note=check.words, cautions=() if check.is_right else ("WRONG",))


MEASURE: Final = MeasureKind(
    made=Verify,
    finds="whether a balancer does what its service says, connection by connection",
    table=lambda _: VERIFY,
    run=measure_verify,
    expected_s=expected_s,
    main=("completed", "request ", "busiest server", "busiest backend", "tuples kept", "client kept", "expected source",
          "source used once", "forgotten", "direct return", "payload intact", "one backend", "TOA option",
          "PROXY header",
          "connect p50", "answer p50", "close p50"),
    needs={"port": 2, "backend": 1},
    made_of="connection",
    has_limit=False,
    is_served=True,
    wanted=wanted,
)  # fmt: skip
