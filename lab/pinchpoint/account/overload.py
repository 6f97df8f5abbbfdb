"""A trial whose load falls at a step, from an overload: what was offered until then, and what was lost last. Pure."""

from typing import Final

from pinchpoint.engine.streams import Step
from pinchpoint.model import units
from pinchpoint.model.trial import Trial

MISSING: Final = 0.02  # of the load after the change, which samples 0.1 s apart tell no more finely


def overload_fps(trial: Trial, step: Step) -> float:
    """What was offered until the change, frames per second; 0 if no sample says so."""
    before = [sample for sample in trial.samples if sample.elapsed_s <= step.after_s]
    return before[-1].offered / before[-1].elapsed_s if before and before[-1].elapsed_s else 0.0


def reduced_fps(trial: Trial, step: Step) -> float:
    """The load after the overload, frames per second."""
    return trial.load_fps * step.to_share


def is_overload(trial: Trial, step: Step, throughput_fps: float) -> bool:
    """Whether a generator that fell short overloaded the device all the same: "or the maximum rate for the media".

    It offered more than the throughput until the change, frames were lost, and of the load after it nothing is missing.
    """
    after_s = max(0.0, trial.sent_duration_s - step.after_s)
    offered_after = trial.offered - overload_fps(trial, step) * step.after_s
    is_reduced_whole = offered_after >= (1 - MISSING) * reduced_fps(trial, step) * after_s
    return overload_fps(trial, step) > throughput_fps and trial.lost > 0 and is_reduced_whole


def last_loss_s(trial: Trial) -> float:
    """When the last frame was lost that a later one overtook, seconds from the beginning; 0 if none was."""
    return max((stream.last_loss_s or 0.0 for stream in trial.streams), default=0.0)


def never_overtaken(trial: Trial) -> int:
    """Lost frames that none came after: the engine cannot time them, but the last sample did not have them yet."""
    if not trial.samples or last_loss_s(trial) >= trial.samples[-1].elapsed_s:
        return 0
    return max(0, trial.lost - (trial.samples[-1].lost or 0))


def paused(trial: Trial, step: Step, ring: int) -> str:
    """That a pause of the engine's core may have caused the last loss after the change; empty if it did not.

    `ring` is the smallest ring between engine and DUT, in frames.
    """
    last_s, is_at_end = last_loss_s(trial), never_overtaken(trial) > 0
    if is_at_end:
        pause_s = _longest_pause_s(trial, trial.samples[-1].elapsed_s)
    elif last_s > step.after_s:
        pause_s = next((sample.gap_max_s for sample in trial.samples if sample.elapsed_s >= last_s), 0.0)
    else:
        return ""
    if pause_s * reduced_fps(trial, step) <= ring:
        return ""
    which = "the last frames were lost" if is_at_end else f"the last loss, at {last_s:.3f} s, lies"
    return f"{which} by a {units.nanoseconds(pause_s * 1e9)} pause of the engine's core"


def _longest_pause_s(trial: Trial, from_s: float) -> float:
    """Of the engine's cores, seconds, from then on."""
    gaps = (gap for worker in trial.witness.workers for gap in worker.gaps_longest)
    return max((gap_ns / 1e9 for at_s, gap_ns in gaps if at_s + gap_ns / 1e9 >= from_s), default=0.0)
