"""The keys of soak, recovery and blocked: their defaults, and what does not fit together."""

import pytest
from support import scenario_text

from pinchpoint.measure.blocked.run import Blocked
from pinchpoint.measure.recovery.run import Recovery
from pinchpoint.measure.soak.run import Soak
from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse


def read(measure, more="", datapath="dpdk"):
    return parse(scenario_text(measure, more, datapath), "a.toml")


def test_defaults_are_those_of_the_standard():
    assert read("soak").measure == Soak(None, 0.9, 3600.0, 10.0)
    assert read("recovery").measure == Recovery(None, 1.1, 60.0, 0.5, 10.0, 5)
    scenario = read("blocked", '[blocked]\naction = "add-flows"')
    assert scenario.measure == Blocked("add-flows", 1000, {}, 100_000.0, 1.0, 2.0, 5)


@pytest.mark.parametrize(
    ("measure", "more", "datapath", "words"),
    [
        ("soak", "[soak]\nduration_s = 5\nwindow_s = 6", "dpdk", "expected at most soak.duration_s, found 6 and 5"),
        ("rates", "[soak]\nshare = 0.5", "dpdk", 'expected measure = "soak"'),
        ("blocked", "", "dpdk", "expected a table [blocked]"),
        ("blocked", '[blocked]\naction = "reboot"', "dpdk", '"none" or "add-flows"'),
        ("blocked", '[blocked]\naction = "rebalance"', "af_packet", "another one where dut.datapath is"),
        ("blocked", '[blocked]\naction = "settings"', "dpdk", "missing"),
        ("blocked", '[blocked]\naction = "none"\nsettings = {x = 1}', "dpdk", "expected none"),
        ("blocked", '[blocked]\naction = "settings"\nsettings = {dpdk-init = true}', "dpdk", "only when it starts"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(measure, more, datapath, words):
    with pytest.raises(InputError) as refused:
        read(measure, more, datapath)
    assert words in str(refused.value)


def test_a_core_of_the_switch_may_change_while_it_runs():
    more = '[blocked]\naction = "settings"\nsettings = {pmd-cpu-mask = "0x6"}'
    assert read("blocked", more).measure.settings == {"pmd-cpu-mask": "0x6"}
