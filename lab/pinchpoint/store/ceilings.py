"""What the generator was found to reach on benches of this machine, kept for a day between runs.

`$XDG_CACHE_HOME/pinchpoint/ceilings.json`, by default below ~/.cache: a cache, which may be removed at any
time. Whatever stands there is hostile until parsed. Format: docs/results.md, "Ceilings".
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.result import Ceiling
from pinchpoint.store.codec import SCHEMA, Codec
from pinchpoint.store.folder import replace_file

AGE = timedelta(days=1)  # after which a ceiling is measured anew
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Ceilings:
    """The measured ceilings of the generator, as the file keeps them."""

    schema: int
    ceilings: tuple[Ceiling, ...]


_CODEC = Codec.of(Ceilings)


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where ceilings are kept (XDG Base Directory Specification: a relative path is ignored)."""
    cache = environment.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path(environment.get("HOME", "/root"), ".cache")
    return base / "pinchpoint" / "ceilings.json"


def read(path: Path, now: datetime) -> tuple[Ceiling, ...]:
    """Those not older than a day; none without a file. Raises InputError naming the file and what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise InputError(f"{path}: larger than {MOST_BYTES:,} bytes", "remove it; it is only a cache")
    ceilings = _CODEC.decode(data, str(path)).ceilings
    for number, ceiling in enumerate(ceilings):
        if ceiling.fps <= 0 or (ceiling.distance_ns is not None and ceiling.distance_ns <= 0):
            raise InputError(f"{path}: at $.ceilings[{number}]: expected rates and distances above 0")
    return tuple(ceiling for ceiling in ceilings if timedelta(0) <= now - _time(ceiling, path) < AGE)


def write(path: Path, ceilings: Sequence[Ceiling]) -> None:
    """Replace the file whole. Raises StoreError, and leaves nothing behind then."""
    data = _CODEC.encode(Ceilings(SCHEMA, tuple(ceilings)), str(path)) + b"\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "--no-ceiling, or XDG_CACHE_HOME elsewhere") from error


def _time(ceiling: Ceiling, path: Path) -> datetime:
    try:
        time = datetime.fromisoformat(ceiling.measured)
    except ValueError:
        raise InputError(f"{path}: expected a time, found {ceiling.measured!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
