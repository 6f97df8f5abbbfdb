"""A scenario as plain data, for run.json, and back, for resuming a run."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from pinchpoint.dut import registry
from pinchpoint.measure import registry as measures
from pinchpoint.model import former
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Dut, Measure, Scenario

READ_BY = "read it with the Pinchpoint that wrote it: versions in its run.json"


def to_plain(scenario: Scenario) -> dict[str, object]:
    """The scenario as dicts, lists, texts and numbers, ready for JSON; the same each time.

    `measure` is a word, and what the scenario says of it stands under the name of its table, as in the file.
    """
    plain: dict[str, object] = msgspec.to_builtins(scenario, order="sorted")
    plain[_table(scenario.dut.kind, scenario.measure.kind)] = plain["measure"]
    return dict(sorted({**plain, "measure": scenario.measure.kind}.items()))


def from_plain(plain: Mapping[str, object]) -> Scenario:
    """The scenario that `to_plain` was given. Raises InputError if the data has another shape."""
    dut, asked = plain.get("dut"), plain.get("measure")
    kind = dut.get("kind") if isinstance(dut, Mapping) else None
    kind = kind if isinstance(kind, str) else registry.default()
    types = registry.device(kind).types
    measure = measures.find(str(asked))
    if measure is None:
        raise InputError(f"stored scenario: no measure {asked!r}", READ_BY)
    wanted_of = {Dut: types.dut, Measure: measure.made}

    def read(wanted: type, value: object) -> object:
        if wanted in wanted_of:
            return msgspec.convert(value, wanted_of[wanted])
        raise NotImplementedError

    try:
        whole = {**former.with_sites(plain), "measure": plain.get(_table(kind, measure.name))}
        scenario = msgspec.convert(whole, Scenario, dec_hook=read)
        ports = msgspec.convert(plain.get("ports", ()), tuple[types.port, ...])  # type: ignore[name-defined]
        hosts = msgspec.convert(plain.get("hosts", ()), tuple[types.host, ...])  # type: ignore[name-defined]
        return replace(scenario, ports=ports, hosts=hosts)
    except msgspec.ValidationError as error:
        raise InputError(f"stored scenario: {error}", READ_BY) from error


def _table(kind: str, measure: str) -> str:
    return measures.measure(measure).table(registry.device(kind).keys).name
