"""What `pinchpoint-engine inspect` prints of the frames that came to its ports."""

import msgspec

from pinchpoint.model.errors import DutError


class InspectedPort(msgspec.Struct, frozen=True):
    """How the port of an inspector was."""

    name: str
    rx_missed: int | None  # frames that found the receive ring full; None: the port cannot tell


class SeenAtPort(msgspec.Struct, frozen=True):
    """What came to one port; frames and bytes, seconds since the inspector began."""

    port: str
    frames: int
    bytes: int
    shortest: int
    longest: int
    first_s: float | None  # None before the first frame
    last_s: float | None
    longest_silence_s: float
    short_period_s: float
    most_in_short_period: int
    dispersion: float | None  # variance over mean of the frames in a short period
    long_period_s: float
    by_long_period: tuple[int, ...]  # frames in each period that has ended, from the first frame on
    checked: int  # frames that were looked into
    wrong_checksums: int
    not_ip: int
    flows: int  # five-tuples
    flows_at_least: bool
    answered_flows: int  # five-tuples whose reverse came to another port


class Gaps(msgspec.Struct, frozen=True):
    """Times in which the inspector's loop stood still against its will."""

    total_s: float


class Inspected(msgspec.Struct, frozen=True, tag="inspect"):
    """All of it; by port, in the order of the ports."""

    elapsed_s: float
    busy_share: float  # of the elapsed time
    gaps: Gaps
    ports: tuple[InspectedPort, ...]
    seen: tuple[SeenAtPort, ...]


def parse_account(line: str) -> Inspected:
    """A line of the account file. Raises DutError."""
    try:
        return msgspec.json.decode(line, type=Inspected)
    except msgspec.DecodeError as error:
        raise DutError(f"the inspector's account cannot be read: {error}: {line[:200]}") from error
