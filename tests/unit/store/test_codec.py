"""What is written can be read again, and nothing else can."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample import sample_run

from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.result import Band, RunInfo, RunResult
from pinchpoint.model.trial import Trial
from pinchpoint.store.codec import SCHEMA, Codec
from pinchpoint.store.folder import INFO, RESULT, TRIAL

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _FINITE | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


def _any(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that a stored dataclass uses; dataclasses field by field."""
    simple = {float: _FINITE, str: _TEXT, object: _PLAIN}
    if kind in simple:
        return simple[kind]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        inner = {item.name: _any(hints[item.name]) for item in fields(kind) if item.name != "schema"}
        version = {"schema": st.just(SCHEMA)} if "schema" in hints else {}
        return st.builds(cast(Any, kind), **inner, **version)
    arguments = [_any(argument) for argument in get_args(kind) if argument is not Ellipsis]
    if get_origin(kind) is Mapping:
        return st.dictionaries(*arguments, max_size=3)
    if get_origin(kind) is tuple:
        many = Ellipsis in get_args(kind)
        return st.lists(arguments[0], max_size=2).map(tuple) if many else st.tuples(*arguments)
    return st.one_of(arguments) if get_origin(kind) is UnionType else st.from_type(kind)


def _round_trip(codec: Codec[Any], value: Any) -> Any:
    return codec.decode(codec.encode(value, "here"), "here")


_slow_is_fine = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@_slow_is_fine
@given(_any(Trial))
def test_every_trial_survives_writing_and_reading(trial: Trial) -> None:
    assert _round_trip(TRIAL, trial) == trial


@_slow_is_fine
@given(_any(RunResult))
def test_every_result_survives_writing_and_reading(result: RunResult) -> None:
    assert _round_trip(RESULT, result) == result


@_slow_is_fine
@given(_any(RunInfo))
def test_every_run_info_survives_writing_and_reading(info: RunInfo) -> None:
    assert _round_trip(INFO, info) == info


def test_reading_gives_the_types_that_were_written() -> None:
    trial = sample_run()[2][3]
    again = _round_trip(TRIAL, trial)
    assert type(again.validity) is type(trial.validity)
    assert type(again.streams) is tuple and type(again.streams[0].latency.curve[0]) is tuple
    assert list(again.witness.steal_s) == [0, 1]


def _changed(change: Mapping[str, Any]) -> bytes:
    plain = json.loads(TRIAL.encode(sample_run()[2][3], "here"))
    for place, value in change.items():
        inner = plain
        *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
        for part in path:
            inner = inner[part]
        inner[last] = value
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, r"here: .*unknown field `colour`"),
        ({"ledger.hops.1.colour": 1}, r"at \$\.ledger\.hops\[1\]: .*unknown field `colour`"),
        ({"offered": "many"}, r"at \$\.offered: Expected `int`, got `str`"),
        ({"offered": 1.5}, r"at \$\.offered: Expected `int`, got `float`"),
        ({"streams.0.sent": None}, r"at \$\.streams\[0\]\.sent: Expected `int`, got `null`"),
        ({"validity": "fine"}, r"at \$\.validity: Invalid enum value 'fine'"),
        ({"observed": {"a": "b"}}, r"at \$\.observed"),
        ({"ledger": []}, r"at \$\.ledger: Expected `object`, got `array`"),
        ({"schema": "1"}, r"at \$\.schema: Expected `int`, got `str`"),
    ],
)
def test_unknown_keys_and_wrong_types_are_refused_with_their_place(change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TRIAL.decode(_changed(change), "here")


def test_a_missing_key_is_refused_by_name() -> None:
    plain = json.loads(RESULT.encode(sample_run()[1], "here"))
    del plain["finished"]
    with pytest.raises(InputError, match="missing required field `finished`"):
        RESULT.decode(json.dumps(plain).encode(), "here")


@pytest.mark.parametrize("version", [SCHEMA + 1, 0])
def test_another_version_is_refused_even_when_its_other_keys_are_unknown(version: int) -> None:
    with pytest.raises(InputError, match=f"here: written in schema {version}; .* reads up to {SCHEMA}"):
        TRIAL.decode(_changed({"schema": version, "invention": True}), "here")


def test_a_file_without_version_is_refused() -> None:
    with pytest.raises(InputError, match="missing required field `schema`"):
        INFO.decode(b"{}", "here")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b'{"schema": NaN}'])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^here: "):
        RESULT.decode(data, "here")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_never_written(number: float) -> None:
    trial = replace(sample_run()[2][3], observed={"ovs.gauge": number})
    with pytest.raises(StoreError, match=r"here: at \$\.observed\.ovs\.gauge: .* is not a number"):
        TRIAL.encode(trial, "here")


def test_a_text_that_is_no_unicode_is_refused_when_writing() -> None:
    with pytest.raises(StoreError, match="here: cannot be stored"):
        TRIAL.encode(replace(sample_run()[2][3], reason="\ud800"), "here")


def test_a_value_that_is_no_plain_data_is_refused_when_writing() -> None:
    with pytest.raises(StoreError, match="object cannot be stored as plain data"):
        INFO.encode(replace(sample_run()[0], scenarios=({"dut": object()},)), "here")


def test_only_the_current_version_is_written() -> None:
    with pytest.raises(StoreError, match="schema 7 cannot be written"):
        RESULT.encode(replace(sample_run()[1], schema=7), "here")


def test_a_field_that_is_no_longer_written_is_read_over() -> None:
    """As in files of schema 1: the object comes in the words of this version."""
    plain = json.loads(RESULT.encode(sample_run()[1], "here"))
    plain["schema"] = 1
    rate = plain["scenarios"][0]["rates"][0]
    rate["lapse"] = 0.25
    rate["band"] = {"low_fps": 1.0, "high_fps": 2.0, "best_fps": 1.9}
    read = RESULT.decode(json.dumps(plain).encode(), "here")
    assert read.schema == SCHEMA
    assert read.scenarios[0].rates[0].band == Band(1.0, 2.0)
