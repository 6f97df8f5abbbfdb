"""The shipped replay of a capture through a real switch: every frame of both sides is counted."""

import pytest
from bench_tools import ROOT, run
from standing_tools import standing

from pinchpoint.scenario.read import load

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("captures are replayed")]
SHIPPED = ROOT / "studies" / "replay" / "web.toml"
LOW_FPS = 2_900
BRIDGE = f"""
title = "a replay through a bridge"
[dut]
kind = "bridge"
cpus = [1]
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
pcap = "{SHIPPED.parent / "web.pcap"}"
pcap_source = "10.0.0.1"
share = 12
[[stream]]
from = "right"
to = "left"
pcap = "{SHIPPED.parent / "web.pcap"}"
pcap_source = "10.0.0.1"
pcap_others = true
share = 17
"""


def replayed(scenario):
    with standing(scenario) as (_, trial):
        low = trial(LOW_FPS)
    account = low.ledger
    assert account.unexplained == 0 and account.received == account.offered > 0, account
    client, server = low.streams
    assert (client.lost, server.lost) == (0, 0)
    # Of the client's 12 frames 2 have room for a signature, of the server's 17 these are 13.
    assert 0 < client.latency.count < server.latency.count < server.received


@pytest.mark.needs("dpdk")
def test_both_sides_of_the_shipped_capture_pass_a_switch_and_every_frame_is_counted():
    replayed(load(SHIPPED))


def test_both_sides_of_the_shipped_capture_pass_a_bridge_and_every_frame_is_counted(tmp_path):
    path = tmp_path / "bridge.toml"
    path.write_text(BRIDGE)
    replayed(load(path))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda whole: whole[:-7], "frame 29 at byte"),
        (lambda whole: whole[:20] + (113).to_bytes(4, "little") + whole[24:], "link type 113"),
    ],
)
def test_a_capture_that_cannot_be_replayed_is_one_line_with_its_frame_and_nothing_is_built(tmp_path, damage, told):
    path = tmp_path / "bridge.toml"
    (tmp_path / "web.pcap").write_bytes(damage((SHIPPED.parent / "web.pcap").read_bytes()))
    path.write_text(BRIDGE.replace(f"{SHIPPED.parent}/", ""))
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 2, done.stderr
    assert told in done.stderr and "stream[1].pcap: " in done.stderr
