"""A run folder read whole, for tables."""

from pinchpoint.export import Stored
from pinchpoint.model.result import RunResult
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder


def stored(folder: RunFolder) -> Stored:
    """All that the folder holds, of a run that has not finished as far as it got. Raises InputError."""
    return Stored(
        folder.read_info(),
        folder.read_result() or RunResult(SCHEMA, folder.run_id, False, ()),
        folder.read_trials(),
        folder.read_measurements(),
        folder.read_stretches(),
    )
