"""The loop of a campaign: free machines get units, what ends is stored, and whatever is lost is measured again."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pinchpoint.campaign.executor import Ended, Event, Executor, Gone, Grown, Joined, Order, is_machines_fault, outcome
from pinchpoint.campaign.machines import figure_of, suspect
from pinchpoint.campaign.read import CONTROL, on_bench
from pinchpoint.campaign.results import Results
from pinchpoint.campaign.schedule import Limits, Scheduler
from pinchpoint.model.campaign import Bench, Campaign, Entry, Exclusion, MachineProgress, Progress, Unit, What
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.result import RunInfo
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.study import SweepInfo
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.store.bundle import files_of
from pinchpoint.store.campaign import CampaignFolder, Tally
from pinchpoint.store.folder import INFO

WAIT_S: Final = 1.0
SHOWN_S: Final = 2.0  # between two writings of machines.json
Show = Callable[[Progress], None]


class Conduct:
    """One start of a campaign, from its first attempt to its last."""

    def __init__(
        self,
        campaign: Campaign,
        info: RunInfo,
        folder: CampaignFolder,
        executor: Executor,
        show: Show = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
        again: str = "",
    ) -> None:
        """`info` is what run.json of the campaign holds, of which that of an attempt is made; `again`: what resumes."""
        self._campaign, self._info, self._folder, self._executor = campaign, info, folder, executor
        self._show, self._now_s = show, now_s
        self._again = again or f"pinchpoint campaign --resume {folder.path}"
        self._units = {unit.name: unit for unit in campaign.units}
        self._scenarios = {str(plain["name"]): from_plain(plain) for plain in info.scenarios}
        self._tally = folder.tally(campaign)
        self._running: dict[str, tuple[Unit, str, float]] = {}  # by machine: its unit, attempt, and since when
        self._known: dict[str, Bench] = {}
        self._stopping = False
        self._shown_s = self._absent_s = self._last_joined_s = now_s()
        self._log_broken_off()
        spent_s = defaultdict[str, float](float)  # of each machine in earlier starts, whatever came of it
        for entry in folder.entries():
            spent_s[entry.machine] += entry.wall_s
        self._began_s = now_s() - max(spent_s.values(), default=0.0)  # of the machine that measured longest
        rates = {bench.name: bench.cost_per_hour for bench in campaign.benches}
        cost = math.fsum(wall_s / 3600 * rates.get(machine, 0.0) for machine, wall_s in spent_s.items())
        for machine in list(self._tally.excluded):
            self._log(What.RETURNED, machine=machine)
        waiting = (unit for unit in campaign.units if unit.name not in self._tally.accepted)
        limits = Limits(campaign.budget_s, campaign.budget_cost, campaign.retries)
        self._scheduler = Scheduler(waiting, limits, campaign.control, cost)
        self._results = Results(campaign, self._scenarios, folder, self._tally, self._scheduler.unmeasured, now_s)

    def stop(self) -> None:
        """Interrupt what is measured; `run` then ends in order."""
        self._stopping = True

    def run(self) -> Tally:
        """Measure until nothing is left, or it is stopped. Raises StoreError, and BenchError without any machine."""
        told = False
        try:
            while not self._is_over():
                if self._stopping and not told:
                    self._executor.stop()
                    told = True
                for event in self._executor.wait(WAIT_S):
                    self._take(event)
                if not self._stopping:
                    self._begin()
                self._tell()
        finally:
            try:  # first: an executor whose machines are out of reach may take long to close, or fail
                self._results.write()
                self._tell(now=True)
            finally:
                self._executor.close()
        return self._tally

    def is_stopped(self) -> bool:
        """Whether it ended because it was stopped."""
        return self._stopping

    # What is next

    def _is_over(self) -> bool:
        return not self._running and (self._stopping or self._scheduler.is_over())

    def _begin(self) -> None:
        for machine in self._scheduler.free():
            unit = self._scheduler.take(machine, self._now_s() - self._began_s)
            if unit is not None:
                self._start(self._known[machine], unit)
        if self._scheduler.benches:
            self._absent_s = self._now_s()
        if not self._running and not self._scheduler.is_over():
            self._wait_for_machines()
        for name, (kind, reason) in self._scheduler.unmeasured.items():
            known = self._tally.left_out.get(name)
            if known is None or known.what is not What(kind):
                self._log(What(kind), name, reason=reason)

    def _wait_for_machines(self) -> None:
        """For those that may still come and could measure what the ones that are there cannot; not for ever."""
        if self._scheduler.benches:
            if self._now_s() - self._last_joined_s >= self._executor.grace_s:
                self._scheduler.give_up()
        elif self._now_s() - self._absent_s >= self._executor.absent_s:
            excluded = "; ".join(f"{name}: {why}" for name, why in self._tally.excluded.items())
            told = f"no machine is left to measure on{f' ({excluded})' if excluded else ''}"
            raise BenchError(told, f"{self._again} continues")

    def _start(self, bench: Bench, unit: Unit) -> None:
        attempt, files = self._attempt_of(bench, unit)
        self._folder.make_attempt(attempt, files)
        self._log(What.BEGUN, unit.name, attempt, bench.name)
        self._running[bench.name] = unit, attempt, self._now_s()
        self._executor.start(Order(attempt, bench, files, unit.programs, self._campaign.ceiling))

    def _attempt_of(self, bench: Bench, unit: Unit) -> tuple[str, Mapping[str, bytes]]:
        """The attempt that this machine began and did not end, with its files; else a new one."""
        began = self._tally.open.get(unit.name)
        if began and began.machine == bench.name and unit is not self._scheduler.control_unit:
            folder = self._folder.attempt(began.attempt)
            if (folder.path / "run.json").is_file():
                return began.attempt, files_of(folder)
        number = self._tally.attempts[unit.name] + 1
        name = f"{unit.name}.on-{bench.name}" if unit is self._scheduler.control_unit else unit.name
        attempt = f"{name}.a{number}"
        return attempt, {"run.json": INFO.encode(self._attempt_info(attempt, bench, unit), "run.json") + b"\n"}

    def _attempt_info(self, attempt: str, bench: Bench, unit: Unit) -> RunInfo:
        scenario = on_bench(self._scenario(unit), bench)
        sweep = SweepInfo(scenario.point.group, scenario.title, scenario.measure.kind, (), 1, "listed", 1)
        return replace(
            self._info, run_id=attempt, started=_now(), scenarios=(to_plain(scenario),), sweeps=(sweep,), sources={},
            plans={}, budget_s=None,
        )  # fmt: skip

    def _scenario(self, unit: Unit) -> Scenario:
        control = self._campaign.control
        return from_plain(control.scenario) if control and unit.name == CONTROL else self._scenarios[unit.name]

    # What has happened

    def _take(self, event: Event) -> None:
        if isinstance(event, Joined):
            if event.bench.name not in self._tally.excluded:
                self._known[event.bench.name] = event.bench
                self._scheduler.joined(event.bench)
                self._last_joined_s = self._now_s()
        elif isinstance(event, Gone):
            self._gone(event)
        elif isinstance(event, Grown):
            self._folder.grow_attempt(event.attempt, event.file, event.lines)
        else:
            self._ended(event)

    def _gone(self, event: Gone) -> None:
        wall_s = 0.0
        if (running := self._running.pop(event.machine, None)) is not None:
            unit, attempt, began_s = running
            wall_s = self._now_s() - began_s
            self._log(What.LOST, unit.name, attempt, event.machine, wall_s, event.reason)
        self._scheduler.left(event.machine, wall_s)
        if event.is_unusable:
            self._log(What.EXCLUDED, machine=event.machine, reason=event.reason)

    def _ended(self, event: Ended) -> None:
        running = self._running.get(event.machine)
        if running is None or running[1] != event.attempt:
            return  # it was given up before
        del self._running[event.machine]
        unit, attempt, began_s = running
        wall_s = self._now_s() - began_s
        if event.files:
            self._folder.make_attempt(attempt, event.files)
        what, reason, result = outcome(self._folder.attempt(attempt), event.exit_code, event.said)
        if what is What.INTERRUPTED and not self._stopping:
            reason = f"its machine interrupted it, not the campaign (exit code {event.exit_code})"
        if what is What.FINISHED and unit is self._scheduler.control_unit and (not result or figure_of(result) is None):
            what, reason = What.FAILED, "the control scenario gave no figure to compare machines by"
        self._log(what, unit.name, attempt, event.machine, wall_s, reason)
        if what is What.FINISHED:
            self._scheduler.finished(event.machine, wall_s)
            if unit is self._scheduler.control_unit:
                self._judge(event.machine)
            self._results.changed()
        elif what is What.INTERRUPTED and self._stopping:
            self._scheduler.interrupted(event.machine, wall_s)
        elif what is What.IMPOSSIBLE and unit is not self._scheduler.control_unit:
            self._scheduler.impossible(event.machine, wall_s, reason)
        # By a fault of the machine alone no retry of the unit is used up.
        elif is_machines_fault(event.exit_code, result) or self._scheduler.failed(event.machine, wall_s, reason):
            self._exclude(Exclusion(event.machine, f"it cannot measure: {reason}", -1), wall_s)

    def _judge(self, machine: str) -> None:
        control = self._campaign.control
        assert control is not None, "a control has just ended"
        figures = self._results.controls()
        kept = {name: values for name, values in figures.items() if name not in self._tally.excluded}
        if excluded := suspect(machine, kept, control.tolerance):
            self._exclude(excluded)

    def _exclude(self, exclusion: Exclusion, wall_s: float = 0.0) -> None:
        """Use the machine no more; what it measured since it changed is measured again elsewhere.

        `wall_s` is how long it was at a unit that did not end otherwise.
        """
        self._results.excluded(exclusion)
        self._scheduler.left(exclusion.machine, wall_s)
        if exclusion.since >= 0:  # logged first: a lab killed between the two would keep the bad results
            self._withdraw(exclusion)
        self._log(What.EXCLUDED, machine=exclusion.machine, reason=exclusion.reason)

    def _withdraw(self, exclusion: Exclusion) -> None:
        own = [entry for entry in self._tally.controls if entry.machine == exclusion.machine]
        since = own[exclusion.since - 1].at if exclusion.since else self._tally.returned.get(exclusion.machine, "")
        for entry in list(self._tally.accepted.values()):
            unit = self._units[entry.unit]
            elsewhere = any(unit.requirement.met_by(bench) for bench in self._scheduler.benches.values())
            if entry.machine == exclusion.machine and entry.at > since and elsewhere:
                self._log(What.WITHDRAWN, entry.unit, entry.attempt, exclusion.machine, reason=exclusion.reason)
                self._scheduler.add(unit)

    # What is kept of it

    def _log(
        self, what: What, unit: str = "", attempt: str = "", machine: str = "", wall_s: float = 0.0, reason: str = ""
    ) -> None:
        entry = Entry(what, _now(), unit, attempt, machine, round(wall_s, 3), reason)
        self._folder.append(entry)
        self._tally.take(entry, CONTROL if self._campaign.control else "")

    def _log_broken_off(self) -> None:
        """Attempts that ran when the lab was killed took machine time until it last said what they do."""
        running: dict[str, Entry] = {}
        for entry in self._folder.entries():
            if entry.what is What.BEGUN:
                running[entry.attempt] = entry
            else:
                running.pop(entry.attempt, None)
        told = self._folder.read_progress() if running else None
        for entry in running.values():
            wall_s = _seconds(entry.at, told.at, self._folder) if told else 0.0
            self._log(What.INTERRUPTED, entry.unit, entry.attempt, entry.machine, wall_s, "the lab was killed")

    def _tell(self, now: bool = False) -> None:
        if not now and self._now_s() - self._shown_s < SHOWN_S:
            return
        self._shown_s = self._now_s()
        progress = self.progress()
        self._folder.write_progress(progress)
        self._show(progress)

    def progress(self) -> Progress:
        """Where the campaign stands; of a time that grows with the machines, not with what they have measured."""
        names = dict.fromkeys((*self._known, *self._tally.excluded, *self._tally.measured_on, *self._tally.lost_on))
        left_s = None
        if self._scheduler.benches:
            runs = ((self._scheduler.predicted_s(unit), since_s) for unit, _, since_s in self._running.values())
            lasting_s = (predicted_s - (self._now_s() - since_s) for predicted_s, since_s in runs)
            left_s = self._scheduler.left_s() + max((0.0, *lasting_s))
        return Progress(
            at=_now(),
            units=len(self._units),
            measured=len(self._tally.accepted),
            left_out=len(self._scheduler.unmeasured),
            withdrawn=self._tally.withdrawn,
            left_s=left_s,
            cost=self._scheduler.cost,
            machines=tuple(self._machine(name) for name in names),
        )

    def _machine(self, name: str) -> MachineProgress:
        running, tally = self._running.get(name), self._tally
        state = "measures" if running else "idle" if name in self._scheduler.benches else "gone"
        state, unit = "excluded" if name in tally.excluded else state, running[0].name if running else ""
        why = tally.excluded.get(name, "")
        return MachineProgress(name, state, unit, tally.measured_on[name], tally.lost_on[name], why)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _seconds(since: str, until: str, folder: CampaignFolder) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):  # the latter: one of them without a time zone
        hint = "expected ISO 8601 with a time zone, as the lab wrote it; restore the files"
        raise InputError(f"{folder.path}: {since!r} in attempts.jsonl or {until!r} in machines.json", hint) from None
