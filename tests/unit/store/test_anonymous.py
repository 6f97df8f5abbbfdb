"""Addresses and names replaced: the same by the same, ranges and masks kept, what identifies nobody left."""

import json
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinchpoint.model.errors import InputError
from pinchpoint.store import anonymous


def replaced(text, *names):
    return anonymous.found_in({"switch.log": text.encode()}, names).text(text)


def test_an_address_is_replaced_by_the_same_one_everywhere():
    first, second, other = replaced("192.0.2.7 192.0.2.7 10.9.8.7").split()
    assert first == second != other
    assert {"192.0.2.7", "10.9.8.7"} & {first, other} == set()


def test_a_range_and_a_mask_keep_their_size():
    low, high = replaced("10.20.30.200-10.20.33.7").split("-")
    assert int(IPv4Address(high)) - int(IPv4Address(low)) == (33 - 30) * 256 + 7 - 200
    assert replaced("nw_dst=48.0.0.0/8").startswith("nw_dst=11.0.0.0/8")


def test_an_address_within_a_network_stays_within_it():
    network, inside = replaced("48.0.0.0/8 48.1.2.3").split()
    assert network.split(".")[0] == inside.split(".")[0] and inside.endswith("1.2.3")


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "0.0.0.0/0", "255.255.255.0", "224.0.0.5", "::1", "02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff",
             "version 3.1.0", "12:34:56", "1.2.3.4.5"]
)  # fmt: skip
def test_what_identifies_nobody_stays(text):
    assert replaced(text) == text


def test_macs_of_a_manufacturer_ipv6_uuids_homes_and_names_are_replaced():
    text = "3c:ec:ef:01:02:03 fe80::1:2 6b29fc40-ca47-1067-b31d-00dd010662da /home/ada/x lab-7.example lab-7"
    assert replaced(text, "lab-7.example", "lab-7") == (
        "02:00:5e:00:00:01 2001:db8::2 00000000-0000-4000-8000-000000000001 /home/user/x host1 host2"
    )


def test_stored_ranges_of_addresses_follow_their_texts_and_ports_stay():
    plain = {"run_id": "x", "ipv4_dst": {"count": 200, "first": 805306369}, "udp_dst": {"count": 3, "first": 1025}}
    files = {"run.json": json.dumps(plain).encode(), "switch.log": b"48.0.0.1-48.0.0.200"}
    changed = anonymous.found_in(files).files(files)
    after = json.loads(changed["run.json"])
    assert changed["switch.log"].decode().startswith(f"{IPv4Address(after['ipv4_dst']['first'])}-")
    assert after["udp_dst"] == plain["udp_dst"] and after["ipv4_dst"]["count"] == 200


def anonymous_files(files):
    return {name: data.decode() for name, data in anonymous.found_in(files).files(files).items()}


def test_stored_ranges_of_ipv6_follow_their_texts():
    first = int(IPv6Address("fd00:abcd::1:fff8"))
    files = {
        "run.json": json.dumps({"clients": {"first": first, "count": 16}}).encode(),
        "switch.log": b"fd00:abcd::1:fff8-fd00:abcd::2:7 [fd00:abcd::2:3]:80",
    }
    changed = anonymous_files(files)
    after = json.loads(changed["run.json"])["clients"]
    low, high = IPv6Address(after["first"]), IPv6Address(after["first"] + 15)
    assert after["count"] == 16 and str(low).startswith("2001:db8:")
    assert changed["switch.log"] == f"{low}-{high} [{low + 11}]:80"


def test_a_network_of_ipv6_keeps_its_length_and_what_is_within_it():
    network, inside = replaced("fd12:3456::/32 fd12:3456::7").split()
    assert (network, inside) == ("3fff::/32", "3fff::7")


def test_two_addresses_with_a_dash_between_are_both_replaced():
    assert "2a00" not in (after := replaced("2a00:1::5 - fd00::9")) and "fd00" not in after


REMOTE = """
runs_on = "dut1"
[host.dut1]
address = "{address}"
[dut]
kind = "ovs"
"""


def remote_run(address, name="dut1"):
    source = REMOTE.format(address=address).replace("dut1", name)
    scenario = {"name": "x", "dut": {}, "sites": [{"remote": {"name": name, "address": address}}]}
    return {
        "run.json": json.dumps({"scenarios": [scenario], "sources": {"a.toml": source}}).encode(),
        "engine.log": f"{name}: ssh {address}".encode(),
    }


@pytest.mark.parametrize("address", ["ada@dut1.corp.example.com", "ssh://ada@dut1.corp.example.com:2222"])
def test_hosts_of_benches_and_their_logins_are_replaced_in_scenarios_texts_and_logs(address):
    files = anonymous_files(remote_run(address))
    assert not [word for word in ("ada", "dut1", "corp", "example") if word in "".join(files.values())]
    info = json.loads(files["run.json"])
    new = info["scenarios"][0]["sites"][0]["remote"]["name"]
    assert f'runs_on = "{new}"' in info["sources"]["a.toml"] and f"[host.{new}]" in info["sources"]["a.toml"]


def test_a_host_that_a_scenario_names_and_does_not_use_is_replaced():
    source = '[host.spare]\naddress = "spare.example"'
    files = {"run.json": json.dumps({"scenarios": [], "sources": {"a.toml": source}}).encode()}
    assert "spare" not in anonymous_files(files)["run.json"]


@pytest.mark.parametrize("key", ["sites", "engines"])  # the latter of older runs
def test_hosts_of_engines_and_of_the_machines_of_a_campaign_are_replaced(key):
    engine = {"remote": {"name": "tester", "address": "ada@tester.corp"}, "ports": ["left"]}
    source = """
[[machine]]
name = "rack"
hosts = { gen = "ada@tester.corp", drain = "last.corp" }
[[machine]]
name = "other"
address = "plain.corp"
"""
    scenario = {"name": "x", "dut": {}, key: [engine]}
    run = {"run.json": json.dumps({"scenarios": [scenario], "sources": {"c.toml": source}}).encode()}
    text = anonymous_files(run)["run.json"]
    assert not [word for word in ("tester", "corp", "last", "drain", "rack", "plain", "ada") if word in text]


@pytest.mark.parametrize("name", ["dut", "ovs"])
def test_a_host_that_is_called_as_a_key_or_a_kind_leaves_the_scenario_readable(name):
    info = json.loads(anonymous_files(remote_run("root@10.0.0.7", name))["run.json"])
    assert '[dut]\nkind = "ovs"' in info["sources"]["a.toml"] and "root@" in info["sources"]["a.toml"]
    assert info["scenarios"][0]["dut"] == {}


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085"])
@pytest.mark.parametrize("name", ["run.json", "trials.jsonl"])
def test_separators_of_unicode_end_no_line_of_json(mark, name):
    line = json.dumps({"title": f"a{mark}b"}, ensure_ascii=False) + "\n"
    assert json.loads(anonymous_files({name: line.encode()})[name]) == {"title": f"a{mark}b"}


def test_what_a_crash_left_of_a_line_is_left_out_and_other_damage_is_named():
    assert anonymous_files({"trials.jsonl": b'{"a":1}\n{"b'})["trials.jsonl"] == '{"a":1}\n'
    with pytest.raises(InputError, match=r"trials\.jsonl, line 1: not JSON"):
        anonymous_files({"trials.jsonl": b'{"b\n{}\n'})


def test_an_attachment_that_is_not_json_is_text():
    assert anonymous_files({"attachments/a.json": b"{ 10.9.8.7"}) == {"attachments/a.json": "{ 198.18.0.7"}


def test_folders_of_scenarios_are_replaced_where_they_stand_alone_and_in_paths():
    files = {"run.json": json.dumps({"sources": {"/srv/acme/x.toml": ""}, "argv": ["/opt/me/pinchpoint"]}).encode()}
    names = anonymous.found_in(files)
    assert names.text("run /srv/acme/x.toml /srv/acme") == "run /scenarios/x.toml /scenarios"
    assert names.text("/opt/me/pinchpoint") == "/bin/pinchpoint"


def test_folders_of_captures_are_replaced_too():
    scenarios = [{"streams": [{"pcap": "/srv/acme/caps/a.pcap"}, {"pcap": None}]}, {"streams": 7}]
    files = {"run.json": json.dumps({"sources": {"x.toml": ""}, "scenarios": scenarios}).encode()}
    assert anonymous.found_in(files).text("replay of /srv/acme/caps/a.pcap") == "replay of /captures/a.pcap"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.ip_addresses(), min_size=2, max_size=40, unique=True))
def test_different_addresses_stay_different(addresses):
    text = " ".join(map(str, addresses))
    assert len(set(replaced(text).split())) == len(addresses)
