"""Dataclasses <-> JSON, strict in both directions.

msgspec decodes dataclasses itself but ignores keys it does not know. Here each
dataclass gets a twin (a msgspec Struct that forbids unknown fields), so that a
misspelt or foreign key is an error that says where it stands. Files of older
schemas are put into the words of this one first (model/former.py).
"""

import json
import math
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache, reduce
from operator import or_
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from pinchpoint.model import former
from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.result import SCHEMA as SCHEMA

T = TypeVar("T")


class _Versioned(msgspec.Struct):
    """Any stored object, looked at only for its version."""

    schema: int


def twin(kind: Any) -> Any:
    """The strict type to decode in place of `kind`: dataclasses become Structs, `object` plain data."""
    if kind is object:
        return Any
    if isinstance(kind, type) and is_dataclass(kind):
        return _struct(_any(kind))
    arguments = get_args(kind)
    if not arguments:
        return kind
    twins = tuple(argument if argument is Ellipsis else twin(argument) for argument in arguments)
    origin = get_origin(kind)
    return reduce(or_, twins) if origin is types.UnionType else origin[twins]


def _any(kind: object) -> Any:
    return kind


@cache
def _struct(kind: Any, leading: tuple[tuple[str, Any], ...] = ()) -> Any:
    hints = get_type_hints(kind)
    members: list[Any] = list(leading)
    for item in fields(kind):
        own = {name: getattr(item, name) for name in ("default", "default_factory")}
        default = [msgspec.field(**{name: value}) for name, value in own.items() if value is not MISSING]
        members.append((item.name, twin(hints[item.name]), *default))
    return msgspec.defstruct(kind.__name__, members, forbid_unknown_fields=True, frozen=True, kw_only=True)


@dataclass(frozen=True)
class Codec(Generic[T]):
    """Reads and writes one kind of object; `versioned` kinds get `schema` from outside themselves."""

    kind: type[T]
    stored: Any  # the strict Struct that stands in the file
    versioned: bool

    @classmethod
    def of(cls, kind: type[T]) -> "Codec[T]":
        """The codec of a dataclass; one without a `schema` field gets it as its first key."""
        own = any(item.name == "schema" for item in fields(kind))  # type: ignore[arg-type]
        leading = () if own else (("schema", int),)
        return cls(kind, _struct(_any(kind), leading), versioned=not own)

    def encode(self, value: T, where: str) -> bytes:
        """One line of JSON without its newline.

        Raises StoreError naming `where` when a number is not finite, a text is not
        Unicode, the version is not the one written here, or a value cannot be stored as plain data.
        """
        plain = self._plain(value, where)
        if plain["schema"] != SCHEMA:
            raise StoreError(f"{where}: schema {plain['schema']} cannot be written, only {SCHEMA}")
        try:
            if not _all_finite(plain):
                place, number = next(number for number in _numbers(plain, "$") if not math.isfinite(number[1]))
                raise StoreError(f"{where}: at {place}: {number} is not a number that can be stored")
            return msgspec.json.encode(plain)
        except (UnicodeEncodeError, TypeError, OverflowError) as error:
            raise StoreError(f"{where}: cannot be stored: {error}") from error

    def _plain(self, value: T, where: str) -> dict[str, Any]:
        try:
            plain: dict[str, Any] = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain_mapping)
        except (TypeError, OverflowError) as error:
            raise StoreError(f"{where}: cannot be stored: {error}") from error
        return {"schema": SCHEMA, **plain} if self.versioned else plain

    def decode(self, data: bytes, where: str) -> T:
        """The object stored in `data`; one of an older version comes in the words of this one.

        Raises InputError naming `where` and the place inside, when the JSON is broken,
        a key is unknown or missing, a type is wrong, or the version is newer than SCHEMA.
        """
        try:
            version = msgspec.json.decode(data, type=_Versioned).schema
            if version > SCHEMA or version < 1:
                what = f"{where}: written in schema {version}; this Pinchpoint reads up to {SCHEMA}"
                raise InputError(what, "read it with the Pinchpoint that wrote it, or a newer one")
            stored = self._stored(data, version)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{where}: {_place_first(str(error))}") from error
        value = msgspec.convert(stored, self.kind, from_attributes=True)
        return value if self.versioned or version == SCHEMA else replace(value, schema=SCHEMA)  # type: ignore[type-var]

    def _stored(self, data: bytes, version: int) -> Any:
        """The strict Struct, of whichever schema. Raises msgspec.DecodeError."""
        if version > former.LAST:
            return msgspec.json.decode(data, type=self.stored)
        plain = former.renewed(msgspec.json.decode(data), self.kind)
        return msgspec.convert(plain, self.stored, str_keys=True)


def _plain_mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be stored as plain data")


def _all_finite(plain: object) -> bool:
    """Whether no number is infinite or none; in C, since results of hundreds of units are written after each."""
    try:
        json.dumps(plain, allow_nan=False)
    except ValueError:
        return False
    return True


def _numbers(plain: object, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(plain, float):
        yield place, plain
    elif isinstance(plain, Mapping):
        for key, value in plain.items():
            yield from _numbers(value, f"{place}.{key}")
    elif isinstance(plain, list | tuple):
        for index, value in enumerate(plain):
            yield from _numbers(value, f"{place}[{index}]")


def _place_first(message: str) -> str:
    what, separator, place = message.partition(" - at ")
    return f"at {place.strip('`')}: {what}" if separator else what
