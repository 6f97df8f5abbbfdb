"""The measure `blocked`: how long forwarding stands still while something happens to the DUT."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from pinchpoint.account.validity import by_host
from pinchpoint.dut.device import Action, Keys
from pinchpoint.host.priority import kept_off
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import Arrays, MeasureKind, asked
from pinchpoint.measure.loop import Loop, loop_of
from pinchpoint.measure.standing import Begun, Standing
from pinchpoint.measure.summary import by_name, result_of, valid
from pinchpoint.measure.traffic import QUIET_S, Carried, background, disturbance, judged, pause
from pinchpoint.model.errors import EngineError
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Change, Scenario
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.observe.snapshot import Observation, together
from pinchpoint.stats.estimate import median_interval

WARM_UP_S = 0.5
PHASE = "blocked"
_MOST_REASONS = 3
NAMES = ("blocked time", "longest silence", "longest gap", "action time", "lost frames")

# For estimates, which their own ratio to the time spent corrects.
REPEAT_S = 4.0  # around an action under traffic: the engine's start, a warm-up, a quiet second
ACTION_S = 1.0
MANY, ITEM_S = ("-flows", "-ports"), 1e-3  # actions that have `count` items; of each
NO_ACTION: Final = {"none": "nothing, as a baseline of the method"}


@dataclass(frozen=True)
class Blocked(Change):
    """What happens to the DUT while frames are sent."""

    kind: ClassVar[str] = "blocked"
    load_fps: float
    before_s: float
    after_s: float
    repeats: int


def table(keys: Keys) -> Table:
    """`[blocked]` of a device with these keys."""
    actions = {**NO_ACTION, **keys.actions}
    settings = keys.settings or kinds.nothing()
    changes = " ".join(f'"{word}": {does}.' for word, does in actions.items())
    return Table("blocked", f"A change made to the DUT while frames are sent. {changes}", (
        Key("action", kinds.word(*actions), "The change."),
        Key("count", kinds.integer(1, 1_000_000), "Number of items of an action that has many.", 1000),
        Key("settings", settings, 'What is set; with action = "settings" only.', {}),
        Key("load_fps", kinds.number(1, 1e9), "Frames per second, all streams together.", 100_000.0),
        Key("before_s", kinds.number(0.1, 60), "Traffic before the change, seconds.", 1.0),
        Key("after_s", kinds.number(0.1, 600), "Traffic after the change, seconds.", 2.0),
        Key("repeats", kinds.integer(1, 1000), "How often the change is made.", 5),
    ), measures=("blocked",))  # fmt: skip


def check_keys(source: Source, blocked: Values, _: Arrays, __: Keys) -> None:
    """Settings are there where they are changed, and only there."""
    action = blocked.get("action")
    if action == "settings" and not blocked.get("settings", True):
        source.problem(("blocked", "settings"), 'missing; with action = "settings" it says what to set')
    if action and action != "settings" and blocked.get("settings"):
        source.problem(("blocked", "settings"), f'expected none where the action is "{action}"')


@dataclass(frozen=True)
class Happened:
    """One action under traffic."""

    quiet: Carried  # before it
    during: Carried  # from a moment before it to a moment after it
    took_s: float  # the action, until what does it has returned and shows
    over_line: bool = False  # whether it was asked for over a line to another host


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    blocked = asked(scenario, Blocked)
    acting_s = ITEM_S * blocked.count if blocked.action.endswith(MANY) else ACTION_S
    return blocked.repeats * (REPEAT_S + blocked.before_s + acting_s + blocked.after_s)


def measure_blocked(bench: Standing) -> ScenarioResult:
    """Every repeat of the action, and what follows. Raises Interrupted, BenchError, DutError or EngineError."""
    scenario, blocked, loop = bench.scenario, asked(bench.scenario, Blocked), loop_of(bench, lambda _: True)
    bench.task.on_stoppable(loop)
    bench.task.note_facts(bench.live.versions())
    bench.task.listener.phase(PHASE, blocked.repeats)
    spare = min(blocked.repeats, scenario.search.max_repeats)
    all_repeats(loop, blocked.repeats, spare, lambda: _repeat(bench, blocked, loop))
    made = loop.records
    figures, told = tuple(over_repeats(made)), warnings(made, blocked.repeats)
    is_known = any(metric.name == NAMES[0] for metric in figures)
    failed = "" if is_known else f"no blocked time: {'; '.join(map(str, told))}\n  hint: {Warn.REPEATS_MISSING.advice}"
    return result_of(scenario, (), bench.wall_s, figures, told, failed=failed)


def all_repeats(loop: Loop[Measurement], wanted: int, spare: int, repeat: Callable[[], Measurement]) -> None:
    """Make repeats until `wanted` are valid or `spare` more than are missing have been made; `repeat` makes the next.

    Valid ones of an interrupted run are not made again. Its disturbed ones stay in the record, but use up no
    spare one: a run that is resumed because of them would end with them at once.
    """
    made = loop.records
    most = len(made) + wanted - len(valid(made)) + spare
    while len(valid(made)) < wanted and len(made) < most:
        loop.kept(repeat())


def _repeat(bench: Standing, blocked: Blocked, loop: Loop[Measurement]) -> Measurement:
    expected_s = WARM_UP_S + QUIET_S + blocked.before_s + blocked.after_s
    begun = Begun(bench.scenario, loop.begin(expected_s), loop.number)
    action = bench.live.action(blocked, bench.setup.resources)
    action.prepare(loop.check)
    happened, seen = _under_traffic(bench, blocked, action, loop)
    action.restore(loop.check)
    figures, cannot = metrics(happened)
    account = {"blocked": asdict(blocked), **asdict(happened)}
    ended = begun.ended(figures, account, seen.flat(), judged=by_host(cannot))
    return ended if cannot else judged(ended, seen.elapsed_s)


def _under_traffic(
    bench: Standing, blocked: Blocked, action: Action, loop: Loop[Measurement]
) -> tuple[Happened, Observation]:
    """Let it happen while frames are sent, and see what the host does meanwhile."""
    bracket, check = bench.host_bracket(), loop.check
    sending = background(bench, None, blocked.load_fps, renewed=action.ends_processes)
    # The action's commands stay off the bench's CPUs where there are others.
    with sending as traffic, kept_off(bench.cpus, bench.host):
        traffic.warm_up(WARM_UP_S, check)
        traffic.start(check)
        with loop.observing(bracket):  # while the engine is there, whose time is the bench's
            pause(blocked.before_s, check)
            # Of a process that ends nobody can be asked afterwards what time it took.
            observed = [bracket.turn()] if action.ends_processes else []
            began = time.monotonic()
            action.act(check)
            took_s = time.monotonic() - began
            pause(blocked.after_s, check)
            seen = traffic.finish(began, check)
    if seen.load is None:
        raise EngineError("nothing was sent", "see engine.log in the run folder")
    return Happened(*seen.load, took_s, bool(bench.host.name)), together([*observed, loop.whole()])


def metrics(happened: Happened) -> tuple[tuple[Metric, ...], str]:
    """A repeat's figures, and why its blocked time is unknown; empty if it is known."""
    disturbed = disturbance(happened.quiet, happened.during)
    line = ", what went over the line to its host included" if happened.over_line else ""
    figures = [Metric("action time", "s", happened.took_s, note=f"until its command has returned and it shows{line}")]
    figures.append(Metric("lost frames", "count", float(happened.during.lost)))
    if isinstance(disturbed, str):
        return tuple(figures), disturbed
    low_s = max(0.0, disturbed.blocked_s - disturbed.engine_s)
    note = "lost frames / offered rate, less the loss before"
    figures.insert(0, Metric("blocked time", "s", disturbed.blocked_s, low_s, disturbed.blocked_s, note))
    if (silence_s := happened.during.longest_silence_s) is not None:
        least_s = max(0.0, silence_s - happened.during.engine_longest_s)
        closed = happened.during.parts == 1
        before = "" if closed else ", what passed before its link went not counted"
        note = f"in which a port delivered nothing{before}; the interval leaves out the engine's longest pause"
        figures.append(Metric("longest silence", "s", silence_s, least_s, silence_s if closed else None, note))
    if disturbed.longest_gap_s is not None:
        figures.append(Metric("longest gap", "s", disturbed.longest_gap_s, note="in the received sequence"))
    return tuple(figures), ""


def over_repeats(made: Sequence[Measurement]) -> Iterator[Metric]:
    """The figures of all valid repeats: medians with their intervals; of the disturbed ones if none was valid."""
    named = by_name(measurement.metrics for measurement in valid(made) or made)
    for name in NAMES:
        if repeats := named.get(name):
            middle, latest = median_interval([metric.value for metric in repeats]), repeats[-1]
            note = "; ".join(filter(None, (latest.note.split(";")[0], middle.meaning)))
            yield Metric(name, latest.unit, *middle.figures, note, level=middle.level)


def warnings(made: Sequence[Measurement], wanted: int) -> tuple[ResultWarning, ...]:
    """What to mind about the figures."""
    usable = len(valid(made))
    if usable >= wanted:
        return ()
    reasons = list(dict.fromkeys(measurement.reason for measurement in made if measurement.reason))
    kind = Warn.REPEATS_MISSING if usable else Warn.ONLY_DISTURBED
    return (kind.of("; ".join(reasons[:_MOST_REASONS]), valid=usable, asked=wanted),)


MEASURE: Final = MeasureKind(
    made=Blocked,
    finds="how long forwarding stands still while the DUT is changed",
    table=table,
    run=measure_blocked,
    expected_s=expected_s,
    main=("blocked time", "longest silence", "longest gap", "action time"),
    check=check_keys,
    made_of="repeat",
    has_limit=False,
)
