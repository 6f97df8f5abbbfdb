"""Which causes fit what was observed, the likeliest first. Pure."""

from collections.abc import Iterator, Sequence

from pinchpoint.causes.catalogue import CATALOGUE, NOTABLE, OWN_SPEED, SATURATED
from pinchpoint.causes.signature import Cause
from pinchpoint.model.causes import Sign, Signs, Suspicion


def likely(signs: Signs, catalogue: Sequence[Cause] = CATALOGUE) -> tuple[Suspicion, ...]:
    """Every cause whose signature fits and that would explain something.

    Where a thread is saturated and nothing in particular explains it, its own speed is the cause.
    """
    found = [_suspicion(cause, signs) for cause in catalogue if cause.fits(signs)]
    found = sorted((one for one in found if one.share >= NOTABLE), key=lambda one: -one.share)
    if not found and SATURATED.holds(signs):
        return (_suspicion(OWN_SPEED, signs),)
    return tuple(found)


def _suspicion(cause: Cause, signs: Signs) -> Suspicion:
    return Suspicion(
        cause.name, cause.title, cause.weight(signs), tuple(_evidence(cause, signs)), cause.mend, cause.experiment
    )


def _evidence(cause: Cause, signs: Signs) -> Iterator[str]:
    for condition in cause.signature:
        yield condition.words(signs)
    if not cause.signature and (cycles := signs.values.get(Sign.CYCLES)) is not None:
        yield f"{Sign.CYCLES}: {Sign.CYCLES.shown(cycles)}"
