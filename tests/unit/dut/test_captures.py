"""Captures that streams replay are looked at before anything is built."""

import hashlib
import json

import pytest
from support import scenario_text

from pinchpoint.dut import captures
from pinchpoint.dut.captures import capture_facts, check_captures
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse

REPLAY = parse(scenario_text(more='pcap = "/tmp/web.pcap"\npcap_source = "10.0.0.1"\nframe_bytes = 600'), "x.toml")


class Engine(Host):
    """A host whose engine finds the longest frame to have so many bytes, or says why there is none."""

    def __init__(self, told):
        self.told, self.asked = told, []

    def run(self, argv, **_):
        self.asked.append(tuple(argv[1:]))
        if isinstance(self.told, str):
            raise CommandFailed(argv, self.told)
        return "\n".join(map(json.dumps, ({"type": "open"}, {"streams": [{"size": {"fixed": self.told}}]})))


@pytest.fixture(autouse=True)
def _engine(monkeypatch):
    monkeypatch.setattr(captures, "find_engine", lambda _: "pinchpoint-engine")


def test_the_engine_looks_at_the_side_that_is_sent():
    host = Engine(600)
    check_captures(REPLAY, host)
    (asked,) = host.asked
    assert asked[-6:] == ("--pcap", "/tmp/web.pcap", "--replay", "--source", "10.0.0.1", "--dry-run")
    check_captures(parse(scenario_text(), "x.toml"), quiet := Engine(0))
    assert quiet.asked == []


def test_what_the_engine_finds_wrong_is_wrong_input_in_its_words():
    host = Engine("pinchpoint-engine: --pcap /tmp/web.pcap: frame 3 at byte 99: the file ends inside the record")
    with pytest.raises(
        InputError, match=r"^x.toml: stream\[1\].pcap: /tmp/web.pcap: frame 3 at byte 99: the file ends"
    ):
        check_captures(REPLAY, host)


def test_frames_longer_than_the_scenario_says_are_refused():
    with pytest.raises(InputError, match=r"stream\[1\].pcap: /tmp/web.pcap: expected frames of at most 600 bytes"):
        check_captures(REPLAY, Engine(601))


def test_a_capture_is_known_by_its_content(tmp_path):
    file = tmp_path / "web.pcap"
    replay = parse(scenario_text(more=f'pcap = "{file}"'), "x.toml")
    assert capture_facts(replay, Local()) == {f"capture {file}": "unreadable"}
    for content in (b"one", b"two"):
        file.write_bytes(content)
        assert capture_facts(replay, Local()) == {f"capture {file}": f"sha256 {hashlib.sha256(content).hexdigest()}"}
    assert capture_facts(parse(scenario_text(), "x.toml"), Local()) == {}
