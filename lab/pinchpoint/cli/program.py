"""What a command shall run: scenario files, folders and studies made into sweeps and their units."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from pinchpoint.dut.placement import chosen
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.model import units as words
from pinchpoint.model.comparison import ComparisonRequest, Method
from pinchpoint.model.errors import InputError, choices
from pinchpoint.model.scenario import Scenario, Sweep
from pinchpoint.model.study import Study, SweepInfo
from pinchpoint.run import order
from pinchpoint.run.budget import about, impossible, whole_s
from pinchpoint.run.comparison import expected_s as run_expected_s
from pinchpoint.run.explaining import sweep_of
from pinchpoint.scenario import load_study, load_sweep
from pinchpoint.scenario.study import STUDY_FILE

Changes = Mapping[str, object]  # key path -> value
UNCHANGED: Final[Changes] = MappingProxyType({})


@dataclass(frozen=True)
class Program:
    """Sweeps in the order of their groups, and how long they may take."""

    name: str  # of the run
    sweeps: tuple[Sweep, ...]
    study: Study | None = None
    budget_s: float | None = None
    comparison: ComparisonRequest | None = None  # of the two sweeps there are
    explains: bool = False  # each sweep is of counter-experiments on its first point

    @property
    def plain(self) -> bool:
        """Whether nothing is swept: then the first error ends the run."""
        swept = any(sweep.factors or sweep.repeats > 1 for sweep in self.sweeps)
        return not swept and self.study is None and self.budget_s is None and self.comparison is None

    @cached_property
    def units(self) -> tuple[Scenario, ...]:
        """Every scenario, repeats included, in the order they run."""
        if self.comparison is not None:
            a, b = self.sweeps
            return order.in_turns(a, b, self.comparison.pairs)
        return order.units(self.sweeps, budgeted=self.budget_s is not None)

    @property
    def infos(self) -> tuple[SweepInfo, ...]:
        """The sweeps as run.json keeps them; none for a plain run."""
        return () if self.plain else tuple(order.info(sweep) for sweep in self.sweeps)

    @property
    def sources(self) -> dict[str, str]:
        """The text of every file, by its path."""
        paths = {scenario.path for sweep in self.sweeps for scenario in sweep.scenarios}
        return {path: Path(path).read_text(encoding="utf-8") for path in sorted(paths)}

    def expected_s(self, machines: Machines) -> float:
        """About how long the run takes on this machine without a budget."""
        return whole_s(self.units, machines)

    def with_kernels(self, lab: Host) -> "Program":
        """The same with a kernel for every guest, where files leave it open."""
        left = iter(chosen([scenario for sweep in self.sweeps for scenario in sweep.scenarios], lab))
        sweeps = (replace(sweep, scenarios=tuple(islice(left, len(sweep.scenarios)))) for sweep in self.sweeps)
        return replace(self, sweeps=tuple(sweeps))

    def repeated(self, repeats: int | None) -> "Program":
        """The same with this many repeats of every point; None: as the files say."""
        if repeats is None:
            return self
        return replace(self, sweeps=tuple(replace(sweep, repeats=repeats) for sweep in self.sweeps))

    def describe(self, machines: Machines) -> str:
        """How much there is to run, e.g. `43 points in 5 groups, 3 repeats each: 129 units, about 38 min`."""
        points = sum(len(sweep.scenarios) for sweep in self.sweeps)
        if self.comparison is not None and self.comparison.slices_s is not None:
            what = "slices" if self.comparison.method is Method.DUET else "trials"
            expected_s = run_expected_s(self.comparison) if self.budget_s is None else self.budget_s
            times = words.counted(self.comparison.benches, "time")
            return f"A and B at once, alternating {what}, built {times}, about {words.duration(expected_s)}"
        if self.comparison is not None:
            text = f"A and B in turns, {words.counted(self.comparison.pairs, 'pair')}: {len(self.units)} measurements"
            return self._with_time(text, machines)
        text = words.counted(points, "scenario" if self.plain else "point")
        if len(self.sweeps) > 1 and not self.plain:
            text += f" in {words.counted(len(self.sweeps), 'group')}"
        if len(self.units) > points:
            repeats = {sweep.repeats for sweep in self.sweeps}
            each = f"{repeats.pop()} repeats each" if len(repeats) == 1 else "repeated"
            text += f", {each}: {words.counted(len(self.units), 'unit')}"
        scenarios = [scenario for sweep in self.sweeps for scenario in sweep.scenarios]
        return self._with_time(text, machines) + impossible(scenarios, machines)

    def _with_time(self, text: str, machines: Machines) -> str:
        text += f", {about(self.expected_s(machines))}"
        return text if self.budget_s is None else f"{text}; budget {words.duration(self.budget_s)}"


def of_paths(paths: Sequence[Path], quick: bool = False, changes: Changes = UNCHANGED) -> Program:
    """What `pinchpoint run PATHS` runs, `changes` made to each file; the problems of all files are reported together.

    Raises InputError.
    """
    if len(paths) == 1 and (paths[0] / STUDY_FILE).is_file():
        return of_study(paths[0], quick, changes=changes)
    files = scenario_files(paths)
    sweeps = _load_all(files, quick, changes)
    if quick:
        note_if_long(sweeps, lambda: _load_all(files, False, changes))
    name = paths[0].resolve().name if len(paths) == 1 and paths[0].is_dir() else sweeps[0].group
    return Program(name, sweeps)


def of_study(folder: Path, quick: bool = False, only: Sequence[str] = (), changes: Changes = UNCHANGED) -> Program:
    """A study, or those of its groups that `only` names; a folder without study.toml is its scenarios.

    Raises InputError.
    """
    program = _read_study(folder, quick, only, changes)
    if quick:
        note_if_long(program.sweeps, lambda: _read_study(folder, False, only, changes).sweeps)
    return program


def forms_of(folder: Path) -> tuple[Program, Program]:
    """A study and its short form. Raises InputError."""
    return _read_study(folder, False, (), UNCHANGED), _read_study(folder, True, (), UNCHANGED)


def _read_study(folder: Path, quick: bool, only: Sequence[str], changes: Changes) -> Program:
    if (folder / STUDY_FILE).is_file():
        study, sweeps = load_study(folder, quick, only, changes)
        return Program(study.name, sweeps, study)
    files = {path.stem: path for path in scenario_files([folder])}
    if unknown := [name for name in only if name not in files]:
        raise InputError(f"{folder}: no group {', '.join(unknown)}", choices(unknown[0], files, "its groups"))
    chosen = [path for name, path in files.items() if not only or name in only]
    return Program(folder.resolve().name, _load_all(chosen, quick, changes))


def note_if_long(short: Sequence[object], long: Callable[[], Sequence[object]]) -> None:
    """Say on stderr that the short form is the long one."""
    with suppress(InputError):  # of levels that the short form leaves out
        if short == long():
            click.echo("pinchpoint: --quick changes nothing: no file here has a short form", err=True)


def explaining(wanted: Program, machines: Machines) -> Program:
    """The same scenarios, each with every counter-experiment on it. Raises InputError if one is swept or has no rate.

    Nothing is left out that some suspicion asks for, unless a budget says so.
    """
    if not wanted.plain:
        hint = "run it, then explain one of its points: pinchpoint explain RUN --scenario NAME"
        raise InputError(f"{wanted.name}: --confirm explains scenarios, and this sweeps or repeats them", hint)
    scenarios = (scenario for sweep in wanted.sweeps for scenario in sweep.scenarios)
    sweeps = tuple(sweep_of(scenario, _free_cpus(scenario, machines)) for scenario in scenarios)
    return replace(wanted, sweeps=sweeps, explains=True)


def _free_cpus(scenario: Scenario, machines: Machines) -> frozenset[int]:
    """CPUs of its host that neither engine nor device uses; none of a bench on several hosts, or in a guest."""
    if scenario.is_multi_host or scenario.holds_bench:
        return frozenset()
    return machines.opened(scenario.site).cpus() - scenario.cpus_at(scenario.site)


def is_run(path: Path) -> bool:
    """Whether it is a run folder."""
    return (path / "run.json").is_file()


def scenario_files(paths: Iterable[Path]) -> list[Path]:
    """Files as given, and in each folder its scenarios in the order of their names."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir() and (path / STUDY_FILE).is_file():
            raise InputError(f"{path}: this is a study, not a scenario", f"pinchpoint study run {path}")
        inside = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path}: no scenario (*.toml) in this folder")
        files += inside
    return files


def _load_all(files: Sequence[Path], quick: bool, changes: Changes) -> tuple[Sweep, ...]:
    """The sweeps of these files."""
    sweeps: list[Sweep] = []
    problems: list[str] = []
    for path in files:
        try:
            sweeps.append(load_sweep(path, quick, changes))
        except InputError as error:
            problems.append(str(error))
    problems += _doubles(sweeps)
    if problems:
        raise InputError("\n".join(problems))
    return tuple(sweeps)


def _doubles(sweeps: Iterable[Sweep]) -> Iterator[str]:
    paths: dict[str, str] = {}
    for sweep in sweeps:
        path = sweep.scenarios[0].path
        if sweep.group in paths:
            yield f"{path}: another scenario is named {sweep.group}, too: {paths[sweep.group]}; rename one file"
        paths.setdefault(sweep.group, path)
