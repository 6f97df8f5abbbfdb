"""Services of IPv6, connection by connection."""

import pytest
from serving_tools import serving

from pinchpoint.model.result import Outcome
from pinchpoint.scenario import parse

pytestmark = pytest.mark.usefixtures("nothing_left")
SCENARIO = """
measure = "verify"
{guest}
[dut]
kind = "{kind}"
[service]
port = 80
{service}
[[backend]]
address = "{backends}1"
port = {port}
[[backend]]
address = "{backends}2"
port = {port}
[[port]]
name = "clients"
[[port]]
name = "servers"
[engine]
cpus = [0]
[verify]
connections = 60
timeout_s = 20.0
"""
GUEST = '[guest]\nkernel = "uml"'
V4, V6 = "10.1.0.", "fd00:2::"
OF_IPV6 = 'address = "fd00::64"\nclients = "fd00:1::1-fd00:1::14"\n'


def outcome(kind, service, backends, port=8080, guest=""):
    text = SCENARIO.format(kind=kind, service=service, backends=backends, port=port, guest=guest)
    with serving(parse(text, "family.toml")) as (_, verified):
        return verified()


@pytest.mark.parametrize(
    ("kind", "local", "backends", "guest"),
    [
        ("nft", 'local = "fd00:2::f0-fd00:2::f1"', V6, ""),
        ("haproxy", 'local = "10.1.0.240-10.1.0.241"', V4, ""),
        ("ipvs", 'local = "fd00:2::f0-fd00:2::f1"', V6, GUEST),
    ],
    ids=["nft", "haproxy to IPv4", "ipvs"],
)
def test_a_service_of_ipv6_does_what_it_says(kind, local, backends, guest):
    found = outcome(kind, OF_IPV6 + local, backends, guest=guest)
    assert found.outcome is Outcome.MEASURED, found.reason
    notes = {one.name: one.note for one in found.metrics}
    assert notes["expected source"].startswith("2 of 2 local addresses seen")
