"""What is told of neighbours on the DUT's core, from probes before and after each trial."""

import pytest
from trials import trial

from pinchpoint.account.facts import Widths, core_slowed

ENGINE, PMD = 0, 1  # the engine's worker of `trials` runs on core 0


def probed(*probes, core=PMD):
    """Trials one after the other, each with what was seen before and after it."""
    return [trial(ipc={core: probe}, number=number) for number, probe in enumerate(probes)]


def test_a_core_that_executes_less_than_it_did_is_slowed_before_or_after():
    widths = Widths()
    slowed = [widths.is_slowed(trial) for trial in probed((4.0, 3.9), (4.0, 2.4), (2.4, 4.0), (3.8, 3.8))]
    assert slowed == [False, True, True, False]


def test_what_passed_for_all_of_a_core_is_judged_anew_once_more_was_seen():
    widths = Widths()
    first, wider = probed((2.4, 2.4), (4.0, 4.0))
    assert (widths.is_slowed(first), widths.is_slowed(wider)) == (False, False)
    assert widths.is_slowed(first)
    assert "in 50.0 % of 2 trials" in str(core_slowed([first, wider]))


def test_the_engines_own_core_and_what_was_not_probed_slow_nothing():
    assert core_slowed(probed((4.0, 4.0), (2.0, 2.0), core=ENGINE)) is None
    assert "in 50.0 % of 2 trials" in str(core_slowed([trial(), *probed((None, None), (4.0, None), (2.0, None))]))


def test_the_reader_is_told_how_often_and_how_much():
    told = str(core_slowed(probed((4.0, 4.0), (4.0, 3.0), (2.0, 4.0), (4.0, 4.0))))
    assert "slowed the switch's core 1 in 50.0 % of 4 trials, to 50.0 % of its speed at worst" in told


@pytest.mark.parametrize("slowed", [0, 1])
def test_of_few_nothing_is_told(slowed):
    probes = [(4.0, 4.0)] * 20 + [(4.0, 2.0)] * slowed
    assert core_slowed(probed(*probes)) is None
    assert core_slowed([]) is None
