"""Whether a run may be resumed here: figures of two machines, or of two switches, must not become one curve."""

from collections.abc import Mapping

from pinchpoint.host import facts
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import RunInfo

# Tools that neither send, forward nor search change no figure; nor does a MiB of memory.
_VERSIONS = ("pinchpoint", "MLRsearch")
_NAMED = ("engine", "switch ", "host ")  # facts: the engine's version, each switch's program, each other host
_NOT_COMPARED = ("memory",)
HINT = "start a new run: what is measured here cannot be put together with what was"


class DifferentError(InputError):
    """What a run was begun on is not what is here: no fault of one unit."""


def require_same(info: RunInfo, lab: Host) -> None:
    """Compare the lab's machine with the one that began the run. Raises DifferentError naming all that differs."""
    host, versions = facts.host_facts(lab), facts.versions()
    pairs = [(key, info.host.get(key), host.get(key)) for key in {**info.host, **host} if key not in _NOT_COMPARED]
    pairs += [(key, info.versions.get(key), versions.get(key)) for key in _VERSIONS]
    lines = [f"{key}: {before or 'none'} then, {now or 'none'} now" for key, before, now in pairs if before != now]
    if lines:
        raise DifferentError(f"{info.run_id} was begun on something else: {'; '.join(lines)}", HINT)


def require_same_programs(run_id: str, begun_with: Mapping[str, str], versions: Mapping[str, str]) -> None:
    """Compare what engine and switch say of themselves with what the run's record has. Raises DifferentError."""
    for key, now in versions.items():
        before = begun_with.get(key, now)
        if before != now and key.startswith(_NAMED):
            raise DifferentError(f"{run_id} was begun with another program: {key}: {before} then, {now} now", HINT)
