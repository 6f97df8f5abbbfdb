"""From a campaign file to its units: scenarios x variants x builds, on any machine or on every one."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from pinchpoint.campaign import keys
from pinchpoint.keys.reader import Element, Reader, Values, refuse_doubles
from pinchpoint.keys.source import Source, read_text, show
from pinchpoint.model.campaign import HERE, Bench, Campaign, Control, Requirement, Unit
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Relative, Scenario, Sweep
from pinchpoint.model.site import Remote, Site
from pinchpoint.run import order
from pinchpoint.run.budget import expected_s
from pinchpoint.scenario import load_sweep
from pinchpoint.scenario.keys import by_hand, program_key
from pinchpoint.scenario.plain import to_plain

MOST_UNITS: Final = 100_000
LEASE_S: Final = 60.0
CONTROL: Final = "campaign-control"
_LONGEST_NAME: Final = 100
_NONE: Final = ""  # no variant, no build

ProgramAt = Callable[[str, str], str]  # (name of a build, how its program is called) -> where it is


@dataclass(frozen=True)
class Loaded:
    """A campaign with the scenarios of its units, in the same order."""

    campaign: Campaign
    scenarios: tuple[Scenario, ...]
    sources: Mapping[str, str]  # file -> its text
    builds: tuple[str, ...]


@dataclass(frozen=True)
class _Combination:
    """One file with what is put on it."""

    path: Path
    variant: str
    build: str

    @property
    def suffix(self) -> str:
        return "".join(f"-{part}" for part in (self.variant, self.build) if part)

    def matches(self, values: Values) -> bool:
        """Whether a rule is about it."""
        own = {"scenario": self.path.stem, "variant": self.variant, "build": self.build}
        return all(not values.get(key) or name in values[key] for key, name in own.items())


def load(path: Path, program_at: ProgramAt, quick: bool = False, ceiling: bool = True) -> Loaded:
    """Read a campaign file and the scenario files that it names.

    Raises InputError listing every problem: of the campaign file, then of the scenario files.
    """
    file = _File(path, program_at, quick)
    if file.source.problems:
        raise file.source.error()
    made = list(file.groups())
    control = file.control()
    if file.wrong or file.source.problems:
        own = [file.source.error().message] if file.source.problems else []
        raise InputError("\n".join([*own, *dict.fromkeys(file.wrong)]))
    units = [unit for _, group in made for unit in group]
    if not units:
        raise InputError(f"{path}: expected 1 to {MOST_UNITS:,} measurements, found 0", "see [[exclude]] and [[only]]")
    names = Counter([CONTROL, *(unit.name for unit, _ in units)])
    if double := next((name for name, times in names.items() if times > 1), ""):
        raise InputError(f"{path}: two measurements would be called {double}", "rename a file, a variant or a build")
    top, name = file.top, path.stem
    campaign = Campaign(
        name=name,
        title=top.get("title", name),
        units=tuple(unit for unit, _ in units),
        benches=file.benches,
        sweeps=tuple(order.info(sweep) for sweep, _ in made),
        every_machine=top["measured_on"] == "every",
        retries=top["retries"],
        budget_s=top["budget_s"],
        budget_cost=top["budget_cost"],
        control=control,
        ceiling=ceiling,
    )
    scenarios = tuple(scenario for _, scenario in units)
    paths = [str(path), *([str(file.control_path)] if control else []), *(scenario.path for scenario in scenarios)]
    texts = {path: Path(path).read_text(encoding="utf-8") for path in dict.fromkeys(paths)}
    return Loaded(campaign, scenarios, texts, file.builds)


class _File:
    """A campaign file, and what is wrong in it and in the scenario files that it names."""

    def __init__(self, path: Path, program_at: ProgramAt, quick: bool) -> None:
        """Read it. Raises InputError for one that is none; other problems are noted in its source."""
        if not path.is_file():
            raise InputError(f"{path}: expected a campaign file", "docs/campaigns.md has one")
        self.source = source = Source(read_text(path), str(path))
        if "dut" in source.data:
            lists = f'a campaign file lists scenarios: scenarios = ["{path.name}"]; docs/campaigns.md has one'
            raise InputError(f"{path}: a scenario, not a campaign", f"pinchpoint run {path}; {lists}")
        reader = Reader(source, keys.TABLES)
        reader.refuse_unknown_keys()
        self.arrays = {table.name: reader.array(table) for table in keys.ARRAYS}
        self.top, self._control = reader.table(keys.TOP), reader.table(keys.CONTROL)
        self._program_at, self._quick, self._folder = program_at, quick, path.resolve().parent
        self.wrong: list[str] = []  # in scenario files
        self.builds: tuple[str, ...] = self.top.get("builds") or ()
        machines = (element.values for element in self.arrays["machine"])
        self.benches = tuple(_bench(values) for values in machines if "name" in values)
        self._variants: dict[str, dict[str, object]] = {}
        refuse_doubles(source, self.arrays["variant"])
        for element in self.arrays["variant"]:
            self._variant(element)
        self._check()

    def _variant(self, element: Element) -> None:
        source = self.source
        changes = {key: value for key, value in element.written.items() if key != "name"}
        for key, value in changes.items():
            if isinstance(value, dict) and "." not in key:
                inner = next(iter(value), "key")
                source.problem((*element.at, key), f'expected a key in quotes, such as "{key}.{inner}"')
            if key in by_hand():
                told = "not allowed in a file; name a build in `builds`, and say where it is by --build NAME=PATH"
                source.problem((*element.at, key), told)
        if not changes:
            source.problem(element.at, 'expected a key that it sets, such as "dut.smc" = true')
        self._variants[element.values.get("name", "")] = changes

    def _check(self) -> None:
        """What no table can say by itself."""
        paths = self.top.get("scenarios", ())
        stems = [Path(path).stem for path in paths]
        for place, stem in enumerate(stems):
            if stem in stems[:place]:
                told = f"expected files of different names, found {paths[stems.index(stem)]} and {paths[place]}"
                self.source.problem(("scenarios", place), told)
        self._check_machines()
        if self.top.get("measured_on") == "every" and not self.benches:
            self.source.problem(("measured_on",), 'expected [[machine]] tables where it is "every"')
        known = {"scenario": stems, "variant": list(self._variants), "build": list(self.builds)}
        if self.benches:
            known["machine"] = [bench.name for bench in self.benches]
        for table in ("exclude", "only", "need", "priority"):
            for element in self.arrays[table]:
                self._check_rule(element, known)

    def _check_machines(self) -> None:
        source, taken = self.source, dict[str, str]()
        refuse_doubles(source, self.arrays["machine"])
        for element in self.arrays["machine"]:
            name, address = element.values.get("name", ""), element.values.get("address")
            hosts = element.values.get("hosts") or {}
            if address and hosts:
                source.problem((*element.at, "address"), "expected no address where there are hosts, each with its own")
            for place in tuple(hosts.values()) or ((address,) if address else ()):
                if taken.setdefault(place, name) != name:
                    told = f"expected addresses of its own, found {show(place)}, which is {taken[place]}'s"
                    source.problem((*element.at, "hosts" if hosts else "address"), f"{told}: machines measure at once")

    def _check_rule(self, element: Element, known: Mapping[str, Sequence[str]]) -> None:
        named = [key for key in ("scenario", "variant", "build", "machine") if element.values.get(key)]
        if not named and "priority" not in element.values and not element.values.get("labels"):
            self.source.problem(element.at, "expected at least one of scenario, variant, build, machine")
        for key in named:
            for place, name in enumerate(element.values[key]):
                if key in known and name not in known[key]:
                    expected = f"a {key} of this campaign ({', '.join(known[key][:10]) or 'there is none'})"
                    self.source.mismatch((*element.at, key, place), expected, name, known[key])

    def groups(self) -> Iterator[tuple[Sweep, list[tuple[Unit, Scenario]]]]:
        """Each group: one file with one variant and one build, on any machine or on one of every machine."""
        count, named = 0, [self._folder / path for path in self.top["scenarios"]]
        for path, variant, build in product(named, list(self._variants) or [_NONE], self.builds or (_NONE,)):
            combination = _Combination(path, variant, build)
            requirement = self._requirement(combination)
            sweep = None if requirement is None else self._sweep(path, self._variants.get(variant, {}))
            programs = None if sweep is None else self._programs(combination, sweep)
            if requirement is None or sweep is None or programs is None:
                continue
            for machine in self._placing(sweep):
                is_allowed = not requirement.only_on or machine in requirement.only_on
                if machine != _NONE and (machine in requirement.not_on or not is_allowed):
                    continue
                count += len(sweep.scenarios) * sweep.repeats
                if count > MOST_UNITS:  # before they are made: a short file can ask for a thousand million
                    told = f"{self.source.path}: expected 1 to {MOST_UNITS:,} measurements, found more"
                    raise InputError(told, "fewer repeats, levels, variants or builds")
                own = requirement if machine == _NONE else replace(requirement, only_on=(machine,))
                suffix = combination.suffix + (f"-on-{machine}" if machine else "")
                priority = max((rule["priority"] for rule in self._rules("priority", combination)), default=0)
                yield _group(sweep, suffix, combination.suffix, own, programs, priority)

    def _placing(self, sweep: Sweep) -> Sequence[str]:
        """Where each point is measured: on every machine that has the hosts of the sweep; if none has, on any."""
        if self.top["measured_on"] != "every":
            return [_NONE]
        placed = [Requirement(hosts=hosts_of(scenario)) for scenario in sweep.scenarios]
        able = (bench.name for bench in self.benches if any(needed.is_placed_on(bench) for needed in placed))
        return list(able) or [_NONE]

    def _sweep(self, path: Path, changes: Mapping[str, object]) -> Sweep | None:
        """The file's sweep; what is wrong with it, also as a bench on the first host by ssh, is noted."""
        try:
            if not path.is_file():
                raise InputError(f"{path}: no such file; {self.source.path} names it")
            sweep = load_sweep(path, self._quick, changes)
            if any(scenario.point.relative is not Relative.NO for scenario in sweep.scenarios):
                told = f"{path}: sweep.relative: a campaign cannot measure points side by side"
                raise InputError(told, 'write "no"')
            if any(hosts_of(scenario) and any(site.is_lab for site in scenario.sites) for scenario in sweep.scenarios):
                told = f"{path}: a part of its bench stands on the lab's own machine, which all sites would share"
                hint = "name a host for the device, the engine and each [[host]] by its runs_on; see [[machine]] hosts"
                raise InputError(told, hint)
            is_anywhere = any(not hosts_of(scenario) for scenario in sweep.scenarios)
            if is_anywhere and (far := next((bench for bench in self.benches if bench.address), None)):
                there = {"runs_on": far.name, f"host.{far.name}.address": far.address}
                load_sweep(path, self._quick, {**changes, **there})
        except InputError as error:
            self.wrong.append(str(error))
            return None
        repeats = self.top.get("repeats")
        return sweep if repeats is None else replace(sweep, repeats=repeats)

    def _programs(self, combination: _Combination, sweep: Sweep) -> Mapping[str, str] | None:
        """The program of the build, by the key that chooses it."""
        if not combination.build:
            return {}
        key = program_key(sweep.scenarios[0])
        if key is None:
            kind = sweep.scenarios[0].dut.kind
            said = f"{combination.path}: the program of a device of kind {kind} cannot be chosen, but there are builds"
            hint = "exclude it for each build ([[exclude]]), or give it a campaign of its own"
            self.wrong.append(f"{said}\n  hint: {hint}")
            return None
        try:
            return {key[0]: self._program_at(combination.build, key[1])}
        except InputError as error:
            self.wrong.append(str(error))
            return None

    def _rules(self, table: str, combination: _Combination) -> list[Values]:
        """The rules of a table that are about the combination."""
        return [element.values for element in self.arrays[table] if combination.matches(element.values)]

    def _requirement(self, combination: _Combination) -> Requirement | None:
        """Which machines may measure it, by the rules; None: it is not measured."""
        excluding, allowing = self._rules("exclude", combination), self._rules("only", combination)
        has_only = bool(self.arrays["only"])
        if any(not values.get("machine") for values in excluding) or (has_only and not allowing):
            return None
        needs = self._rules("need", combination)
        anywhere = not has_only or any(not values.get("machine") for values in allowing)
        return Requirement(
            labels=tuple(sorted({label for values in needs for label in values.get("labels") or ()})),
            cpus=max((values.get("cpus") or 0 for values in needs), default=0),
            only_on=() if anywhere else tuple(sorted({name for rule in allowing for name in rule["machine"]})),
            not_on=tuple(sorted({name for values in excluding for name in values["machine"]})),
        )

    @property
    def control_path(self) -> Path:
        """The control scenario's file, if there is one."""
        return self._folder / str(self._control["scenario"])

    def control(self) -> Control | None:
        """The control scenario; what is wrong with it is noted."""
        sweep = self._sweep(self.control_path, {}) if self._control.get("scenario") else None
        if sweep is None:
            return None
        if len(sweep.scenarios) > 1:
            self.source.problem(("control", "scenario"), f"expected one scenario, found {len(sweep.scenarios)} points")
        scenario = replace(sweep.scenarios[0], name=CONTROL, point=replace(sweep.scenarios[0].point, group=CONTROL))
        requirement = Requirement(cpus=_cpus(scenario), hosts=hosts_of(scenario))
        unit = Unit(CONTROL, CONTROL, 1, requirement, expected_s(scenario))
        return Control(unit, to_plain(scenario), self._control["every_s"], self._control["tolerance"])


def _bench(values: Values) -> Bench:
    return Bench(**{name: value for name, value in values.items() if value is not None})


def _cpus(scenario: Scenario) -> int:
    """How many each machine must have for those that the scenario names; any number does for those of a guest."""
    if scenario.holds_bench:
        return 0
    return max((cpu + 1 for site in scenario.sites for cpu in scenario.cpus_at(site)), default=0)


def _group(
    sweep: Sweep, suffix: str, of_point: str, requirement: Requirement, programs: Mapping[str, str], priority: int
) -> tuple[Sweep, list[tuple[Unit, Scenario]]]:
    stem = sweep.group
    group = short(stem + suffix)
    sweep = replace(sweep, group=group, title=f"{sweep.title}{f' ({suffix[1:]})' if suffix else ''}")
    units = []
    for repeat in range(1, sweep.repeats + 1):
        for scenario in sweep.scenarios:
            rest = scenario.name.removeprefix(stem)
            name = short(stem + suffix + rest) + (f".r{repeat}" if repeat > 1 else "")
            point = replace(scenario.point, group=group, repeat=repeat)
            made = _with_programs(replace(scenario, name=name, point=point), programs)
            needed = replace(requirement, cpus=max(requirement.cpus, _cpus(made)), hosts=hosts_of(made))
            coarse = (repeat - 1) * 1000 + (order.coarseness(sweep.factors, point.levels) if repeat == 1 else 0)
            same = short(stem + of_point + rest)
            units.append((Unit(name, same, repeat, needed, expected_s(made), priority, coarse, programs), made))
    return sweep, units


def _with_programs(scenario: Scenario, programs: Mapping[str, str]) -> Scenario:
    """The scenario with the programs of its device that a command line chose."""
    dut: Any = scenario.dut
    return replace(scenario, dut=replace(dut, **{key.removeprefix("dut."): path for key, path in programs.items()}))


def hosts_of(scenario: Scenario) -> tuple[str, ...]:
    """The hosts that a scenario names: what a site has to have."""
    return tuple(sorted(site.name for site in scenario.sites if not site.is_lab))


def on_bench(scenario: Scenario, bench: Bench) -> Scenario:
    """The scenario on a site, or on a machine that is reached by ssh; on any other as it is."""
    if bench.hosts:
        placed = (replace(site, remote=_placed(site.remote, bench)) for site in scenario.sites)
        return replace(scenario, sites=tuple(placed))
    if not bench.address:
        return scenario
    return replace(scenario, sites=(Site(Remote(bench.name, bench.address, bench.sudo, LEASE_S)),))


def _placed(remote: Remote | None, bench: Bench) -> Remote | None:
    return replace(remote, address=bench.hosts[remote.name], sudo=bench.sudo) if remote else None


def short(name: str) -> str:
    """A name that is part of names of files; of a long one the end is replaced by its hash."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def benches_here(campaign: Campaign) -> tuple[Bench, ...]:
    """The machines without a cluster: those of the file, or this one. Raises InputError for two of them here."""
    here = [bench.name for bench in campaign.benches if not bench.addresses]
    if len(here) > 1:
        told = f"[[machine]] {here[1]}: {here[0]} has no address either, so both are this machine"
        raise InputError(told, "give it an address for ssh, or --cluster ADDRESS")
    return campaign.benches or (Bench(HERE),)
