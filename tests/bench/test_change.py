"""Real balancers, while something happens to a backend."""

import json

import pytest
from bench_tools import run
from serving_tools import FULL_NAT, served

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("measure:change")]
CHANGE = """
[change]
event = "{event}"
backend = 1
at_s = 1.0
for_s = 2.0
after_s = {after_s}
rate_cps = 300.0
"""


def changed(folder, event, kind="nft", service=FULL_NAT, after_s=1.0):
    path = folder / "change.toml"
    path.write_text(served(kind, service, measure="change", tables=CHANGE.format(event=event, after_s=after_s)))
    done = run("run", path, "--out", folder / "runs", "--json")
    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    return {metric["name"]: metric for metric in scenario["metrics"]}


def test_connections_to_a_killed_backend_time_out_and_the_others_share_the_rest(tmp_path):
    figures = changed(tmp_path, "silent")
    assert figures["timed out connecting"]["value"] > 50  # a third of 600, less what the host kept from being opened
    assert figures["refused"]["value"] == figures["reset"]["value"] == 0
    assert figures["right after"]["bound"] == "at_least"  # nothing tells nftables that a backend is dead
    shares = [figures[f"share of backend {number}"]["value"] for number in range(3)]
    assert shares == pytest.approx([0.5, 0.0, 0.5], abs=0.1)


@pytest.mark.parametrize("kind", [pytest.param("nft", marks=pytest.mark.tier1("measure:change")), "haproxy"])
def test_a_backend_that_is_removed_gets_no_connections_until_it_is_added_again(tmp_path, kind):
    figures = changed(tmp_path, "remove", kind)
    shares = [figures[f"share of backend {number}"]["value"] for number in range(3)]
    assert shares == pytest.approx([0.5, 0.0, 0.5], abs=0.1)
    assert figures["share of backend 1 after return"]["value"] == pytest.approx(1 / 3, abs=0.1)


def test_requests_by_udp_to_a_killed_backend_get_no_answer(tmp_path):
    figures = changed(tmp_path, "silent", service=f'{FULL_NAT}transport = "udp"')
    assert figures["timed out answering"]["value"] > 50
    assert figures["timed out connecting"]["value"] == 0
    shares = [figures[f"share of backend {number}"]["value"] for number in range(3)]
    assert shares == pytest.approx([0.5, 0.0, 0.5], abs=0.1)


@pytest.mark.parametrize(("kind", "health_s"), [("haproxy", 0.2), ("nginx", 1)])
def test_a_proxy_that_checks_its_backends_leaves_out_one_that_refuses(tmp_path, kind, health_s):
    figures = changed(tmp_path, "reset", kind, f"{FULL_NAT}health_s = {health_s}", after_s=1.0 + 2 * health_s)
    shares = [figures[f"share of backend {number}"]["value"] for number in range(3)]
    assert shares == pytest.approx([0.5, 0.0, 0.5], abs=0.1), "of the second half of the time for which it was away"
    assert figures["share of backend 1 after return"]["value"] > 0.1


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_a_proxy_that_reloads_goes_on_with_all_of_its_backends(tmp_path, kind):
    figures = changed(tmp_path, "reload", kind)
    shares = [metric["value"] for name, metric in figures.items() if name.startswith("share of backend")]
    assert shares and shares == pytest.approx([1 / 3] * len(shares), abs=0.1)
    assert figures["refused"]["value"] == 0
