"""Tags of a run: words that people give it, in a file of their own beside what was measured."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from pinchpoint.model.errors import InputError
from pinchpoint.store.folder import RunFolder

FILE: Final = "tags.json"
MOST: Final = 32  # of one run
_TAG = re.compile(r"[\w][\w .:/+-]{0,39}")


def read_tags(folder: RunFolder) -> tuple[str, ...]:
    """The run's tags, sorted; none without the file. Raises InputError if it holds anything else."""
    path = folder.path / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[str])
    except FileNotFoundError:
        return ()
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path}: {error}", 'write a list of words: ["nightly"], or remove the file') from error
    return _checked(found)


def tags_or_fault(folder: RunFolder) -> tuple[tuple[str, ...], str]:
    """The run's tags, or what is wrong with their file: its results are whole without it."""
    try:
        return read_tags(folder), ""
    except InputError as error:
        return (), "; ".join(filter(None, (f"{FILE} cannot be read: {error.message}", error.hint)))


def write_tags(folder: RunFolder, tags: Iterable[str]) -> None:
    """Replace tags.json whole. Raises InputError for what is no tag, StoreError if it cannot be written."""
    folder.replace(FILE, msgspec.json.encode(list(_checked(tags))) + b"\n")


def _checked(tags: Iterable[str]) -> tuple[str, ...]:
    found = sorted(set(tags))
    for tag in found:
        if not _TAG.fullmatch(tag):
            raise InputError(
                f"{tag!r} cannot be a tag",
                "use up to 40 letters, digits, spaces and . : / + - _, starting with a letter or digit",
            )
    if len(found) > MOST:
        raise InputError(f"expected at most {MOST} tags of a run, found {len(found)}", "remove some")
    return tuple(found)
