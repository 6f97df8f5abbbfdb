"""What another generator than the engine was seen to send."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sent:
    """What one port sent. Rates are in frames per second, times in seconds, lengths in bytes without check sequence."""

    port: str
    frames: int  # that were read
    missed: int | None  # that came faster than they could be read; they count as sent; None: the wire cannot tell
    duration_s: float  # from the first frame to the last
    mean_fps: float  # of all of them
    median_fps: float | None  # of periods of 0.1 s that were sent in whole; None: fewer than three
    low_fps: float | None  # 5 % of those periods were below
    high_fps: float | None  # 5 % were above
    shortest: int
    longest: int
    mean_bytes: float
    most_in_1_ms: int
    dispersion: float | None  # variance over mean of the frames in 1 ms: 0 like a clock, 1 like chance
    longest_silence_s: float
    checked: int  # frames that were looked into
    wrong_checksums: int
    not_ip: int
    flows: int  # five-tuples
    flows_at_least: bool
    answered_flows: int  # five-tuples whose reverse another port sent


@dataclass(frozen=True)
class Wire:
    """The core that read the frames; shares of the time from the first one to the last."""

    carries: bool  # the frames from port to port, too, so that the generator may wait for it
    busy: float
    still: float  # while another program had it


@dataclass(frozen=True)
class Foreign:
    """A generator's command, and what it sent into the ports of a wire."""

    command: str
    ended: str  # how it ended
    wire: Wire
    sent: tuple[Sent, ...]  # by port
