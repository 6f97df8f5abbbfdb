"""A profile that is a program, run without privileges."""

from collections.abc import Mapping

from pinchpoint.host.confined import LONGEST_S, run_confined
from pinchpoint.model.errors import InputError
from pinchpoint.profiles.said import Stream, read


def streams(path: str, direction: int, tunables: Mapping[str, str], longest_s: float = LONGEST_S) -> tuple[Stream, ...]:
    """The streams that its get_streams returns for a direction, 0 or 1. Raises InputError, RequirementError."""
    words = [f"{name}={value}" for name, value in tunables.items()]
    printed = run_confined("pinchpoint.profiles.inside", (path, str(direction), *words), path, longest_s)
    try:
        said = read(printed)
    except ValueError as error:
        raise InputError(f"{path}: what it printed is no account of streams: {plain(str(error))}") from error
    if said.error is not None:
        raise InputError(f"{path}: line {said.error.line}: {plain(said.error.message)}")
    return said.streams


def plain(text: str) -> str:
    """On one line, without control characters, which a hostile profile may hold."""
    return "".join(one if one.isprintable() else " " for one in text)[:1000]
