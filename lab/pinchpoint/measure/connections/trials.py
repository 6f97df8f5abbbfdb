"""Loads of connections as trials of a search: a connection that fails is a frame that is lost. Pure."""

from pinchpoint.measure.served import Opened
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import Ledger, Trial, TrialValidity, Witness


def as_trial(measurement: Measurement, opened: Opened, duration_s: float) -> Trial:
    """One load as the search wants it; rates are those after the ramp.

    What the device did not let in counts as offered and lost, what the generator did not open as not offered.
    """
    client, load = opened.client, opened.load
    due = client.opened + client.shortfall
    offered, received = opened.judged.due, client.completed
    return Trial(
        id=measurement.id,
        scenario=measurement.scenario,
        phase=str(measurement.account.get("phase", "")),
        repeat=measurement.repeat,
        started=measurement.started,
        duration_s=duration_s,
        load_fps=load.rate_cps,
        sent_duration_s=due / load.rate_cps,
        wall_s=measurement.wall_s,
        intended=due,
        offered=offered,
        received=min(received, offered),
        streams=(),
        ledger=Ledger(offered, min(received, offered), ()),
        witness=Witness((), (), {}, None, None),
        threads=measurement.threads,
        observed=measurement.observed,
        validity=measurement.validity,
        reason=measurement.reason,
    )


def failing(trials: list[Trial], ratio: float, most: int = 3) -> list[Trial]:
    """The usable trials that failed more than the ratio at the lowest loads: what ends the rate ends these."""
    usable = (TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED)
    failed = [trial for trial in trials if trial.validity in usable and trial.loss_ratio > ratio]
    return sorted(failed, key=lambda trial: trial.offered_fps)[:most]
