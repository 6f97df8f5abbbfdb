"""The runs' folder, and the only way from a request to a file of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinchpoint.model.errors import InputError
from pinchpoint.store.folder import RunFolder

FILES: Final = {
    "run.json": "application/json",
    "result.json": "application/json",
    "comparison.json": "application/json",
    "trials.jsonl": "application/jsonl",
    "measurements.jsonl": "application/jsonl",
    "slices.jsonl": "application/jsonl",
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
            there = [one for one in FILES if _is_own(folder.path / one)]
            raise InputError(f"{name}: no such file of {run}", f"there are {', '.join(there)}")
        return folder.path / name


def _is_own(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
