"""From a campaign file to its units: scenarios x variants x builds, on any machine or on every one."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from pinchpoint.campaign import keys
from pinchpoint.keys.reader import Element, Reader, Values
from pinchpoint.keys.source import Source, read_text, show
from pinchpoint.model.campaign import HERE, Bench, Campaign, Control, Requirement, Unit
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Relative, Remote, Scenario, Sweep
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


@dataclass
class _File:
    """The campaign file as far as it is read."""

    source: Source
    top: Values
    arrays: Mapping[str, list[Element]]
    control: Values
    folder: Path
    variants: dict[str, dict[str, object]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)  # in scenario files

    @property
    def stems(self) -> list[str]:
        return [Path(path).stem for path in self.top.get("scenarios", ())]

    @property
    def builds(self) -> tuple[str, ...]:
        return self.top.get("builds") or ()


def load(path: Path, program_at: ProgramAt, quick: bool = False, ceiling: bool = True) -> Loaded:
    """Read a campaign file and the scenario files that it names.

    Raises InputError listing every problem: of the campaign file, then of the scenario files.
    """
    file = _file(path)
    benches = tuple(_bench(element.values) for element in file.arrays["machine"] if "name" in element.values)
    _check(file, benches)
    if file.source.problems:
        raise file.source.error()
    made = list(_made(file, benches, program_at, quick))
    control, sources = _control(file, benches, quick)
    if file.wrong or file.source.problems:
        own = [file.source.error().message] if file.source.problems else []
        raise InputError("\n".join([*own, *dict.fromkeys(file.wrong)]))
    units = [unit for named in made for unit in named[1]]
    if not units:
        raise InputError(f"{path}: expected 1 to {MOST_UNITS:,} measurements, found 0", "see [[exclude]] and [[only]]")
    _refuse_doubles(path, [unit.name for unit, _ in units])
    top, name = file.top, path.stem
    campaign = Campaign(
        name=name,
        title=top.get("title", name),
        units=tuple(unit for unit, _ in units),
        benches=benches,
        sweeps=tuple(order.info(sweep) for sweep, _ in made),
        every_machine=top["measured_on"] == "every",
        retries=top["retries"],
        budget_s=top["budget_s"],
        budget_cost=top["budget_cost"],
        control=control,
        ceiling=ceiling,
    )
    texts = {str(path): path.read_text(encoding="utf-8"), **sources}
    for _, scenario in units:
        if scenario.path not in texts:
            texts[scenario.path] = Path(scenario.path).read_text(encoding="utf-8")
    return Loaded(campaign, tuple(scenario for _, scenario in units), texts, file.builds)


def _refuse_doubles(path: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen or name == CONTROL:
            raise InputError(f"{path}: two measurements would be called {name}", "rename a file, a variant or a build")
        seen.add(name)


def _file(path: Path) -> _File:
    if not path.is_file():
        raise InputError(f"{path}: expected a campaign file", "docs/campaigns.md has one")
    source = Source(read_text(path), str(path))
    if "dut" in source.data:
        lists = f'a campaign file lists scenarios: scenarios = ["{path.name}"]; docs/campaigns.md has one'
        raise InputError(f"{path}: a scenario, not a campaign", f"pinchpoint run {path}; {lists}")
    reader = Reader(source, keys.TABLES)
    reader.refuse_unknown_keys()
    arrays = {table.name: reader.array(table) for table in keys.ARRAYS}
    file = _File(source, reader.table(keys.TOP), arrays, reader.table(keys.CONTROL), path.resolve().parent)
    for element in arrays["variant"]:
        _variant(file, element)
    return file


def _variant(file: _File, element: Element) -> None:
    name, table = element.values.get("name", ""), _at(file.source, element)
    changes = {key: value for key, value in table.items() if key != "name"}
    for key, value in changes.items():
        if isinstance(value, dict) and "." not in key:
            inner = next(iter(value), "key")
            file.source.problem((*element.at, key), f'expected a key in quotes, such as "{key}.{inner}"')
        if key in by_hand():
            told = "not allowed in a file; name a build in `builds`, and say where it is by --build NAME=PATH"
            file.source.problem((*element.at, key), told)
    if name in file.variants:
        file.source.problem((*element.at, "name"), f"expected a unique name, found {show(name)} again")
    if not changes:
        file.source.problem(element.at, 'expected a key that it sets, such as "dut.smc" = true')
    file.variants[name] = changes


def _at(source: Source, element: Element) -> Mapping[str, Any]:
    table: Any = source.data
    for part in element.at:
        table = table[part]
    return dict(table)


def _bench(values: Values) -> Bench:
    return Bench(
        name=values["name"],
        address=values.get("address") or "",
        hosts=values.get("hosts") or {},
        sudo=values.get("sudo", True),
        labels=values.get("labels") or (),
        cpus=values.get("cpus"),
        cost_per_hour=values.get("cost_per_hour", 0.0),
    )


def _check(file: _File, benches: Sequence[Bench]) -> None:
    """What no table can say by itself."""
    source = file.source
    for place, stem in enumerate(file.stems):
        if stem in file.stems[:place]:
            source.problem(("scenarios", place), f"expected files of different names, found {show(stem)} again")
    _check_machines(source, file.arrays["machine"])
    if file.top.get("measured_on") == "every" and not benches:
        source.problem(("measured_on",), 'expected [[machine]] tables where it is "every"')
    known = {"scenario": file.stems, "variant": list(file.variants), "build": list(file.builds)}
    if benches:
        known["machine"] = [bench.name for bench in benches]
    for table in ("exclude", "only", "need", "priority"):
        for element in file.arrays[table]:
            _check_rule(source, element, known)


def _check_machines(source: Source, machines: Sequence[Element]) -> None:
    seen: set[str] = set()
    taken: dict[str, str] = {}
    for element in machines:
        name, address = element.values.get("name", ""), element.values.get("address")
        hosts = element.values.get("hosts") or {}
        if name in seen:
            source.problem((*element.at, "name"), f"expected a unique name, found {show(name)} again")
        seen.add(name)
        if address and hosts:
            source.problem((*element.at, "address"), "expected no address where there are hosts, each with its own")
        for place in tuple(hosts.values()) or ((address,) if address else ()):
            if taken.setdefault(place, name) != name:
                told = f"expected addresses of its own, found {show(place)}, which is {taken[place]}'s"
                source.problem((*element.at, "hosts" if hosts else "address"), f"{told}: machines measure at once")


def _check_rule(source: Source, element: Element, known: Mapping[str, Sequence[str]]) -> None:
    named = [key for key in ("scenario", "variant", "build", "machine") if element.values.get(key)]
    if not named and "priority" not in element.values and not element.values.get("labels"):
        source.problem(element.at, "expected at least one of scenario, variant, build, machine")
    for key in named:
        for place, name in enumerate(element.values[key]):
            if key in known and name not in known[key]:
                has = ", ".join(known[key][:10]) or "there is none"
                source.mismatch((*element.at, key, place), f"a {key} of this campaign ({has})", name)


def _made(
    file: _File, benches: Sequence[Bench], program_at: ProgramAt, quick: bool
) -> Iterator[tuple[Sweep, list[tuple[Unit, Scenario]]]]:
    """Each group: one file with one variant and one build, on any machine or on one of every machine."""
    count, named = 0, [file.folder / path for path in file.top["scenarios"]]
    machines = [bench.name for bench in benches] if file.top["measured_on"] == "every" else [_NONE]
    for path, variant, build in product(named, list(file.variants) or [_NONE], file.builds or (_NONE,)):
        combination = _Combination(path, variant, build)
        wanted = [requirement for requirement in (_requirement(file, combination),) if requirement is not None]
        if not wanted:
            continue
        sweep = _sweep(file, combination, benches, quick)
        programs = _programs(file, combination, sweep, program_at) if sweep else None
        if sweep is None or programs is None:
            continue
        for machine in _placing(machines, benches, sweep):
            only = wanted[0] if machine == _NONE else replace(wanted[0], only_on=(machine,))
            allowed = not wanted[0].only_on or machine in wanted[0].only_on
            if machine != _NONE and (machine in wanted[0].not_on or not allowed):
                continue
            count += len(sweep.scenarios) * sweep.repeats
            if count > MOST_UNITS:  # before they are made: a short file can ask for a thousand million
                raise InputError(
                    f"{file.source.path}: expected 1 to {MOST_UNITS:,} measurements, found more",
                    "fewer repeats, levels, variants or builds",
                )
            suffix = combination.suffix + (f"-on-{machine}" if machine else "")
            yield _group(sweep, suffix, combination.suffix, only, programs, _priority(file, combination))


def _placing(machines: Sequence[str], benches: Sequence[Bench], sweep: Sweep) -> Sequence[str]:
    """Of these machines those that have the hosts of the sweep; if none has, any: no machine can measure it."""
    placed = [Requirement(hosts=hosts_of(scenario)) for scenario in sweep.scenarios]
    able = [bench.name for bench in benches if any(sweep.is_placed_on(bench) for sweep in placed)]
    return [name for name in machines if name == _NONE or name in able] or [_NONE]


def _sweep(file: _File, combination: _Combination, benches: Sequence[Bench], quick: bool) -> Sweep | None:
    """The file's sweep; what is wrong with it, also as a bench on the first host by ssh, is noted."""
    path, changes = combination.path, file.variants.get(combination.variant, {})
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file; {file.source.path} names it")
        sweep = load_sweep(path, quick, changes)
        if any(scenario.point.relative is not Relative.NO for scenario in sweep.scenarios):
            raise InputError(
                f"{path}: sweep.relative: points of a campaign do not stand beside each other", 'write "no"'
            )
        if any(hosts_of(scenario) and None in scenario.remotes for scenario in sweep.scenarios):
            raise InputError(
                f"{path}: a part of its bench stands on the lab's own machine, which all sites would share",
                "name a host for the device by runs_on, for the engine by engine.runs_on, for each [[host]] by its "
                "runs_on; see [[machine]] hosts",
            )
        is_anywhere = any(not hosts_of(scenario) for scenario in sweep.scenarios)
        if is_anywhere and (far := next((bench for bench in benches if bench.address), None)):
            there = {"runs_on": far.name, f"host.{far.name}.address": far.address}
            load_sweep(path, quick, {**changes, **there})
    except InputError as error:
        file.wrong.append(str(error))
        return None
    repeats = file.top.get("repeats")
    return sweep if repeats is None else replace(sweep, repeats=repeats)


def _programs(file: _File, combination: _Combination, sweep: Sweep, program_at: ProgramAt) -> Mapping[str, str] | None:
    """The program of the build, by the key that chooses it."""
    if not combination.build:
        return {}
    key = program_key(sweep.scenarios[0])
    if key is None:
        kind = sweep.scenarios[0].dut.kind
        said = f"{combination.path}: the program of a device of kind {kind} cannot be chosen, but there are builds"
        file.wrong.append(f"{said}\n  hint: leave it out by [[exclude]] for each build, or make a campaign of its own")
        return None
    try:
        return {key[0]: program_at(combination.build, key[1])}
    except InputError as error:
        file.wrong.append(str(error))
        return None


def _matches(values: Values, combination: _Combination) -> bool:
    own = {"scenario": combination.path.stem, "variant": combination.variant, "build": combination.build}
    return all(not values.get(key) or name in values[key] for key, name in own.items())


def _requirement(file: _File, combination: _Combination) -> Requirement | None:
    """Which machines may measure it, by the rules; None: it is not measured."""
    excluding = [array.values for array in file.arrays["exclude"] if _matches(array.values, combination)]
    if any(not values.get("machine") for values in excluding):
        return None
    only = [array.values for array in file.arrays["only"]]
    allowing = [values for values in only if _matches(values, combination)]
    if only and not allowing:
        return None
    needs = [array.values for array in file.arrays["need"] if _matches(array.values, combination)]
    anywhere = not only or any(not values.get("machine") for values in allowing)
    return Requirement(
        labels=tuple(sorted({label for values in needs for label in values.get("labels") or ()})),
        cpus=max((values.get("cpus") or 0 for values in needs), default=0),
        only_on=() if anywhere else tuple(sorted({name for rule in allowing for name in rule["machine"]})),
        not_on=tuple(sorted({name for values in excluding for name in values["machine"]})),
    )


def _priority(file: _File, combination: _Combination) -> int:
    priorities = [array.values["priority"] for array in file.arrays["priority"] if _matches(array.values, combination)]
    return max(priorities, default=0)


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
            made = with_programs(replace(scenario, name=name, point=point), programs)
            cpus = max((cpu + 1 for cpu in (*made.engine.cpus, *made.dut.cpus)), default=0)
            needed = replace(requirement, cpus=max(requirement.cpus, cpus), hosts=hosts_of(made))
            coarse = (repeat - 1) * 1000 + (order.coarseness(sweep.factors, point.levels) if repeat == 1 else 0)
            same = short(stem + of_point + rest)
            units.append((Unit(name, same, repeat, needed, expected_s(made), priority, coarse, programs), made))
    return sweep, units


def with_programs(scenario: Scenario, programs: Mapping[str, str]) -> Scenario:
    """The scenario with the programs of its device that a command line chose."""
    for key, value in programs.items():
        scenario = replace(scenario, dut=_set(scenario.dut, key.removeprefix("dut."), value))
    return scenario


def _set(dut: Any, name: str, value: str) -> Any:
    return replace(dut, **{name: value})


def hosts_of(scenario: Scenario) -> tuple[str, ...]:
    """The hosts that a scenario names: what a site has to have."""
    return tuple(sorted(remote.name for remote in scenario.remotes if remote))


def on_bench(scenario: Scenario, bench: Bench) -> Scenario:
    """The scenario on a site, or on a machine that is reached by ssh; on any other as it is."""
    if bench.hosts:
        engines = tuple(replace(site, remote=_placed(site.remote, bench)) for site in scenario.engines)
        return replace(scenario, remote=_placed(scenario.remote, bench), engines=engines)
    if not bench.address:
        return scenario
    return replace(scenario, remote=Remote(bench.name, bench.address, bench.sudo, LEASE_S))


def _placed(remote: Remote | None, bench: Bench) -> Remote | None:
    return replace(remote, address=bench.hosts[remote.name], sudo=bench.sudo) if remote else None


def short(name: str) -> str:
    """A name that is part of names of files; of a long one the end is replaced by its hash."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _control(file: _File, benches: Sequence[Bench], quick: bool) -> tuple[Control | None, dict[str, str]]:
    named = file.control.get("scenario")
    if not named:
        return None, {}
    sweep = _sweep(file, _Combination(file.folder / named, _NONE, _NONE), benches, quick)
    if sweep is None:
        return None, {}
    if len(sweep.scenarios) > 1:
        file.source.problem(("control", "scenario"), f"expected one scenario, found {len(sweep.scenarios)} points")
    scenario = replace(sweep.scenarios[0], name=CONTROL, point=replace(sweep.scenarios[0].point, group=CONTROL))
    cpus = max((cpu + 1 for cpu in (*scenario.engine.cpus, *scenario.dut.cpus)), default=0)
    unit = Unit(CONTROL, CONTROL, 1, Requirement(cpus=cpus, hosts=hosts_of(scenario)), expected_s(scenario))
    control = Control(unit, to_plain(scenario), file.control["every_s"], file.control["tolerance"])
    path = file.folder / named
    return control, {str(path): path.read_text(encoding="utf-8")}


def benches_here(campaign: Campaign) -> tuple[Bench, ...]:
    """The machines without a cluster: those of the file, or this one. Raises InputError for two of them here."""
    here = [bench.name for bench in campaign.benches if not bench.addresses]
    if len(here) > 1:
        raise InputError(
            f"[[machine]] {here[1]}: {here[0]} has no address either, so both are this machine",
            "give it an address for ssh, or --cluster ADDRESS",
        )
    return campaign.benches or (Bench(HERE),)
