"""What a profile declared, read strictly: it was printed by a process that had run code nobody had looked at."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from pinchpoint.host.confined import LONGEST_S, run_confined
from pinchpoint.model.errors import InputError

Line = Annotated[int, Meta(ge=0, le=1_000_000)]
Word = Annotated[str, Meta(max_length=200)]
Value = int | Word | None
MOST_STREAMS: Final = 256
_LENGTHS: Final = Meta(max_length=100)


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parts."""


class Layer(_Part, frozen=True):
    """A header and the values that were given."""

    kind: Literal["Ether", "Dot1Q", "MPLS", "IP", "IPv6", "UDP", "TCP", "ICMP", "VXLAN", "Raw"]
    values: dict[Word, Value]


class Instruction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all instructions."""

    line: Line


_AS_CALLED: Final = {"first": "init_value", "least": "min_value", "most": "max_value"}


class Variable(Instruction, frozen=True, tag="variable", rename=_AS_CALLED):
    """Counts from `first` (None: `least`) by `step` through `least` to `most`."""

    name: Word
    first: int | None
    size: Literal[1, 2, 4, 8]
    least: int
    most: int
    step: int
    op: Literal["inc", "dec", "random"]
    values: Annotated[tuple[int, ...], Meta(max_length=1024)]  # in the place of that range, if there are any
    limit: Annotated[int, Meta(ge=0)]  # of random values, after which they repeat; 0: never


class Tuple(Instruction, frozen=True, tag="tuple"):
    """Addresses; with every round of them, the next port; all anew after `limit_flows`."""

    name: Word
    ip_min: int
    ip_max: int
    port_min: int
    port_max: int
    limit_flows: int


class Write(Instruction, frozen=True, tag="write"):
    """Writes a variable at an offset: bytes, or LAYER.FIELD."""

    fv_name: Word
    pkt_offset: int | Word
    offset_fixup: int
    add_val: int
    is_big: bool


class MaskedWrite(Instruction, frozen=True, tag="masked write"):
    """Writes ((variable + `add_value`) << `shift`) & `mask` into `pkt_cast_size` bytes."""

    fv_name: Word
    pkt_offset: int | Word
    pkt_cast_size: Literal[1, 2, 4]
    mask: Annotated[int, Meta(ge=0)]
    shift: Annotated[int, Meta(ge=-64, le=64)]
    add_value: int
    offset_fixup: int
    is_big: bool


class Trim(Instruction, frozen=True, tag="trim"):
    """Cuts packets, without check sequence, to the size that a variable has."""

    fv_name: Word


class Checksum(Instruction, frozen=True, tag="checksum"):
    """Corrects the IPv4 checksum; the engine always does, so that it changes nothing."""


class Stream(_Part, frozen=True):
    """A stream as the profile declared it, before anything is checked."""

    name: Word | int | None
    line: Line
    enabled: bool
    start_us: Annotated[float, Meta(ge=0)]
    waits: bool  # for the end of another one
    followed: bool  # by another one
    packets: Annotated[int, Meta(ge=0)]  # after which it ends; 0: never
    burst: Annotated[int, Meta(ge=1, le=1_000_000)]  # packets at its rate
    gap_us: Annotated[float, Meta(ge=0)]  # between two of these
    mode: Literal["continuous", "single burst", "bursts"]
    unit: Literal["pps", "bps_L1", "bps_L2", "percentage"]
    rate: Annotated[float, Meta(gt=0, le=1e15)]
    capture: Annotated[str, Meta(max_length=4096)]  # whose first frame is the packet, in the place of layers
    layers: Annotated[tuple[Layer, ...], _LENGTHS]
    bytes: Annotated[int, Meta(ge=0)]
    instructions: Annotated[tuple[Variable | Tuple | Write | MaskedWrite | Trim | Checksum, ...], _LENGTHS]


class Error(_Part, frozen=True):
    """Why there are no streams."""

    line: Line
    message: Annotated[str, Meta(max_length=2000)]


class Declared(_Part, frozen=True):
    """What the profile's process printed: its streams, or the error that ended it."""

    streams: Annotated[tuple[Stream, ...], Meta(max_length=MOST_STREAMS)]
    error: Error | None


def read(printed: bytes) -> Declared:
    """What was printed. Raises ValueError with the place of what does not fit."""
    return msgspec.json.decode(printed, type=Declared)


def streams(path: str, direction: int, tunables: Mapping[str, str], longest_s: float = LONGEST_S) -> tuple[Stream, ...]:
    """The streams that its get_streams returns for a direction, 0 or 1. Raises InputError, RequirementError."""
    words = [f"{name}={value}" for name, value in tunables.items()]
    printed = run_confined("pinchpoint.profiles.sandboxed", (path, str(direction), *words), path, longest_s)
    try:
        declared = read(printed)
    except ValueError as error:
        raise InputError(f"{path}: what it printed is no account of streams: {plain(str(error))}") from error
    if declared.error is not None:
        raise InputError(f"{path}: line {declared.error.line}: {plain(declared.error.message)}")
    return declared.streams


def plain(text: str) -> str:
    """On one line, without control characters, which a hostile profile may hold."""
    return "".join(char if char.isprintable() else " " for char in text)[:1000]
