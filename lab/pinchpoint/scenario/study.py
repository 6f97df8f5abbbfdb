"""From a study's folder to the study and its sweeps."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from pinchpoint.keys.keypath import key_at, key_path, nearest
from pinchpoint.keys.reader import Element, Reader
from pinchpoint.keys.source import CHANGED, Change, Source, read_text, show
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Sweep
from pinchpoint.model.study import FindingRequest, Study
from pinchpoint.scenario import keys, sweep_keys
from pinchpoint.scenario.published import published
from pinchpoint.scenario.sweep import sweep_of

STUDY_FILE = "study.toml"


def load_study(
    folder: FilePath,
    quick: bool = False,
    only: Collection[str] = (),
    changes: Mapping[str, object] | None = None,
) -> tuple[Study, tuple[Sweep, ...]]:
    """Read a study's folder: the study, and a sweep for each of its scenario files, in its order.

    `quick`: the short form. `only`: the files wanted, by name without `.toml`; none: all. `changes`:
    key paths and the values that replace those of every wanted file that reads them. Raises InputError
    listing every problem of all files, those of each file one a line.
    """
    path = folder / STUDY_FILE
    source = Source(read_text(path), str(path))
    reader = Reader(source, sweep_keys.STUDY_TABLES)
    reader.refuse_unknown_keys()
    top = reader.table(sweep_keys.STUDY_TOP)
    stems: Sequence[str] = top.get("scenarios", ())
    curves, requests = reader.array(sweep_keys.PUBLISHED), reader.array(sweep_keys.FINDING)
    for word in only:
        if word not in stems:
            raise InputError(f"{path}: unknown scenario {show(word)}", f"available scenarios: {', '.join(stems)}")
    wanted = [stem for stem in stems if stem in only or not only]

    wrong: list[str] = []
    files = dict(_files(folder, stems, wrong))
    short = _quick(source, reader, files.values())
    asked = _asked(changes or {}, [files[stem] for stem in wanted if stem in files], wrong)
    sweeps: dict[str, Sweep] = {}
    for stem in wanted:
        if stem in files:
            _read(files[stem], [*(short if quick else ()), *asked], quick, sweeps, wrong)
    _check_groups(source, [*curves, *requests], stems)
    _check_factors(source, [*curves, *requests], sweeps)
    found = [one for curve in curves if (one := published(source, folder, curve))]
    if source.problems or wrong:
        raise InputError("\n".join([*([source.error().message] if source.problems else []), *wrong]))
    name = folder.resolve().name
    study = Study(
        name=name,
        title=top.get("title", name),
        about=top["about"],
        source=top["source"],
        published=tuple(curve for curve in found if curve.group in wanted),
        findings=tuple(_findings(requests, stems, wanted)),
        quick=quick,
    )
    return study, tuple(sweeps.values())


def _files(folder: FilePath, stems: Sequence[str], wrong: list[str]) -> Iterator[tuple[str, Source]]:
    for stem in stems:
        path = folder / f"{stem}.toml"
        try:
            yield stem, Source(read_text(path), str(path))
        except InputError as error:
            wrong.append(error.message)


def _read(source: Source, changes: Sequence[Change], quick: bool, sweeps: dict[str, Sweep], wrong: list[str]) -> None:
    taken = [change for change in changes if _takes(source, change)]
    try:
        sweep = sweep_of(source.changed(taken), quick)
    except InputError as error:
        wrong.append(error.message)
    else:
        sweeps[sweep.group] = sweep


def _quick(source: Source, reader: Reader, files: Collection[Source]) -> tuple[Change, ...]:
    """What the short form changes in every file that reads it."""
    reader.table(sweep_keys.QUICK)
    found: Any = source.data.get("quick")
    changes = []
    for name, value in found.items() if isinstance(found, dict) else ():
        at, path = ("quick", name), key_path(name)
        if path is None or key_at(path, keys.known()) is None:
            near = "" if source.is_full else nearest(name, keys.known())
            hint = f"; did you mean {near}?" if near else ""
            source.problem(at, f'expected a key of scenario files in quotes, like "search.duration_sum_s"{hint}')
            continue
        change = Change(path, value, origin=f"{STUDY_FILE}:{source.line(at)}")
        if files and not any(_takes(file, change) for file in files):
            source.problem(at, "expected a key that one of the scenario files reads; none does")
        changes.append(change)
    return tuple(changes)


def _asked(changes: Mapping[str, object], files: Collection[Source], wrong: list[str]) -> list[Change]:
    """What the user changes; a key that no wanted file reads is a mistake."""
    found = []
    for name, value in changes.items():
        at = key_path(name)
        if at is None or key_at(at, keys.known()) is None:
            near = nearest(name, keys.known())
            wrong.append(f"{name}: there is no such key" + (f"; did you mean {near}?" if near else ""))
            continue
        change = Change(at, value, origin=CHANGED)
        if files and not any(_takes(file, change) for file in files):
            wrong.append(f"{name}: none of the study's files reads it")
        found.append(change)
    return found


def _takes(source: Source, change: Change) -> bool:
    """Whether the file reads the key: its measure does, and the tables that it must have for it are there."""
    found = key_at(change.at, keys.of_kind(keys.kind_of(source)).every)
    if found is None or not source.holds(change.at):
        return False
    is_there = found[0].name.partition(".")[0] in source.data
    is_read = found[0].is_read_by(source.data.get("measure", "rates"), is_there)
    return is_read and (change.at[0] != "sweep" or "sweep" in source.data)


def _check_groups(source: Source, elements: Sequence[Element], stems: Sequence[str]) -> None:
    for element in elements:
        group = element.values.get("group")
        if group and stems and group not in stems:
            source.mismatch((*element.at, "group"), f"one of the study's scenarios ({', '.join(stems)})", group)


def _check_factors(source: Source, elements: Sequence[Element], sweeps: Mapping[str, Sweep]) -> None:
    """The factors that curves and findings name are those of their group's sweep."""
    for element in elements:
        values = element.values
        sweep = sweeps.get(values.get("group", ""))
        if not sweep:
            continue
        names = [factor.name for factor in sweep.factors]
        known = f"a factor of {sweep.group} ({', '.join(names) or 'there is none'})"
        if values.get("factor") and values["factor"] not in names:
            source.mismatch((*element.at, "factor"), known, values["factor"])
        for name in values.get("levels", ()):
            if name not in names:
                source.mismatch((*element.at, "levels"), known, name)
            elif name == values.get("factor"):
                source.problem((*element.at, "levels"), f"expected levels of other factors, found {show(name)}")


def _findings(requests: Sequence[Element], stems: Sequence[str], wanted: Sequence[str]) -> Iterator[FindingRequest]:
    """The findings that rest on wanted files alone."""
    for request in requests:
        finding = FindingRequest(**request.values)
        groups = {finding.group, *(word.strip() for word in finding.against.split(","))} & set(stems)
        if groups <= set(wanted):
            yield finding
