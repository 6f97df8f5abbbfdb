"""The runs' folder, and the only way from a request to a file of it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinchpoint.host.machines import Machines
from pinchpoint.keys.source import read_text
from pinchpoint.model import units
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Sweep
from pinchpoint.model.study import Study
from pinchpoint.run import budget, order
from pinchpoint.scenario import load_study, load_sweep
from pinchpoint.scenario.study import STUDY_FILE
from pinchpoint.store.folder import RunFolder

FILES: Final = {
    **dict.fromkeys(("run.json", "result.json", "comparison.json"), "application/json"),
    **dict.fromkeys(("trials.jsonl", "measurements.jsonl", "slices.jsonl"), "application/jsonl"),
    "report.md": "text/plain; charset=utf-8",
    "tags.json": "application/json",
}
"""What may be fetched of a run as it stands, with its media type. No HTML: a run's page could run scripts here."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,255}")


@dataclass(frozen=True)
class Shelf:
    """A folder of run folders."""

    root: Path

    def names(self) -> Iterator[str]:
        """The run folders there are; links are none, wherever they lead."""
        for path in self.root.iterdir():
            if _NAME.fullmatch(path.name) and _is_own(path / "run.json") and not path.is_symlink():
                yield path.name

    def run(self, name: str) -> RunFolder:
        """A run folder of which every file lies inside. Raises InputError."""
        path = self.root / name
        if not _NAME.fullmatch(name) or path.is_symlink() or not (path / "run.json").is_file():
            raise InputError(f"{name}: no such run", f"the runs are the folders of {self.root} with a run.json")
        for file in (*FILES, "running.lock"):
            if (path / file).is_symlink():
                raise InputError(f"{name}: {file} is a link", "a link may lead outside; put the file itself there")
        return RunFolder.open(path)

    def file(self, run: str, name: str) -> Path:
        """One of `FILES` of a run. Raises InputError."""
        folder = self.run(run)
        if name not in FILES or not _is_own(folder.path / name):
            there = [file for file in FILES if _is_own(folder.path / file)]
            raise InputError(f"{name}: no such file of {run}", f"there are {', '.join(there)}")
        return folder.path / name


def _is_own(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@dataclass(frozen=True)
class Shown:
    """A study as its page shows it."""

    name: str
    title: str
    about: str
    source: str  # of its published figures; empty without any
    groups: tuple[str, ...]
    length: str  # how much there is to measure, and about how long that takes
    problems: tuple[str, ...]  # what `pinchpoint check` would say


@dataclass(frozen=True)
class Studies:
    """Study folders by name; `folders` is asked anew each time."""

    folders: Callable[[], Mapping[str, Path]]
    machines: Machines  # on which they would run

    def shown(self) -> tuple[Shown, ...]:
        """All of them, in their order."""
        return tuple(self.checked(name, (), quick=False) for name in self.folders())

    def checked(self, name: str, only: Sequence[str], quick: bool) -> Shown:
        """One of them, or some of its groups. Raises InputError where there is no such study."""
        folder = self._folder(name)
        groups = tuple(path.stem for path in sorted(folder.glob("*.toml")) if path.name != STUDY_FILE)
        try:
            study, sweeps = _load(folder, only, quick)
        except InputError as error:
            return Shown(name, name, "", "", groups, "", tuple(str(error).splitlines()))
        made = order.units(sweeps, budgeted=False)
        points = [scenario for sweep in sweeps for scenario in sweep.scenarios]
        counted = units.counted(len(points), "point")
        counted += f", {units.counted(len(made), 'measurement')}" if len(made) > len(sweeps) else ""
        length = f"{counted}, {budget.about(budget.whole_s(made, self.machines))}"
        length += budget.impossible(points, self.machines)
        title, about, source = (study.title, study.about, study.source) if study else (name, "", "")
        return Shown(name, title, about, source, groups, length, ())

    def text(self, name: str, group: str) -> str:
        """One of its scenario files. Raises InputError."""
        folder = self._folder(name)
        if group not in {path.stem for path in folder.glob("*.toml") if path.name != STUDY_FILE}:
            raise InputError(f"{name}: no group {group}", "the groups stand on the page of studies")
        return read_text(folder / f"{group}.toml")

    def _folder(self, name: str) -> Path:
        folders = self.folders()
        if name not in folders:
            raise InputError(f"{name}: no such study", f"shipped: {', '.join(folders)}")
        return folders[name]


def _load(folder: Path, only: Sequence[str], quick: bool) -> tuple[Study | None, tuple[Sweep, ...]]:
    if (folder / STUDY_FILE).is_file():
        return load_study(folder, quick, only)
    files = [path for path in sorted(folder.glob("*.toml")) if path.stem in only or not only]
    return None, tuple(load_sweep(path, quick) for path in files)
