"""Another generator: what its command may name, and what is made of what it sent. Real ones: tests/bench."""

import re
from pathlib import Path

import pytest

from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.model.measurement import Foreign, Wire
from pinchpoint.observe.relay import InspectedPort, SeenAtPort
from pinchpoint.report.observed import generator_lines
from pinchpoint.run.external_generator import EAL, SERVING, _printed, _sent, arguments

DOCS = Path(__file__).parents[3] / "docs"
KERNEL = Wire(carries=False, busy=0.4, still=0.0)
PORTS = {"left": "veth-l", "right": "/run/a b/right.sock"}
SEEN = SeenAtPort(
    port="right@bench",
    frames=5_000,
    bytes=5_000 * 60,
    shortest=60,
    longest=60,
    first_s=0.5,
    last_s=1.0,
    longest_silence_s=0.002,
    most_in_short_period=11,
    dispersion=0.2,
    long_period_s=0.1,
    by_long_period=(1_000, 1_010, 990, 1_000),
    checked=5_000,
    wrong_checksums=0,
    not_ip=0,
    flows=64,
    flows_at_least=False,
    answered_flows=0,
)


def sent(sender="left", missed=0, **changes):
    return _sent(sender, InspectedPort("right@bench", missed), SeenAtPort(**{**_fields(), **changes}))


def _fields():
    return {name: getattr(SEEN, name) for name in SEEN.__struct_fields__}


def text(*of_ports, wire=KERNEL, own_fps=None):
    return "\n".join(generator_lines(Foreign("send it", "ended by itself", wire, of_ports), own_fps))


def test_a_port_in_braces_is_replaced_and_no_shell_sees_the_words():
    assert arguments(Local(), "echo {left} 'a b' $HOME {right}", PORTS) == [
        "echo",
        "veth-l",
        "a b",
        "$HOME",
        PORTS["right"],
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [("echo {middle}", "{middle} is no port"), ("echo '", "No closing quotation"), ("  ", "expected a command")],
)
def test_a_command_that_cannot_be_run_is_bad_input(command, expected):
    with pytest.raises(InputError, match=expected):
        arguments(Local(), command, PORTS)


def test_other_braces_are_the_commands_own():
    packet = "{ ipv4(da=1.2.3.4), udp() }"
    assert arguments(Local(), f"echo '{packet}' {{left}}", PORTS) == ["echo", packet, "veth-l"]


def test_a_wire_of_which_one_end_is_not_served_is_bad_input():
    with pytest.raises(InputError, match=re.escape("serve {right}, too")):
        arguments(Local(), "echo {left}", PORTS, serves_all=True)


def test_a_program_that_is_not_there_is_a_requirement():
    with pytest.raises(RequirementError, match="no-such-generator: not installed"):
        arguments(Local(), "no-such-generator {left}", PORTS)


def test_what_a_generator_printed_last_is_told_from_its_errors_first(tmp_path):
    assert _printed(Local(), str(tmp_path)) == ""
    (tmp_path / "generator.out").write_text("Port statistics\n")
    assert _printed(Local(), str(tmp_path)) == "Port statistics"
    (tmp_path / "generator.err").write_text("EAL: one\nvirtio: two\nvirtio: too many memory regions\nEAL: four\n")
    assert _printed(Local(), str(tmp_path)) == "virtio: two | virtio: too many memory regions | EAL: four"


def test_docs_have_the_options_that_the_hint_names():
    (command,) = re.findall(r'`--generator "(dpdk-testpmd [^"]+)"`', (DOCS / "engine.md").read_text())
    assert command.startswith(f"dpdk-testpmd {EAL} ") and EAL in SERVING
    assert {name for name in PORTS if f"path={{{name}}},server=1" in command} == set(PORTS)


def test_the_rate_is_that_of_whole_periods_and_sizes_include_the_check_sequence():
    said = text(sent())
    assert "left: 10.0 kpps, 5 to 95 % of the time 9.91 kpps to 10.1 kpps, 64 B, 64 flows" in said
    assert "no wrong checksums in 5,000 frames" in said and "came evenly" in said and "one way; ended by itself" in said


def test_frames_that_were_missed_count_as_sent():
    said = text(sent(missed=5_000))
    assert "20.0 kpps on average over 0.5 s" in said and "5,000 more frames came too fast" in said
    assert "at least 64 flows" in said


def test_wrong_checksums_bursts_and_frames_that_are_no_ip_are_named():
    said = text(sent(wrong_checksums=17, dispersion=40.0))
    assert "17 wrong checksums in 5,000 frames" in said and "came in bursts" in said
    assert "no IP" in text(sent(not_ip=5_000, flows=0))


def test_both_ways_are_told_from_two_ways_that_do_not_belong_together():
    assert "both ways, in flows of their own" in text(sent(), sent("right"))
    answered = {"answered_flows": 64}
    assert "both ways, 100 % of the flows answered" in text(sent(**answered), sent("right", **answered))


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        (Wire(carries=True, busy=0.99, still=0.0), "it may be the limit"),
        (Wire(carries=True, busy=0.3, still=0.2), "does the generator use it"),
    ],
)
def test_where_the_wire_may_have_been_the_limit_the_rate_is_a_lower_bound(wire, why):
    said = text(sent(), wire=wire)
    assert "at least 10.0 kpps" in said and why in said


def test_nothing_is_said_of_frames_that_nobody_looked_into():
    said = text(sent(missed=9, frames=0, bytes=0, first_s=None, last_s=None, by_long_period=(), checked=0, flows=0))
    assert "none was inspected" in said and "checksum" not in said and " B," not in said
    assert "both ways, at least 0.00 %" in text(sent(frames=9_999), sent("right", frames=9_999))


def test_where_the_reading_core_stood_still_nothing_is_said_of_evenness():
    assert "how evenly is not known" in text(sent(), wire=Wire(carries=False, busy=0.4, still=0.2))


def test_a_silent_generator_sent_nothing():
    silent = sent(frames=0, bytes=0, first_s=None, last_s=None, by_long_period=(), checked=0, flows=0)
    assert text(silent) == "the generator sent nothing (ended by itself): send it"


def test_it_stands_beside_what_the_engine_offers():
    assert "it sent 2.00 times the 5.00 kpps" in text(sent(), own_fps=5_000.0)
