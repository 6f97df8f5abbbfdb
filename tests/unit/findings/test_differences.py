"""What differs between two benches is found wherever it stands, and said in the words of scenario files."""

from dataclasses import replace

import pytest
from comparisons import run_info
from sweeps import base

from pinchpoint.dut.ovs.spec import RuleSeries
from pinchpoint.findings import differences
from pinchpoint.model.effective import flat
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.model.site import Remote, Site
from pinchpoint.scenario.plain import to_plain

PLAIN = base()


def changed(**parts):
    return to_plain(replace(PLAIN, **parts))


def with_dut(**parts):
    return changed(dut=replace(PLAIN.dut, **parts))


def told(a, b):
    return [(difference.what, difference.a, difference.b) for difference in differences.scenarios(a, b)]


def test_a_scenario_differs_from_itself_in_nothing_whatever_it_is_called():
    assert told(to_plain(PLAIN), changed(name="other", title="other", path="/elsewhere/x.toml")) == []


def test_keys_are_called_as_in_the_file():
    tuned = with_dut(tuning=replace(PLAIN.dut.tuning, smc=True))
    assert told(to_plain(PLAIN), tuned) == [("dut.smc", "none", "true")]
    stream = replace(PLAIN.streams[0], frame_bytes=512)
    assert told(to_plain(PLAIN), changed(streams=(stream,)))[0][0] == "stream[1].frame_bytes"


def test_a_key_of_ones_own_that_only_one_side_has_is_told_and_nothing_else():
    tuned = to_plain(base(dut__other_config={"pmd-auto-lb": "true"}))
    assert told(to_plain(PLAIN), tuned) == [("dut.other_config.pmd-auto-lb", "none", "true")]
    assert told(tuned, to_plain(PLAIN)) == [("dut.other_config.pmd-auto-lb", "true", "none")]


def test_a_key_that_another_version_wrote_differs_unless_its_file_left_it_to_its_default():
    newer, older = to_plain(PLAIN), to_plain(PLAIN)
    del older["numa"]
    assert "numa" in PLAIN.defaulted
    assert told(older, newer) == told(newer, older) == []
    assert told(older, newer | {"defaulted": []}) == [("numa", "none", "any")]
    assert told(older | {"defaulted": []}, newer) == []


def test_a_bench_on_another_host_is_compared_with_one_of_a_version_without_sites():
    newer = changed(sites=(Site(Remote("far", "me@far", True, 60.0)),))
    (site,) = newer["sites"]
    older = {**to_plain(PLAIN), "remote": site["remote"], "engines": []}
    del older["sites"]
    assert told(older, newer) == []
    assert ("sites[1].remote.address", "none", "me@far") in told(to_plain(PLAIN), newer)


def test_a_bridge_that_a_version_without_series_of_rules_wrote_can_be_compared():
    plain = to_plain(PLAIN)
    (bridge,) = plain["dut"]["bridges"]
    older = {key: value for key, value in bridge.items() if key != "rule_series"}
    assert told(plain | {"dut": plain["dut"] | {"bridges": [older]}}, plain) == []


def test_ranges_are_written_as_addresses():
    stream = PLAIN.streams[0]
    wider = changed(streams=(replace(stream, ipv4_dst=replace(stream.ipv4_dst, first=0x30000001, count=2)),))
    ((what, _, value),) = [difference for difference in told(to_plain(PLAIN), wider) if "ipv4_dst" in difference[0]]
    assert (what, value) == ("stream[1].ipv4_dst", "48.0.0.1-48.0.0.2")


@pytest.mark.parametrize(
    ("key", "first", "count", "words"),
    [
        ("ipv4_dst", 0x30000001, 255, "48.0.0.1-48.0.0.255"),
        ("clients", 0x10000001, 1, "16.0.0.1"),
        ("local", (0xFD00 << 112) + 1, 2, "fd00::1-fd00::2"),
        ("udp_src", 1025, 64511, "1025-65535"),
        ("local_ports", 5000, 1, "5000"),
    ],
)
def test_a_range_is_one_setting_in_the_words_of_the_file(key, first, count, words):
    assert list(flat({key: {"first": first, "count": count}})) == [(key, words)]


@pytest.mark.parametrize(("first", "count"), [("x", 2), (1 << 128, 1), (-1, 3), (5, 0), (None, None)])
def test_a_stored_range_that_is_none_is_shown_as_it_stands(first, count):
    assert [key for key, _ in flat({"clients": {"first": first, "count": count}})] == ["clients.first", "clients.count"]


def test_headers_of_a_stream_are_told_as_the_file_has_them() -> None:
    layers = [{"ethernet": {}}, {"vlan": {"id": {"first": 10, "count": 4}}}]

    rows = dict(flat({"streams": [{"layers": layers}]}))

    assert rows["stream[1].layers[2]"] == "{vlan = {id = {first = 10, count = 4}}}"


def test_rules_are_compared_by_their_text_so_that_one_more_does_not_move_all_others():
    bridge = PLAIN.dut.bridges[0]
    first = replace(bridge.rules[0], text="priority=9,actions=drop")
    longer = replace(bridge, rules=(first, *bridge.rules), rule_series=(RuleSeries("actions=drop", 5),))
    assert told(to_plain(PLAIN), with_dut(bridges=(longer,))) == [
        ("rules of br0", "none", "priority=9,actions=drop"),
        ("rules of br0", "none", "5 x actions=drop from i = 0"),
    ]


def test_versions_and_hosts_of_two_runs_are_compared():
    a = run_info([PLAIN], versions={"pinchpoint": "1", "switch ovs_version": "3.1.0"}, host={"kernel": "6.1"})
    b = run_info([PLAIN], versions={"pinchpoint": "2", "switch ovs_version": "3.1.0"}, host={"kernel": "6.12"})
    differing = differences.between(a.scenarios[0], b.scenarios[0], ({"smc-enable": "true"}, {}), (a, b))
    assert [(difference.what, difference.a, difference.b) for difference in differing.versions] == [
        ("pinchpoint", "1", "2")
    ]
    assert [difference.what for difference in differing.host] == ["kernel"]
    assert [(difference.what, difference.a, difference.b) for difference in differing.in_force] == [
        ("smc-enable", "true", "none")
    ]


def test_a_capture_that_was_written_over_differs():
    sides = [run_info([PLAIN], versions={"capture /web.pcap": f"sha256 {digest}"}) for digest in ("aa", "bb")]
    (difference,) = differences.between(*(side.scenarios[0] for side in sides), ({}, {}), (sides[0], sides[1])).versions
    assert (difference.what, difference.a, difference.b) == ("capture /web.pcap", "sha256 aa", "sha256 bb")


def test_a_fact_of_the_host_that_one_run_lacks_was_not_recorded():
    older, newer = run_info([PLAIN], host={"kernel": "6.1"}), run_info([PLAIN], host={"kernel": "6.1", "turbo": "on"})
    (difference,) = differences.between(older.scenarios[0], newer.scenarios[0], ({}, {}), (older, newer)).host
    assert (difference.what, difference.a, difference.b) == ("turbo", "not recorded", "on")


def test_two_builds_of_one_run_are_compared_under_the_same_names():
    versions = {
        "engine": "1",
        "switch program for dpdk": "/usr/lib/ovs-vswitchd-dpdk: 3.1.0, sha256 aa",
        "switch ovs_version": "3.1.0",
        "switch /opt/ovs-vswitchd program": "/opt/ovs-vswitchd: 3.6.0, sha256 bb",
        "switch /opt/ovs-vswitchd ovs_version": "3.6.0",
    }
    info = run_info([PLAIN], versions=versions)
    differing = differences.between(to_plain(PLAIN), with_dut(vswitchd="/opt/ovs-vswitchd"), ({}, {}), (info, info))
    assert [(difference.what, difference.a[-9:], difference.b[-9:]) for difference in differing.versions] == [
        ("switch ovs_version", "3.1.0", "3.6.0"),
        ("switch program", "sha256 aa", "sha256 bb"),
    ]
    assert [difference.what for difference in differing.scenario] == ["dut.vswitchd"]


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({"trial_duration_s": 2.0}, ["search.trial_duration_s"]),
        ({"method": SearchMethod.THRESHOLD}, ["search.duration_sum_s", "search.method"]),
        ({"max_load_fps": 1e6}, []),
    ],
)
def test_what_defines_a_rate_is_told_apart_from_what_only_changes_the_search(change, keys):
    mlrsearch = replace(PLAIN.search, method=SearchMethod.MLRSEARCH)
    a, b = changed(search=mlrsearch), changed(search=replace(mlrsearch, **change))
    assert [difference.what for difference in differences.defining(a, b)] == keys
