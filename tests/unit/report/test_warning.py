"""Warnings are one closed set: each kind is made somewhere, and says what to try."""

import re
from pathlib import Path
from string import Formatter

import pytest

import pinchpoint
from pinchpoint.model.warning import ResultWarning, Warn

PACKAGE = Path(pinchpoint.__file__).parent


def test_a_warning_has_its_kind_its_figures_and_what_to_try() -> None:
    told = Warn.NO_MRR.of("noise", usable=3, trials=12, load_fps=7.1e6)
    assert told == ResultWarning(
        Warn.NO_MRR,
        "no MRR: 3 of 12 trials at 7.10 Mpps had a usable account; the last one: noise",
        Warn.NO_MRR.advice,
        {"usable": 3, "trials": 12, "load_fps": 7.1e6},
    )
    assert str(told) == told.text


def test_who_knows_better_what_to_try_says_so_and_a_part_is_named() -> None:
    told = Warn.LATE_FRAMES.of(advice="shorten the queue", late=1).at("B")
    assert (told.advice, told.text) == (
        "shorten the queue",
        "B: 1 frame came so late that they were counted as lost first",
    )
    assert told.values == {"late": 1, "at": "B"}


def test_braces_in_what_others_said_are_theirs() -> None:
    assert Warn.OTHER.of("{late} {}").text == "{late} {}"


def test_a_figure_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError, match="late"):
        Warn.LATE_FRAMES.of()


@pytest.mark.parametrize("kind", [kind for kind in Warn if kind is not Warn.OTHER])
def test_each_kind_is_made_somewhere_and_says_what_to_try(kind: Warn) -> None:
    assert kind.advice and not kind.advice.endswith(".") and kind.advice[0].islower()
    assert kind.value == kind.name.lower()
    made = re.compile(rf"\bWarn\.{kind.name}\b")
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "warning.py"]
    assert any(made.search(path.read_text()) for path in files), kind


def test_every_figure_of_a_sentence_has_a_name() -> None:
    for kind in Warn:
        names = [name for _, name, _, _ in Formatter().parse(kind.template) if name is not None]
        assert all(name.isidentifier() for name in names), kind
