"""docs/causes.md above `## Measured`, from the catalogue: `python packaging/reference/causes.py`."""

from collections.abc import Iterator

from pinchpoint.causes.catalogue import BY_WORKLOAD, OWN_SPEED
from pinchpoint.causes.experiments import EFFECT
from pinchpoint.causes.signature import NOTABLE, Cause, Condition
from pinchpoint.dut.registry import device, kinds
from pinchpoint.model import units
from pinchpoint.model.result import Limit

_HEAD = f"""# Causes

A verdict names as *likely* the causes whose signature fits the trials that lost frames near the limit, the largest
share first. A cause that would explain less than {units.share(NOTABLE)} of the losses, or of the forwarding thread's
time, is not named.

`pinchpoint explain` changes the bench in one respect and compares it with the unchanged bench: by short trials in turns
(A B, B A) for 25 s at most, or 60 s where a slow host makes few pairs, then by alternating slices, which give the
ratio. Experiments about losses first look for a load at which the unchanged bench loses frames, in up to 15 trials.

| standing | when |
|---|---|
| confirmed | the prediction comes true: the rate rises, a packet costs fewer cycles, fewer frames are lost at the \
same load, or the drop counter vanishes and the rate clearly does not fall |
| excluded | the rate, the losses or the counter stay |
| undecided | otherwise, or two figures contradict each other |

Where turns leave it open, the 95 % interval of the slices' ratio decides: above {1 + EFFECT:g} it confirms, below \
{1 + EFFECT:g} it excludes
(`own-speed`, which predicts no rise: the reverse, at {1 + 2 * EFFECT:g}). Slices do not decide about `tracking-limit`:
the rate may fall without it.

A cause without effect is confirmed with a probability of 5 % at most. This holds for the two benches as built: each is
built once, so builds that differ by more than 5 %, for instance by memory layout, count as an effect. Devices that
cannot be frozen are compared by two searches, without this bound.

All conditions listed under a cause must hold. A missing observation fulfils none, except those with *not*. Where no
counter-experiment is named, the counter is the evidence. What is in force already is not advised.

Of sockets the first that fits is what pinched the rate, of connections the first in the order that
[method.md](method.md) gives. Each thread and each resource is judged by figures of its own.
"""
_SIGNS = ((": at least ", " ≥ "), ("at least ", "≥ "), (": below ", " < "))


def page() -> str:
    """Markdown of docs/causes.md: each cause with its signature, its counter-experiment and what to do."""
    lines = [_HEAD]
    for work, causes in BY_WORKLOAD.items():
        lines += [f"## {work}\n", *(line for cause in causes for line in _section(cause))]
    return "\n".join(lines)


def _section(cause: Cause) -> Iterator[str]:
    yield f"### {cause.name}\n"
    yield f"{cause.title[0].upper()}{cause.title[1:]}.{' No other cause fits, and:' if cause is OWN_SPEED else ''}\n"
    yield from (f"- {_asked(condition)}" for condition in cause.signature)
    yield "" if cause.limit is Limit.NAMED_DROP else f"\n**Pinched by**: {cause.limit.words}.\n"
    if cause.test is not None:
        yield f"**Counter-experiment**: {cause.test.experiment.words}. Predicts: {cause.test.expects}.\n"
    advice = ((own.title, own.advice(cause.name, {})) for own in map(device, kinds()))
    own_words = "".join(f" With {title}: {', or '.join(words)}." for title, words in advice if words)
    yield f"**What to do**: {cause.mend}.{own_words}\n"


def _asked(condition: Condition) -> str:
    text = condition.asks()
    for words, sign in _SIGNS:
        text = text.replace(words, sign)
    return text


if __name__ == "__main__":
    print(page())
