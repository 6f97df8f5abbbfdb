"""docs/causes.md above `## Measured`, from the catalogue: `python packaging/reference/causes.py`."""

from collections.abc import Iterator

from pinchpoint.causes.catalogue import CATALOGUE, OWN_SPEED
from pinchpoint.causes.levels import NOTABLE
from pinchpoint.causes.signature import Cause
from pinchpoint.dut.registry import device, kinds
from pinchpoint.model import units

_HEAD = f"""# Causes

Every verdict names the causes whose signature fits the trials that lost frames near the limit, the one that explains
most first. That makes a cause *likely*. `pinchpoint explain` changes the bench in one respect and puts it beside the
unchanged bench. Both are measured in turns by short trials, A B, B A, until it is certain what the change does
(decision 0065): for 25 s at most, or 60 s where a slow host makes few pairs. Experiments about losses begin with up to
15 trials that look for a load at which the unchanged bench loses frames. Alternating slices then say by how much the
rate changes.

A cause is *confirmed* if what it predicts comes true: the rate rises, a packet costs fewer cycles, fewer frames are
lost at the same load, or the counter of drops vanishes and the rate surely does not fall. It is *excluded* if the rate,
the losses or the counter stay. It is *undecided* otherwise, also where two figures contradict each other. Where turns
leave it open, the interval of the slices decides.

A cause without effect is confirmed with a probability of 5 % at most, by any of these ways, however often one looks at
the pairs; slices count with the error of their 95 % interval. That holds for each cause, not for all of a run, and for
the two benches as they were built. Each is built once: where two builds of the same bench differ by more than 5 %, such
as by the layout of their memory, that counts as an effect of the change. Devices that cannot be frozen are compared by
two searches, without such a bound.

A cause that would explain less than {units.share(NOTABLE)} of the losses, or of the forwarding thread's time, is not
named. An observation that could not be made fulfils no condition. This page is made from the rows in
`lab/pinchpoint/causes/catalogue.py`, and from what each kind of device advises; what is in force already is not
advised.
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
    if cause.experiment is not None:
        yield f"**Counter-experiment**: {cause.experiment.words}. If this is the cause, {cause.expects}.\n"
    else:
        yield "**Counter-experiment**: none on a bench; the counter itself is the evidence.\n"
    yield f"**What to do**: {cause.mend}.\n"
    for own in map(device, kinds()):
        if words := own.advice(cause.name, {}):
            yield f"With {own.title}: {', or '.join(words)}.\n"


if __name__ == "__main__":
    print(page())
