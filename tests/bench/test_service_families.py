"""Services of IPv6, and services whose backends answer the client past the device, connection by connection."""

import pytest
from serving_tools import serving

from pinchpoint.model.result import Outcome
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("services of IPv6, direct return")]
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
GUEST = '[guest]\nkernel = "auto"'
V4, V6 = "10.1.0.", "fd00:2::"
OF_IPV4 = 'address = "10.0.0.100"\nclients = "10.0.1.1-10.0.1.20"\n'
OF_IPV6 = 'address = "fd00::64"\nclients = "fd00:1::1-fd00:1::14"\n'
DIRECT = 'mode = "direct-return"\n'


def outcome(kind, service, backends, port=8080, guest=""):
    text = SCENARIO.format(kind=kind, service=service, backends=backends, port=port, guest=guest)
    with serving(parse(text, "family.toml")) as (_, verified):
        return verified()


@pytest.mark.parametrize(
    ("kind", "local", "backends", "guest"),
    [
        pytest.param(
            "nft", 'local = "fd00:2::f0-fd00:2::f1"', V6, "", marks=pytest.mark.tier1("services of IPv6, direct return")
        ),
        ("reference", 'local = "fd00:2::f0-fd00:2::f1"', V6, ""),
        ("haproxy", 'local = "10.1.0.240-10.1.0.241"', V4, ""),
        ("ipvs", 'local = "fd00:2::f0-fd00:2::f1"', V6, GUEST),
    ],
    ids=["nft", "reference", "haproxy to IPv4", "ipvs"],
)
def test_a_service_of_ipv6_does_what_it_says(kind, local, backends, guest):
    result = outcome(kind, OF_IPV6 + local, backends, guest=guest)
    assert result.outcome is Outcome.MEASURED, result.reason
    notes = {metric.name: metric.note for metric in result.metrics}
    assert notes["expected source"].startswith("2 of 2 local addresses seen")


@pytest.mark.parametrize(
    ("kind", "service", "backends", "guest"),
    [
        pytest.param("reference", OF_IPV4, V4, "", marks=pytest.mark.tier1("services of IPv6, direct return")),
        ("reference", OF_IPV6, V6, ""),
        ("ipvs", OF_IPV4, V4, GUEST),
    ],
    ids=["reference", "reference, IPv6", "ipvs"],
)
def test_with_direct_return_no_answer_passes_the_device(kind, service, backends, guest):
    result = outcome(kind, service + DIRECT, backends, port=80, guest=guest)
    assert result.outcome is Outcome.MEASURED, result.reason
    notes = {metric.name: metric.note for metric in result.metrics}
    assert notes["expected source"].startswith("20 of 20 clients seen")
    assert "past the device, 0 through it" in notes["direct return"]
