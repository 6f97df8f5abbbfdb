"""A scenario as plain data, for run.json, and back, for resuming a run."""

from collections.abc import Mapping

import msgspec

from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Scenario


def to_plain(scenario: Scenario) -> dict[str, object]:
    """The scenario as dicts, lists, texts and numbers, ready for JSON; the same each time."""
    plain: dict[str, object] = msgspec.to_builtins(scenario, order="sorted")
    return plain


def from_plain(plain: Mapping[str, object]) -> Scenario:
    """The scenario that `to_plain` was given. Raises InputError if the data has another shape."""
    try:
        return msgspec.convert(plain, Scenario)
    except msgspec.ValidationError as error:
        raise InputError(
            f"stored scenario: {error}", "read it with the Pinchpoint that wrote it: versions in its run.json"
        ) from error
