"""docs/causes.md above `## Measured`, from the catalogue: `python packaging/reference/causes.py`."""

from collections.abc import Iterator

from pinchpoint.causes.catalogue import CATALOGUE, OWN_SPEED
from pinchpoint.causes.signature import NOTABLE, Cause
from pinchpoint.dut.registry import device, kinds
from pinchpoint.model import units

_HEAD = f"""# Causes

A verdict names as *likely* the causes whose signature fits the trials that lost frames near the limit, the largest
share first. `pinchpoint explain` changes the bench in one respect and measures it against the unchanged bench: by short
trials in turns (A B, B A) for 25 s at most, or 60 s where a slow host makes few pairs, then by alternating slices,
which give the ratio. Experiments about losses first look for a load at which the unchanged bench loses frames, in up to
15 trials.

| standing | when |
|---|---|
| confirmed | the prediction comes true: the rate rises, a packet costs fewer cycles, fewer frames are lost at the \
same load, or the drop counter vanishes and the rate clearly does not fall |
| excluded | the rate, the losses or the counter stay |
| undecided | otherwise, or two figures contradict each other |

Where turns leave it open, the slices' 95 % interval decides. A cause without effect is confirmed with a probability of
5 % at most, for each cause and for the two benches as built: each is built once, so two builds that differ by more than
5 %, for instance by memory layout, count as an effect. Devices that cannot be frozen are compared by two searches,
without this bound.

A cause that would explain less than {units.share(NOTABLE)} of the losses, or of the forwarding thread's time, is not
named. A missing observation fulfils no condition. What is in force already is not advised.
`lab/pinchpoint/causes/catalogue.py` has these rows; what a kind of device advises stands in its folder.
"""


def page() -> str:
    """Markdown of docs/causes.md: each cause with its signature, its counter-experiment and what to do."""
    return "\n".join([_HEAD, *(line for cause in (*CATALOGUE, OWN_SPEED) for line in _section(cause))])


def _section(cause: Cause) -> Iterator[str]:
    yield f"## {cause.name}\n"
    yield f"{cause.title[0].upper()}{cause.title[1:]}.\n"
    yield "**Signature**" + (": no other cause fits, and" if cause is OWN_SPEED else "")
    yield from (f"- {condition.asks()}" for condition in cause.signature)
    yield ""
    if cause.test is not None:
        yield f"**Counter-experiment**: {cause.test.experiment.words}. Predicts: {cause.test.expects}.\n"
    else:
        yield "**Counter-experiment**: none; the counter is the evidence.\n"
    yield f"**What to do**: {cause.mend}.\n"
    for own in map(device, kinds()):
        if words := own.advice(cause.name, {}):
            yield f"With {own.title}: {', or '.join(words)}.\n"


if __name__ == "__main__":
    print(page())
