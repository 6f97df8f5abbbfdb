"""A scenario as plain data, for run.json, and back, for resuming a run."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from pinchpoint.dut import registry
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Dut, Scenario


def to_plain(scenario: Scenario) -> dict[str, object]:
    """The scenario as dicts, lists, texts and numbers, ready for JSON; the same each time."""
    plain: dict[str, object] = msgspec.to_builtins(scenario, order="sorted")
    return plain


def from_plain(plain: Mapping[str, object]) -> Scenario:
    """The scenario that `to_plain` was given. Raises InputError if the data has another shape."""
    dut = plain.get("dut")
    kind = dut.get("kind") if isinstance(dut, Mapping) else None
    types = registry.device(kind if isinstance(kind, str) else registry.default()).types

    def read(wanted: type, value: object) -> object:
        if wanted is Dut:
            return msgspec.convert(value, types.dut)
        raise NotImplementedError

    try:
        found = msgspec.convert(plain, Scenario, dec_hook=read)
        ports = msgspec.convert(plain.get("ports", ()), tuple[types.port, ...])  # type: ignore[name-defined]
        hosts = msgspec.convert(plain.get("hosts", ()), tuple[types.host, ...])  # type: ignore[name-defined]
        return replace(found, ports=ports, hosts=hosts)
    except msgspec.ValidationError as error:
        raise InputError(
            f"stored scenario: {error}", "read it with the Pinchpoint that wrote it: versions in its run.json"
        ) from error
