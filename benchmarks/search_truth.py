"""The thresholds that trials of a simulated device meet: at any moment, with every stall, whatever the reason.

The highest load that loses no more than a ratio, of trials begun at moments that do not beat with the device's steps,
in the same realisation and the same seconds as a search. Half of them are above the literal rate.
"""

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray
from simulated import SimulatedInstrument, Truth
from simulated_queue import StallKind, paused

Array = NDArray[np.float64]
BETWEEN_S = 0.02  # from one beginning to the next, in the mean
ROUNDS = 20  # of a bisection of the logarithm of a load, over SPAN
SPAN = 14.0


def begins_s(until_s: float, trial_s: float, seed: int) -> list[float]:
    """Irregular moments at which trials may begin, so that all end before a time."""
    random, last_s = Random(f"begins/{seed}"), max(until_s - trial_s, 0.0)
    count = max(1, int(last_s / BETWEEN_S))
    return sorted(random.uniform(0.0, last_s) for _ in range(count))


def thresholds_fps(
    instrument: SimulatedInstrument, truth: Truth, begins: Sequence[float], trial_s: float, loss_ratio: float
) -> Array:
    """Of a trial begun at each of these moments."""
    spans = []
    for begin_s in begins:
        stalls = [s for s in instrument.stalls(begin_s, begin_s + trial_s) if s.kind is not StallKind.ENGINE]
        spans.append(list(paused(instrument.capacity(begin_s, begin_s + trial_s), stalls)))
    most = max(map(len, spans))
    padded = np.array([each + [(0.0, 1.0)] * (most - len(each)) for each in spans])
    lengths_s, capacities = padded[:, :, 0], padded[:, :, 1] * _noisy(truth, len(begins))[:, None]
    drawn = np.random.default_rng(7).exponential(size=len(begins))
    low = np.full(len(begins), np.log(truth.capacity_fps) + 2 - SPAN)
    high = low + SPAN
    for _ in range(ROUNDS + 6):
        middle = (low + high) / 2
        is_over = _loses(np.exp(middle), lengths_s, capacities, drawn, truth, loss_ratio)
        low, high = np.where(is_over, low, middle), np.where(is_over, middle, high)
    return np.exp((low + high) / 2)


def _noisy(truth: Truth, count: int) -> Array:
    random = np.random.default_rng(truth.seed)
    factor = np.maximum(0.0, random.normal(1.0, truth.noise, count))
    return np.asarray(
        truth.capacity_fps * factor * np.maximum(0.0, 1.0 - np.abs(random.normal(0.0, truth.dips, count)))
    )


def _loses(loads: Array, lengths_s: Array, capacities: Array, drawn: Array, truth: Truth, ratio: float) -> Array:
    waiting, lost = np.zeros(len(loads)), np.zeros(len(loads))
    for length_s, capacity in zip(lengths_s.T, capacities.T, strict=True):
        waiting = np.maximum(0.0, waiting + (loads - capacity) * length_s)
        lost, waiting = lost + np.maximum(0.0, waiting - truth.ring), np.minimum(waiting, truth.ring)
    offered = loads * lengths_s.sum(axis=1)
    lost = lost + truth.loss_ratio * offered
    if truth.random_loss is not None:
        below = np.minimum(0.0, loads / truth.capacity_fps - 1) / truth.random_loss.scale
        expected = offered * np.minimum(1.0, truth.random_loss.ratio * np.exp(below))
        lost = lost + np.where(expected > drawn, np.maximum(expected, 1.0), 0.0)
    # A device that collapses carries less from its first loss on, which is much more than the ratio.
    allowed = 0.0 if truth.collapse is not None else ratio * offered
    return np.asarray(lost > np.maximum(0.5, allowed))
