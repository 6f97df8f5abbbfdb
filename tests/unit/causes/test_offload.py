"""Four words for an offload: by what software saw, whatever the flag says."""

import pytest

from pinchpoint.causes.signs import offload_truth
from pinchpoint.causes.verdict import likely
from pinchpoint.dut.registry import device
from pinchpoint.model.causes import Sign, Signs
from pinchpoint.model.offload import Offload


@pytest.mark.parametrize(
    ("software", "word"),
    [
        (0.0, Offload.PROVEN),
        (0.01, Offload.PROVEN),
        (0.4, Offload.PARTIAL),
        (0.995, Offload.CLAIMED),
        (1.02, Offload.CLAIMED),  # counters read one after the other
        (None, Offload.UNKNOWN),
    ],
)
def test_software_that_saw_the_frames_is_no_hardware(software, word):
    offload = offload_truth({Sign.CLAIMED: 1.0} | ({} if software is None else {Sign.SOFTWARE: software}), {})
    assert offload.word is word
    assert (offload.hardware is None) == (software is None)
    assert offload.sentence.startswith(word)


def test_without_a_claim_there_is_nothing_to_prove():
    assert offload_truth({Sign.SOFTWARE: 1.0}, {}) is None
    assert offload_truth({Sign.SOFTWARE: 1.0, Sign.CLAIMED: 0.0}, {}) is None


def test_a_lying_flag_is_a_cause_and_an_honest_one_is_not():
    lying = Signs({Sign.CLAIMED: 1.0, Sign.SOFTWARE: 1.0})
    assert [suspicion.cause for suspicion in likely(lying)] == ["false-offload"]
    assert not likely(Signs({Sign.CLAIMED: 1.0, Sign.SOFTWARE: 0.02}))


def flows(yes, no):
    return {"ovs/offload/yes": yes, "ovs/offload/partial": 0, "ovs/offload/no": no, "ovs/port/nic/rx_pkts": 1000}


def test_threads_or_lookups_tell_what_software_saw():
    signs = device("ovs").signs
    threads = signs({**flows(3, 1), "ovs/pmd/core1/packets_received": 100, "ovs/pmd/main/packets_received": 100})
    assert (threads[Sign.CLAIMED], threads[Sign.SOFTWARE]) == (0.75, 0.2)
    kernel = signs({**flows(1, 0), "ovs/lookups/hit": 900, "ovs/lookups/missed": 100})
    assert kernel[Sign.SOFTWARE] == 1.0
    assert Sign.CLAIMED not in signs({"ovs/port/nic/rx_pkts": 1000})
    assert Sign.SOFTWARE not in signs(flows(1, 0))
