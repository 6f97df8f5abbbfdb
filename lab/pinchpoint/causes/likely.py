"""Which causes fit what was observed, the likeliest first. Pure."""

from collections.abc import Iterator, Sequence
from functools import partial

from pinchpoint.causes.catalogue import CATALOGUE, OWN_SPEED
from pinchpoint.causes.diagnosed import UNKNOWN, Diagnosed, Seen
from pinchpoint.causes.levels import NOTABLE
from pinchpoint.causes.signature import Cause
from pinchpoint.model.causes import Signs, Suspicion
from pinchpoint.model.hops import DropKind


def likely(
    signs: Signs, device: Diagnosed = UNKNOWN, seen: Seen | None = None, catalogue: Sequence[Cause] = CATALOGUE
) -> tuple[Suspicion, ...]:
    """Every cause whose signature fits and that would explain something.

    `seen` has the settings in force, of which `device` then advises none.
    Where the device forwards no more, whatever is offered, and nothing in particular explains it, its own speed is the
    cause. Where that is not shown, either, there is none.
    """
    suspicion = partial(_suspicion, signs=signs, device=device, seen=seen or {})
    suspicions = [suspicion(cause) for cause in catalogue if cause.fits(signs)]
    suspicions = sorted(
        (suspected for suspected in suspicions if suspected.share >= NOTABLE), key=lambda suspected: -suspected.share
    )
    if not suspicions and OWN_SPEED.fits(signs):
        return (suspicion(OWN_SPEED),)
    return tuple(suspicions)


def _suspicion(cause: Cause, signs: Signs, device: Diagnosed, seen: Seen) -> Suspicion:
    return Suspicion(
        cause.name,
        cause.title,
        cause.weight(signs),
        tuple(_evidence(cause, signs)),
        cause.advice(device.advice(cause.name, seen)),
        cause.experiment,
    )


def _evidence(cause: Cause, signs: Signs) -> Iterator[str]:
    for condition in cause.signature:
        yield condition.words(signs)
    for sign in cause.shows:
        if (value := signs.values.get(sign)) is not None:
            yield f"{sign}: {sign.shown(value)}"
    if DropKind.RULE in cause.drops and signs.rule:
        yield f"most of them by the rule {signs.rule}"
