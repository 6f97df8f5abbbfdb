"""Loads of connections as trials of a search: a connection that fails is a frame that is lost. Pure."""

from pinchpoint.measure.served import Opened
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import Ledger, Trial, TrialValidity, Witness


def as_trial(found: Measurement, one: Opened, duration_s: float) -> Trial:
    """One load as the search wants it; rates are those after the ramp.

    What the device did not let in counts as offered and lost, what the generator did not open as not offered.
    """
    client, load = one.client, one.load
    due = client.opened + client.shortfall
    offered, received = one.judged.due, client.completed
    return Trial(
        id=found.id,
        scenario=found.scenario,
        phase=str(found.account.get("phase", "")),
        repeat=found.repeat,
        started=found.started,
        duration_s=duration_s,
        load_fps=load.rate_cps,
        sent_duration_s=due / load.rate_cps,
        wall_s=found.wall_s,
        intended=due,
        offered=offered,
        received=min(received, offered),
        streams=(),
        ledger=Ledger(offered, min(received, offered), ()),
        witness=Witness((), (), {}, None, None),
        pmds=found.pmds,
        observed=found.observed,
        validity=found.validity,
        reason=found.reason,
    )


def failing(trials: list[Trial], ratio: float, most: int = 3) -> list[Trial]:
    """The usable trials that failed more than the ratio at the lowest loads: what ends the rate ends these."""
    usable = (TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED)
    failed = [one for one in trials if one.validity in usable and one.loss_ratio > ratio]
    return sorted(failed, key=lambda one: one.offered_fps)[:most]
