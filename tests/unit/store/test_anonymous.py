"""Addresses and names replaced: the same by the same, ranges and masks kept, what identifies nobody left."""

import json
from ipaddress import IPv4Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinchpoint.store import anonymous, bundle


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
        "02:00:5e:00:00:01 2001:db8::0:1 00000000-0000-4000-8000-000000000001 /home/user/x host1 host2"
    )


def test_stored_ranges_of_addresses_follow_their_texts_and_ports_stay():
    plain = {"run_id": "x", "ipv4_dst": {"count": 200, "first": 805306369}, "udp_dst": {"count": 3, "first": 1025}}
    files = {"run.json": json.dumps(plain).encode(), "switch.log": b"48.0.0.1-48.0.0.200"}
    found = anonymous.found_in(files)
    changed = bundle.replaced(files, found.text, found.integers)
    after = json.loads(changed["run.json"])
    assert changed["switch.log"].decode().startswith(f"{IPv4Address(after['ipv4_dst']['first'])}-")
    assert after["udp_dst"] == plain["udp_dst"] and after["ipv4_dst"]["count"] == 200


def test_folders_of_scenarios_are_replaced_where_they_stand_alone_and_in_paths():
    files = {"run.json": json.dumps({"sources": {"/srv/acme/x.toml": ""}, "argv": ["/opt/me/pinchpoint"]}).encode()}
    found = anonymous.found_in(files)
    assert found.text("run /srv/acme/x.toml /srv/acme") == "run /scenarios/x.toml /scenarios"
    assert found.text("/opt/me/pinchpoint") == "/bin/pinchpoint"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.ip_addresses(v=4), min_size=2, max_size=40, unique=True))
def test_different_addresses_stay_different(addresses):
    text = " ".join(map(str, addresses))
    assert len(set(replaced(text).split())) == len(addresses)
