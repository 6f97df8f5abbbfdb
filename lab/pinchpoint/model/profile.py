"""What one trial of its own shows: a saturated thread's time by function, the kernel's reasons for drops."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FunctionShare:
    """Samples that found a forwarding thread in one function, those in functions that it calls left out."""

    function: str  # empty: its file has no symbol for it
    source: str  # the file it is from, without folders: a program, a library; `kernel`, or a kernel module in brackets
    samples: int
    share: float  # of the profile's samples


@dataclass(frozen=True)
class DropReason:
    """Frames that the kernel freed for a reason, in its own word."""

    reason: str  # e.g. `NEIGH_FAILED`
    frames: int  # that were recorded
    share: float  # of all that were


@dataclass(frozen=True)
class Profile:
    """Samples of the forwarding threads of one scenario's device, at a load that saturates it."""

    scenario: str
    reason: str = ""  # why there is no sample, with the command that mends it; empty if there are some
    event: str = ""  # what perf sampled by: `cycles`, or `cpu-clock` where the processor's counters are not available
    load_fps: float | None = None  # of the trial in which it was sampled
    offered: int = 0  # frames of that trial
    received: int = 0
    threads: tuple[str, ...] = ()  # that were sampled, as the device calls them
    samples: int = 0
    unnamed: int = 0  # of them, in code without a symbol
    elsewhere: int = 0  # further samples of the same CPUs outside of receive softirqs; 0 where threads were sampled
    functions: tuple[FunctionShare, ...] = ()  # most samples first; their samples add up to `samples`
    file: str = ""  # of the folded stacks, below attachments/
    drops: tuple[DropReason, ...] = ()  # of a trial of its own, most frames first
    no_drops: str = ""  # why there are none; empty: there are some, or no kernel forwards
