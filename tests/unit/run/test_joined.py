"""Recordings of several hosts along one path: clocks are aligned, and the wire that loses frames is named."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinchpoint.cli.main import main
from pinchpoint.dut.registry import device
from pinchpoint.model.errors import InputError
from pinchpoint.model.watch import Reading, RecordHead
from pinchpoint.report.observed import joined_view
from pinchpoint.run.joined import joined
from pinchpoint.run.watch import Recording
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.recording import LATEST_S, LONGEST_S, Recorder

OVS = device("ovs")
NUMBERS = random.Random(5)
RATES = [NUMBERS.uniform(500, 5000) for _ in range(90)]


def recording(host, carried, ahead_s=0.0, begin=0, end=90, ports=("vm", "uplink")):
    """A host that forwards from its first port to its last; `carried` (received, sent) shares of the rate."""
    received, sent = carried
    head = RecordHead(SCHEMA, "ovs", "dpdk", "/run/x", ports, host, "")
    first, last = ports[0], ports[-1]
    readings = [
        Reading(
            1e9 + ahead_s + second + 1.0,
            1.0,
            {
                f"ovs/port/{first}/rx_pkts": round(received * RATES[second]),
                f"ovs/port/{first}/tx_pkts": 3,
                f"ovs/port/{last}/tx_pkts": round(sent * RATES[second]),
                f"ovs/port/{last}/rx_pkts": 3,
            },
            {},
        )
        for second in range(begin, end)
    ]
    return Recording(OVS, head, tuple(readings))


def path(**second):
    """Three hosts in a row; the wire between the last two loses a fifth."""
    return [
        recording("a", (1, 1)),
        recording("b", (1, 1), ports=("in", "out"), **second),
        recording("c", (0.8, 0.8), ports=("uplink", "vm")),
    ]


@pytest.mark.parametrize("ahead_s", [0.0, 12.0, -20.0])
def test_the_wire_that_loses_frames_is_named_whatever_the_clocks_say(ahead_s):
    joint = joined(path(ahead_s=ahead_s))
    good, bad = joint.wires
    assert (good.hosts, good.ports) == (("a", "b"), ("uplink", "in"))
    assert (bad.hosts, bad.ports) == (("b", "c"), ("out", "uplink"))
    assert good.ahead_s == pytest.approx(ahead_s, abs=0.01)
    assert bad.ahead_s == pytest.approx(-ahead_s, abs=0.01)
    assert good.there.lost == good.back.lost == bad.back.lost == 0
    assert bad.there.lost / bad.there.sent == pytest.approx(0.2, abs=0.01)
    (sentence,) = joined_view(joint).losses
    assert "vanish between b out and c uplink, 20.0 % of what is sent" in sentence


def test_only_the_time_that_all_share_counts():
    first, _, third = path()
    short = recording("b", (1, 1), ports=("in", "out"), begin=20, end=70)
    assert joined([first, short, third]).seconds == pytest.approx(50)


def test_what_the_ends_of_the_time_cut_in_two_is_no_loss():
    late = [replace(reading, at_s=reading.at_s + 0.4) for reading in recording("b", (1, 1)).readings[7:80]]
    (wire,) = joined([recording("a", (1, 1)), replace(recording("b", (1, 1)), readings=tuple(late))]).wires
    assert (wire.there.lost, wire.back.lost) == (0, 0)


def test_ports_that_are_named_are_believed():
    first, second = recording("a", (1, 1)), recording("b", (1, 1), ahead_s=12.0)
    (wire,) = joined([first, second], [("vm", "uplink")]).wires
    assert (wire.ports, wire.there.sent) == (("vm", "uplink"), wire.there.received)
    assert wire.ahead_s == pytest.approx(12.0), "frames may go the other way"
    with pytest.raises(InputError, match="no port nowhere"):
        joined([first, second], [("vm", "nowhere")])


def test_rates_that_do_not_tell_leave_the_clocks_as_they_are_and_say_so():
    def steady(host):
        readings = [Reading(1e9 + second, 1.0, {"ovs/port/p/rx_pkts": 100, "ovs/port/p/tx_pkts": 100}, {})
                    for second in range(30)]  # fmt: skip
        return Recording(OVS, RecordHead(SCHEMA, "ovs", "dpdk", "/run/x", ("p",), host, ""), tuple(readings))

    joint = joined([steady("a"), steady("b")])
    (wire,) = joint.wires
    assert (wire.ahead_s, wire.ports, wire.there.lost) == (None, ("", ""), 0)
    assert "do not show which ports are joined" in joined_view(joint).clocks[0]


def test_without_common_time_or_readings_there_is_no_path():
    with pytest.raises(InputError, match="no time in common"):
        joined([recording("a", (1, 1), end=3), recording("b", (1, 1), begin=80)])
    with pytest.raises(InputError, match="recording of b has no reading"):
        joined([recording("a", (1, 1)), recording("b", (1, 1), end=0)])


def kept(folder, record):
    path = folder / f"{record.head.host}.jsonl"
    recorder = Recorder(path, record.head)
    for reading in record.readings:
        recorder.keep(reading)
    recorder.close()
    return str(path)


def test_files_of_several_hosts_are_joined_on_the_command_line(tmp_path, capsys):
    files = [kept(tmp_path, recording) for recording in path(ahead_s=12.0)]
    assert main(["watch", *files]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the clock of b is 12 s ahead of that of a" in said
    assert "vanish between b out and c uplink" in said
    assert main(["watch", "--json", *files]) == 0
    assert [wire["hosts"] for wire in json.loads(capsys.readouterr().out)["joined"]["wires"]] == [
        ["a", "b"],
        ["b", "c"],
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("{file}", "{folder}"), "expected a recording"),
        (("{file}", "{file}", "--wire", "a=b", "--wire", "c=d"), "expected 1 --wire for 2 recordings, found 2"),
        (("{file}", "{file}", "--wire", "a"), "expected PORT=PORT"),
        (("{file}", "{file}", "--wire", "a=b"), "no port a"),
        (("--wire", "a=b"), "joins the recordings"),
    ],
)
def test_what_cannot_be_joined_is_bad_input(words, why, tmp_path, capsys):
    file = kept(tmp_path, recording("a", (1, 1)))
    assert main(["watch", *(word.format(file=file, folder=tmp_path) for word in words)]) == 2
    assert why in capsys.readouterr().err


Times = st.one_of(st.floats(0, LATEST_S), st.floats(1e9, 1e9 + 100))
Lengths = st.one_of(st.floats(0, LONGEST_S, exclude_min=True), st.floats(0.1, 3.0))
Readings = st.lists(
    st.builds(
        Reading, Times, Lengths,
        st.dictionaries(st.sampled_from(["ovs/port/vm/rx_pkts", "ovs/port/uplink/tx_pkts"]), st.integers(0, 2**63)),
        st.just({}),
    ),
    max_size=6,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(Readings)
def test_whatever_a_recording_says_it_is_joined_or_refused(readings):
    other = recording("a", (1, 1))
    hostile = Recording(OVS, recording("b", (1, 1)).head, tuple(readings))
    try:
        joint = joined([other, hostile])
    except InputError:
        return
    joined_view(joint)
