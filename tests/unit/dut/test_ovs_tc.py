"""Megaflows in tc: what software handled is counted, not believed; output that cannot be read says nothing."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.causes.signs import offload_truth
from pinchpoint.dut.ovs import DEVICE
from pinchpoint.dut.ovs.collectors import Filtered, FilterListing, TcFilters, filters
from pinchpoint.dut.ovs.text import upcall_state
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.model.offload import Offload
from pinchpoint.observe.snapshot import Snapshot, difference, together
from pinchpoint.scenario import parse

signs = DEVICE.signs

CLAIMED = {"ovs/offload/yes": 1.0, "ovs/offload/partial": 0.0, "ovs/offload/no": 0.0}
ENTERED = {"ovs/port/left/rx_pkts": 1000, "ovs/lookups/hit": 3, "ovs/lookups/missed": 1}


def shown(packets, hardware=None, chain=0, handle=1, **flags):
    stats = {"bytes": 60 * packets, "packets": packets, "drops": 0}
    if hardware is not None:
        stats |= {"sw_packets": packets - hardware, "hw_packets": hardware}
    actions = [{"order": 1, "kind": "mirred", "stats": stats}, {"order": 2, "kind": "gact", "stats": stats}]
    options = {"handle": handle, "keys": {"eth_type": "ipv4"}, "actions": actions, **flags}
    return {"protocol": "ip", "pref": 2, "kind": "flower", "chain": chain, "options": options}


def listing(*ones):
    head = {"protocol": "ip", "pref": 2, "kind": "flower", "chain": 0}  # of the priority itself, without options
    by_name = filters(json.dumps([head, *ones]), "left")
    return FilterListing({name: counts for name, (counts, _) in by_name.items()})


def word_of(*ones):
    seen = listing(*ones).counted(listing())
    return offload_truth(signs({**CLAIMED, **ENTERED, **seen}), {}).word


def test_frames_of_a_filter_are_those_of_its_first_action_in_software_and_hardware():
    by_name = filters(json.dumps([shown(7, hardware=5, in_hw=True), shown(3, handle=2, not_in_hw=True)]), "left")
    assert by_name == {
        ("left", 0, 2, 1): (Filtered(software=2, hardware=5, dropped=0), True),
        ("left", 0, 2, 2): (Filtered(software=3, hardware=0, dropped=0), False),
    }


def test_a_claim_is_held_against_what_the_filters_counted():
    assert word_of(shown(996)) is Offload.CLAIMED
    assert word_of(shown(996, hardware=996)) is Offload.PROVEN
    assert word_of(shown(996, hardware=400)) is Offload.PARTIAL


def test_without_the_filters_counters_a_claim_is_unknown_although_the_datapath_saw_nothing():
    """The datapath's lookups do not see what tc forwards in software."""
    assert offload_truth(signs({**CLAIMED, **ENTERED}), {}).word is Offload.UNKNOWN


def test_a_flow_in_tc_is_claimed_by_upcall_show_where_its_own_flag_says_nothing():
    flags = {"ovs/offload/yes": 0.0, "ovs/offload/partial": 0.0, "ovs/offload/no": 2.0, "ovs/flows/offloaded": 1.0}
    seen = listing(shown(996)).counted(listing())
    offload = offload_truth(signs({**flags, **ENTERED, **seen}), {})
    assert (offload.word, offload.claimed) == (Offload.CLAIMED, 0.5)
    assert upcall_state("  flows         : (current 2) (avg 1) (max 2) (limit 10000)\n  offloaded flows : 1\n") == {
        "flows": 2,
        "flow_limit": 10_000,
        "offloaded": 1,
    }


def test_a_frame_that_passes_two_chains_counts_once():
    assert word_of(shown(500, hardware=500), shown(500, handle=2), shown(500, chain=7, handle=3)) is Offload.PARTIAL


def test_a_filter_that_was_made_anew_counts_from_its_beginning():
    before, after = listing(shown(900)), listing(shown(40), shown(7, handle=2))
    assert after.counted(before) == {"ovs/tc/software": 47, "ovs/tc/hardware": 0, "ovs/tc/dropped": 0}


def test_hardware_is_believed_only_where_it_counted():
    """Filters that ended between two readings took their frames along."""
    assert word_of() is Offload.UNKNOWN
    assert word_of(shown(100, hardware=100)) is Offload.UNKNOWN


def test_over_many_readings_frames_add_up():
    """A watch concludes from all of them: what entered is of all, so what tc counted must be, too."""
    readings = [Snapshot(at, listing=listing(shown(100 * at))) for at in range(1, 12)]
    parts = [difference(before, after) for before, after in pairwise(readings)]
    assert together(parts).differences["ovs/tc/software"] == 1000


class Tc(Local):
    """A machine on which tc prints a text, or fails."""

    def __init__(self, said):
        self.said = said

    def run(self, argv, *_, **__):
        if self.said is None:
            raise CommandFailed(argv, "Cannot find device")
        return self.said


@pytest.mark.parametrize("said", ["[{", '{"a": 1}', '[{"options": {"actions": [{"stats": {"packets": "7"}}]}}]'])
def test_what_cannot_be_read_leaves_the_truth_unknown(said):
    seen = TcFilters(Tc(said), None, ["left"]).snapshot()
    assert not seen.gauges and seen.listing is None


def test_an_interface_that_the_kernel_does_not_know_has_no_filters():
    assert TcFilters(Tc(None), None, ["patch"]).snapshot().gauges == {"ovs/tc/filters": 0.0, "ovs/tc/in_hw": 0.0}


def test_no_filters_are_no_frames():
    seen = TcFilters(Tc(""), None, ["left", "right"]).snapshot()
    assert seen.gauges == {"ovs/tc/filters": 0.0, "ovs/tc/in_hw": 0.0}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)
COUNT = st.integers(-(2**70), 2**70) | st.integers(0, 2**32)
STATS = st.fixed_dictionaries({}, optional={"packets": COUNT, "hw_packets": COUNT, "drops": COUNT, "bytes": ANY})
ACTIONS = st.lists(st.fixed_dictionaries({}, optional={"stats": STATS, "kind": ANY}) | ANY, max_size=3)
FILTER = st.fixed_dictionaries(
    {}, optional={"pref": COUNT, "chain": COUNT, "options": st.fixed_dictionaries({"actions": ACTIONS}) | ANY}
)


@given(st.lists(FILTER | ANY, max_size=4) | ANY)
def test_any_json_is_filters_with_counts_or_an_error(value):
    try:
        by_name = filters(json.dumps(value), "left")
    except msgspec.DecodeError:
        return
    assert all(min(counts.software, counts.hardware, counts.dropped) >= 0 for counts, _ in by_name.values())


SCENARIO = """
title = "t"
[dut]
kind = "ovs"
pmd_cpus = [1]
rules = "in_port={left},actions=output:{right}"
DUT
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""


@pytest.mark.parametrize(
    ("dut", "expected"),
    [
        ('datapath = "tc"\nhw_offload = false', "dut.hw_offload.*true where dut.datapath"),
        ('datapath = "kernel"\ntc_policy = "skip_hw"', 'dut.tc_policy.*dut.datapath = "tc"'),
        ('datapath = "tc"\nother_config = {"tc-policy" = "skip_hw"}', "use dut.tc_policy"),
    ],
)
def test_what_contradicts_tc_is_refused(dut, expected):
    with pytest.raises(InputError, match=expected):
        parse(SCENARIO.replace("DUT", dut), "tc.toml")


def test_tc_is_a_datapath_of_the_kernel():
    wanted = parse(SCENARIO.replace("DUT", 'datapath = "tc"\ntc_policy = "skip_hw"'), "tc.toml")
    assert wanted.dut.datapath == "tc" and not wanted.dut.polls
