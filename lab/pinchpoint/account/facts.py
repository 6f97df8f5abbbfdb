"""What the host did to the device during a trial: facts that explain a rate, and discard nothing. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pinchpoint.account.cache_line import differ, of_trial
from pinchpoint.model.trial import Trial


@dataclass(frozen=True)
class Facts:
    """One trial's; seconds of the trial."""

    waited_s: Mapping[str, float]  # by packet thread: others than the device had its core
    stolen_s: float  # by the hypervisor, from CPUs that are not the engine's
    distance_ns: float | None  # of the engine's and the device's core; None: not probed
    moved: bool  # the distance changed within the trial


def of(trial: Trial) -> Facts:
    """The facts of a trial. What could not be observed is absent, or zero."""
    witness = trial.witness
    waits = [(thread.name, thread.run_delay_ns, thread.own_delay_ns) for thread in witness.dut_threads]
    engine_cores = {worker.core for worker in witness.workers if not worker.host}
    before, after = witness.cache_line_before_ns, witness.cache_line_after_ns
    return Facts(
        waited_s={name: (delay - own) / 1e9 for name, delay, own in waits if delay is not None},
        # Time stolen from a core of the engine is a gap of its loop (account/validity.py).
        stolen_s=math.fsum(lost_s for cpu, lost_s in witness.steal_s.items() if cpu not in engine_cores),
        distance_ns=of_trial(trial),
        moved=bool(before and after and differ(before, after)),
    )
