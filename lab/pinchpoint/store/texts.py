"""Texts that others took from a device: a file, or a folder of them such as an unpacked sosreport.

They are hostile input: links are not followed, devices and pipes not opened, and what is read has an end.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.errors import InputError

HEAD_BYTES: Final = 64 * 1024  # at the begin of a file, in which its marks have to stand
MOST_BYTES: Final = 32 * 1024 * 1024  # of one file
MOST_IN_ALL: Final = 2 * MOST_BYTES
MOST_FILES: Final = 50_000  # of a folder, that are looked at
HINT: Final = "give a smaller folder: in a sosreport, sos_commands"


@dataclass(frozen=True)
class Texts:
    """What was found, by the file's name within the folder."""

    texts: dict[str, str]
    truncated: dict[str, str]  # files of which only the begin was read, and how much


def read_texts(path: Path, marks: Sequence[bytes]) -> Texts:
    """The file, or the files of the folder, that have one of the marks near their begin.

    Raises InputError if there are too many, or the path cannot be read.
    """
    found, left, is_folder = Texts({}, {}), MOST_IN_ALL, path.is_dir()
    for file in _files(path) if is_folder else [path.resolve()]:
        name, room = str(file.relative_to(path)) if is_folder else path.name, min(MOST_BYTES, left)
        try:
            content = _content(file, marks, room)
        except OSError as error:
            if not is_folder:
                raise InputError(f"{path}: {error.strerror}") from error
            continue  # it cannot be read, or ended meanwhile
        if content is None:
            continue
        if len(content) == room:
            content = content.rpartition(b"\n")[0]
            found.truncated[name] = f"first {units.number(len(content) / 1e6)} MB read"
        found.texts[name] = content.decode(errors="replace")
        left -= room if name in found.truncated else len(content)
        if left <= 0:
            break
    return found


def _content(file: Path, marks: Sequence[bytes], most: int) -> bytes | None:
    """What it holds, up to a limit; None where it is no file, or without a mark. Raises OSError."""
    if not stat.S_ISREG(file.lstat().st_mode):
        return None
    with file.open("rb") as opened:
        head = opened.read(HEAD_BYTES)
        if not any(mark in head for mark in marks):
            return None
        return (head + opened.read(max(0, most - len(head))))[:most]


def _files(path: Path) -> Iterator[Path]:
    """Those below it, in the order of their names."""
    seen = 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES:
                raise InputError(f"{path}: more than {MOST_FILES:,} files", HINT)
            yield Path(folder, name)
