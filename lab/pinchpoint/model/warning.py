"""Warnings of a result: what a reader must mind about its numbers. One closed set, each kind with what to try.

Programs read the kind and the values, people the text. A kind that is added is added here. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from string import Formatter
from typing import Any, Final, Self

from pinchpoint.model import units

Value = int | float | str
_UNITS: Final = ("fps", "share", "s", "ns")


class _Words(Formatter):
    """Values as people read them: `{load:fps}`, `{lost:share}`, `{late:#frame}` is a count with its noun."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.startswith("#"):
            return units.counted(value, format_spec[1:])
        return units.quantity(value, format_spec) if format_spec in _UNITS else format(value, format_spec)


@dataclass(frozen=True)
class ResultWarning:
    """One warning; all are made by `Warn.of`."""

    kind: "Warn"
    text: str  # one sentence with its figures
    advice: str = ""  # what to try; empty: nothing is known
    values: Mapping[str, Value] = field(default_factory=dict)  # the figures of the text, by name

    def __str__(self) -> str:
        return self.text

    def at(self, place: str) -> "ResultWarning":
        """The same, said of one part, such as a bench of two."""
        return replace(self, text=f"{place}: {self.text}", values={**self.values, "at": place})


class Warn(StrEnum):
    """Every kind of warning: its word in stored files, its sentence, and what to try."""

    template: str
    advice: str

    def __new__(cls, word: str, template: str, advice: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.template, member.advice = template, advice
        return member

    def of(self, told: str = "", /, *, advice: str = "", **values: Value) -> ResultWarning:
        """The warning with its figures; `told` is what somebody else said, `advice` is in place of the kind's own.

        Raises KeyError for a figure of the sentence that is not given.
        """
        text = _Words().format(self.template, told=told, **values)
        return ResultWarning(self, text, advice or self.advice, values)

    # fmt: off
    # Of trials and their host
    NOT_LEARNT = ("not_learnt",
        "the switch still missed {missed:,} of {offered:,} frames after {warm_up_s:g} s of warm-up: its table of flows "
        "may be too small", "send fewer five-tuples, or enlarge the table")
    CORES_MIXED = ("cores_mixed", "{told}",
        "pin engine and device to cores of one physical package, or compare each mode alone")
    CORE_SLOWED = ("core_slowed",
        "the host slowed the switch's core {cores} in {slowed:share} of {trials} trials, to {worst:share} of its speed "
        "at worst: something else runs on its other hardware thread", "keep the other hardware thread free")
    MANY_DISCARDED = ("many_discarded", "{discarded:share} of {trials:#trial} discarded: {told}",
        "keep other work off the engine's cores")
    CORE_STOOD_STILL = ("core_stood_still",
        "the engine's core stood still for {held:share} of the trials near the rate (median): frames due meanwhile "
        "were never offered, so the rates may be too low by as much", "keep other work off the engine's cores")
    OVER_CLOCK = ("over_clock",
        "{cycles:,.0f} cycles per packet at the NDR make {spent_ghz:.2f} GHz; the forwarding threads were busy for "
        "{busy_ghz:.2f} GHz", "do not use the cycles of this point; measure it again")
    NO_MRR = ("no_mrr",
        "no MRR: {usable} of {trials} trials at {load_fps:fps} had a usable account; the last one: {told}",
        "keep other work off the engine's cores, or lower search.max_load_fps")
    TRIAL_UNUSABLE = ("trial_unusable", "{trial}: {told}", "repeat the run if the reason was temporary")
    BEFORE_RESUMED = ("before_resumed", "{trial}, before the run was resumed: {told}",
        "repeat the run without a break")
    # Of the generator's ceiling
    CEILING_UNKNOWN = ("ceiling_unknown", "no ceiling of the generator is known: {told}",
        "fix the reason, or use --no-ceiling")
    CEILING_UNKNOWN_BEFORE = ("ceiling_unknown_before",
        "no ceiling of the generator was known when this search began", "start a new run instead of --resume")
    CEILING_AT_LINKS = ("ceiling_at_links",
        "the generator's own ceiling is not measured on cabled ports",
        "to know it, join both ports by a cable and measure that")
    CEILING_IN_GUEST = ("ceiling_in_guest",
        "the generator's own ceiling is not measured where the engine is in a guest",
        "check in the trials' accounts that all due frames were sent")
    CEILING_OF_OTHER_MODES = ("ceiling_of_other_modes",
        "the generator's ceiling was measured in other modes of the cores: no rate was compared with it",
        "run it again, or pin engine and device to cores of one physical package")
    # Of where it was measured
    EMULATED = ("emulated", "measured on an emulated processor: not comparable with a real one",
        'measure where KVM is available, or with guest.kernel = "uml"')
    # Of comparisons within a run
    NO_RELATIVE_RATE = ("no_relative_rate", "no relative rate: {told}", "compare the points' own rates")
    NO_SLICE_RATIO = ("no_slice_ratio", "no ratio of slices: {told}", "read the ratio of the interleaved trials")
    # Of an NDR, a PDR and the MRR
    LOSES_AT_ANY_LOAD = ("loses_at_any_load",
        "{losing_share:share} of the trials lose at any load that was tried: {losing} of {trials} at {load_fps:fps}, "
        "half of the {rate}", "read the PDR; pinchpoint explain says where the frames go")
    RATE_CONTRADICTED = ("rate_contradicted",
        "the trials around the {rate} contradict it: at most 3 % below it {losing_below} of {below} lost, at most 3 % "
        "above it {losing_above} of {above}", "raise search.max_traffic_s, so that more trials decide")
    LOAD_BEFORE_DECIDES = ("load_before_decides",
        "the load before a trial decides: {rested_fps:fps} after rests, {sustained_fps:fps} after overloads, which is "
        "the {rate}", "look for a policer or a power limit")
    DEPENDS_ON_LENGTH = ("depends_on_length",
        "loses {lost} of its frames at any load, so the {rate} depends on the trial length{told}",
        "quote a PDR with a higher loss ratio")
    SLOWER_WHEN_OVERLOADED = ("slower_when_overloaded",
        "collapses under overload: at {load_fps:fps} offered it forwards {forwarded_fps:fps}, less than its NDR",
        "protect the device from overload; pinchpoint explain says what costs the time")
    OFFLOAD_DOUBTFUL = ("offload_doubtful", "{told}", "see the witnesses of the offload in the report")
    NDR_NOT_FOUND = ("ndr_not_found", "the NDR was not found but is {status}: {told}",
        "state the throughput in the scenario")
    # Of loss over load, bursts and overloads
    LOAD_NOT_JUDGED = ("load_not_judged", "{load:.3g} % load ({load_fps:fps}): {told}",
        "keep other work off the engine's cores, or lower loss_curve.max_load_fps")
    RATE_NOT_JUDGED = ("rate_not_judged",
        "load at {load_fps:fps}: {valid} of {asked} trials valid; last: {told}",
        "use a quieter machine, or lower load.at_fps")
    LESS_AT_MORE_LOAD = ("less_at_more_load",
        "forwarding falls under overload: {above_fps:fps} at {above:.3g} % load, {below_fps:fps} at {below:.3g} % load",
        "protect the device from overload; pinchpoint explain says what costs the time")
    TESTS_MISSING = ("tests_missing", "{told}", "keep other work off the engine's cores")
    NO_THROUGHPUT = ("no_throughput", "{told}", "set burst.throughput_fps")
    OVERLOADS_MISSING = ("overloads_missing", "{told}", "use a quieter machine, or lower recovery.overload_share")
    NOT_RECOVERED = ("not_recovered", "{told}: they still lost frames at their end", "raise recovery.reduced_s")
    SILENT_AFTER_OVERLOAD = ("silent_after_overload",
        "in {silent} of {repeats} repeats the switch forwarded nothing after the overload",
        "see the device's dumps among the attachments")
    NO_OVERLOAD = ("no_overload", "{calm} of {repeats} overloads lost nothing",
        "raise recovery.overload_share: the throughput may be higher")
    # Of a soak
    STOPPED = ("stopped", "forwarding stopped {began_s:,.1f} s after the beginning, and did not come back",
        "see the device's dumps among the attachments")
    STOOD_STILL = ("stood_still",
        "forwarding stood still from {began_s:,.1f} s to {ended_s:,.1f} s after the beginning",
        "see what the host and the device did at that time")
    STOOD_STILL_MORE = ("stood_still_more", "forwarding stood still {more:#more time}",
        "see the windows in the report")
    LATE_FRAMES = ("late_frames", "{late:#frame} came so late that they were counted as lost first",
        "look for deep queues on the path")
    WINDOWS_DISCARDED = ("windows_discarded", "{discarded:,} of {windows:,} windows were discarded",
        "shorten the windows (soak.window_s): a disturbance then costs less of them")
    NO_WINDOW_LEFT = ("no_window_left", "every window was discarded: {told}", "shorten the windows (soak.window_s)")
    CUT_SHORT = ("cut_short", "{measured_s:,.1f} of {asked_s:,.1f} s were measured",
        "continue it with pinchpoint run --resume")
    NO_ANSWER = ("no_answer", "{told}; windows from then on are without counters of switch and host",
        "see the device's dumps among the attachments")
    WENT_BACK = ("went_back", "{told}", "keep others from clearing counters and from restarting the device")
    # Of workloads over kernel sockets
    TRANSACTIONS_FAILED = ("transactions_failed", "{told}", "lower the load until none fail: the rate is no result")
    RELAY_LOST = ("relay_lost", "{window}: {told}", "name a core for the relay that nothing else uses (engine.cpus)")
    NOT_STATIONARY = ("not_stationary", "{told}", "raise sockets.warm_up_s and sockets.duration_s")
    FEW_WINDOWS = ("few_windows", "{valid} of {windows} windows were valid, not {asked}; the last invalid one: {told}",
        "use a quieter machine, or raise sockets.max_repeats")
    WINDOWS_REPEATED = ("windows_repeated",
        "{discarded} of {windows} windows discarded and repeated; the last one: {told}", "use a quieter machine")
    NO_FLOW_OF_ITS_OWN = ("no_flow_of_its_own",
        "{items:,} {what}, but {flows:#datapath flow} and {masks:#mask} carried the traffic: they took no datapath "
        "flow of their own", "send traffic that matches them, or compare with a bench without them")
    # Of connections
    NO_RATE = ("no_rate", "{rate}: none; {told}", "lower connections.min_cps where most trials failed there")
    FAILS_AT_ANY_RATE = ("fails_at_any_rate", "{rate}: none; {told}",
        'run measure = "verify", which says what becomes of each connection')
    WIDE_INTERVAL = ("wide_interval", "{rate}: the interval is wider than connections.relative_width asks for",
        "raise connections.max_traffic_s")
    NO_COMPLETED_RATE = ("no_completed_rate", "no completed rate: {told}",
        "leave room for long loads: connections.steady_s, fewer held connections")
    NO_TIMESTAMPS = ("no_timestamps", "no time stamps: {told}", "set net.ipv4.tcp_timestamps = 1 in the device")
    NO_AGING_TIME = ("no_aging_time", "no aging time: {told}", "raise capacity.aging_within_s")
    # Of building and changing
    BUILD_DISTURBED = ("build_disturbed", "the host disturbed this build: {told}", "use a quieter machine")
    GETS_SLOWER = ("gets_slower",
        "time per item grew {growth:.1f} x from the first to the last quarter; likely {told}",
        "quote the time per item together with the number of items")
    TOOK_NO_FRAME = ("took_no_frame", "{untaken} of {probed} probed rules took no frame",
        "check that the rules match the probes")
    NO_BLOCKED_TIME = ("no_blocked_time", "{told}", "lower build.load_fps")
    REPEATS_MISSING = ("repeats_missing", "{valid} of {asked} repeats valid; {told}", "lower blocked.load_fps")
    ONLY_DISTURBED = ("only_disturbed",
        "{valid} of {asked} repeats valid; {told}. The figures are of disturbed repeats", "lower blocked.load_fps")
    # Of a run of schema 3 or before, which kept sentences
    OTHER = ("other", "{told}")
    # fmt: on
