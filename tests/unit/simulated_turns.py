"""Alternating trials of two benches whose rates are known."""

import math

import numpy as np

from pinchpoint.model.duet import SIDES, pair_order
from pinchpoint.stats.alternating import LIMITED, Alternation, StairTrial

LOW_FPS, HIGH_FPS = 1e4, 20e6


class Benches:
    """Two benches that bear `bears_fps` times what each trial's noise is; the engine offers no more than `most_fps`."""

    def __init__(self, seed, ratio=1.0, noise=0.02, of_build=0.0, most_fps=math.inf, cycles=None):
        self.random, self.ratio, self.noise, self.of_build = np.random.default_rng(seed), ratio, noise, of_build
        self.most_fps, self.cycles = most_fps, cycles or {}

    def alternate(self, builds, turns):
        made = Alternation(LOW_FPS, HIGH_FPS)
        for _ in range(builds):
            made.build()
            build = {side: math.exp(self.random.normal(0, self.of_build)) for side in SIDES}
            for _ in range(turns):
                for side in pair_order(made.begun):
                    made.answer(side, self.tried(made.load_fps(side), side, build[side]))
        return made

    def tried(self, load_fps, side, build):
        bears_fps = 8e6 * build * (self.ratio if side == "B" else 1.0) * math.exp(self.random.normal(0, self.noise))
        offered_fps = min(load_fps, self.most_fps)
        loses = offered_fps > bears_fps
        return StairTrial(offered_fps, loses, not loses and offered_fps < LIMITED * load_fps, self.cycles.get(side))
