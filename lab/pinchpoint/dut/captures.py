"""Captures that streams replay: the engine looks at them before anything is built."""

import json
from hashlib import sha256

from pinchpoint.engine.process import find_engine
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Scenario


def check_captures(scenario: Scenario, host: Host) -> None:
    """Raises InputError, with file and frame, where one cannot be replayed or has longer frames than the stream."""
    for number, stream in enumerate(scenario.streams, 1):
        if stream.pcap is None:
            continue
        side = ["--source", stream.pcap_source] if stream.pcap_source else []
        side += ["--both-ways"] if stream.pcap_others else []
        ends = ["--from", "mem:a", "--to", "mem:a"]
        try:
            told = host.run([find_engine(host), "send", *ends, "--pcap", stream.pcap, "--replay", *side, "--dry-run"])
        except CommandFailed as error:
            line = error.output.rpartition("\n")[2].removeprefix("pinchpoint-engine: --pcap ")
            raise InputError(f"{scenario.path}: stream[{number}].pcap: {line}") from error
        longest = json.loads(told.splitlines()[-1])["streams"][0]["size"]["fixed"]
        if longest > stream.frame_bytes:
            expected = f"expected frames of at most {stream.frame_bytes:,} bytes (frame_bytes), found {longest:,}"
            raise InputError(f"{scenario.path}: stream[{number}].pcap: {stream.pcap}: {expected}")


def content(path: str, host: Host) -> str:
    """The digest of a capture's content; "unreadable" if the file cannot be read now."""
    try:
        return f"sha256 {sha256(host.read_bytes(path)).hexdigest()}"
    except OSError:
        return "unreadable"


def capture_facts(scenario: Scenario, host: Host) -> dict[str, str]:
    """The captures that streams replay and their content."""
    paths = dict.fromkeys(stream.pcap for stream in scenario.streams if stream.pcap)
    return {f"capture {path}": content(path, host) for path in paths}
