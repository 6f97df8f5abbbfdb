"""Lost frames that no counter names: how many they are, and between which two places they vanish. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pinchpoint.model import units
from pinchpoint.model.trial import Ledger, Trial, TrialValidity


def unexplained_share(trials: Sequence[Trial]) -> float:
    """Lost frames that no counter names, over the frames offered, of all valid trials together; 0 without any."""
    valid = [trial for trial in trials if trial.validity is TrialValidity.VALID]
    offered = sum(trial.offered for trial in valid)
    return unexplained_frames(valid) / offered if offered else 0.0


def unexplained_frames(trials: Sequence[Trial]) -> int:
    """Of valid trials. One that counters overbook by a few frames does not make up for another."""
    return sum(max(0, trial.ledger.unexplained) for trial in trials if trial.validity is TrialValidity.VALID)


def place(trials: Sequence[Trial]) -> str:
    """Where most of them vanish, for people, e.g. `between "switch sends" and "engine receives"`.

    Counters that were reset meanwhile are named: what they counted is not known.
    """
    lost: Counter[str] = Counter()
    resets: dict[str, None] = {}
    for trial in trials:
        if trial.validity is TrialValidity.VALID and trial.ledger.unexplained > 0:
            lost.update(dict(_leaks(trial.ledger)))
            resets |= dict.fromkeys(trial.ledger.resets)
    worst = lost.most_common(1)
    words = worst[0][0] if worst and worst[0][1] > 0 else "at a place that no counter shows"
    if resets:
        words += f"; counters went back during the trials ({', '.join(resets)}): a port or the switch was restarted"
    return words


def _leaks(ledger: Ledger) -> Iterator[tuple[str, int]]:
    """Each place with the frames that vanish there: within a hop, or on the way to the next one that counts."""
    sent: tuple[str, int] | None = None
    for hop in ledger.hops:
        if sent is not None and hop.frames_in is not None:
            yield f'between "{sent[0]}" and "{hop.name}"', max(0, sent[1] - hop.frames_in)
        dropped = sum(drop.frames for drop in hop.drops)
        if hop.frames_in is not None and hop.frames_out is not None:
            yield f'in "{hop.name}"', max(0, hop.frames_in - hop.frames_out - dropped)
        if hop.frames_out is not None:
            sent = (hop.name, hop.frames_out)
        elif hop.frames_in is not None:
            sent = (hop.name, hop.frames_in - dropped)


def words(trials: Sequence[Trial]) -> str:
    """How many of the offered frames are unexplained, and where, for people."""
    share = unexplained_share(trials)
    offered = sum(trial.offered for trial in trials if trial.validity is TrialValidity.VALID)
    counts = f"{units.frames(unexplained_frames(trials))} of {units.frames(offered)} offered frames"
    return f"no counter names {counts} ({units.share(share)}) that were lost, most of them {place(trials)}"
