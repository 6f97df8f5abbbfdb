"""Recordings of a watched device: a file of JSON lines, the head first, then a reading each.

Each line is written at once, so that a recording that ends early is whole up to its last line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pinchpoint.model.errors import InputError
from pinchpoint.model.watch import Reading, RecordHead
from pinchpoint.store.codec import Codec
from pinchpoint.store.folder import replace_file, storing

LATEST_S = 1e11  # the year 5138
LONGEST_S = 86_400
_ANOTHER = "choose another file"

_HEAD, _READING = Codec.of(RecordHead), Codec.of(Reading)


class Recorder:
    """Writes a recording. Raises StoreError; an existing file is never overwritten (InputError)."""

    def __init__(self, path: Path, head: RecordHead) -> None:
        self._path = path
        with storing(path, _ANOTHER, "give --record another name"):
            self._file: BinaryIO = path.open("xb", buffering=0)
        self._write(_HEAD.encode(head, str(path)))

    def keep(self, reading: Reading) -> None:
        self._write(_READING.encode(reading, str(self._path)))

    def close(self) -> None:
        self._file.close()

    def _write(self, line: bytes) -> None:
        with storing(self._path, _ANOTHER):
            self._file.write(line + b"\n")


def replace_text(path: Path, text: str) -> None:
    """Replace a file whole: a reader sees the old or the new one, never a part. Raises StoreError."""
    with storing(path, _ANOTHER):
        replace_file(path, text.encode())


def is_recording(path: Path) -> bool:
    """Whether a file begins as one does. Raises InputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(1024).lstrip().startswith(b"{")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def read(path: Path) -> tuple[RecordHead, Iterator[Reading]]:
    """The head and the readings of a recording. What stands after the last line break was cut off and is left out.

    Raises InputError naming the line that is no reading.
    """
    try:
        first, *lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if not lines:
        raise InputError(f"{path}:1: expected the head of a recording", "make one: pinchpoint watch --record FILE")
    head = _HEAD.decode(first, f"{path}:1")
    return head, (_reading(line, f"{path}:{number}") for number, line in enumerate(lines[:-1], 2))


def _reading(line: bytes, place: str) -> Reading:
    reading = _READING.decode(line, place)
    if not 0 <= reading.at_s <= LATEST_S:
        raise InputError(f"{place}: at_s: expected seconds since 1970, got {reading.at_s:g}")
    if not 0 < reading.elapsed_s <= LONGEST_S:
        expected = f"expected more than 0 and at most {LONGEST_S:,} s"
        raise InputError(f"{place}: elapsed_s: {expected}, got {reading.elapsed_s:g}")
    return reading
