"""Real balancers, connection by connection."""

import json

import pytest
from bench_tools import run
from serving_tools import FULL_NAT, served

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("measure:verify")]
VERIFY = "[verify]\nconnections = 150\ntimeout_s = 20.0\n"
ALL_TO_ONE = """rules = '''
table ip unfair {
  chain prerouting {
    type nat hook prerouting priority dstnat - 1; policy accept;
    ip daddr 10.0.0.100 tcp dport 80 dnat to 10.1.0.1:8080
  }
}
'''"""


# All connections of a block reach one backend: the counts are even, and nothing is in turn.
IN_BLOCKS = """rules = '''
table ip blocks {
  chain prerouting {
    type nat hook prerouting priority dstnat - 1; policy accept;
    ip daddr 10.0.0.100 tcp dport 80 dnat to numgen inc mod 150 map {
      0-49 : 10.1.0.1 . 8080, 50-99 : 10.1.0.2 . 8080, 100-149 : 10.1.0.3 . 8081 }
  }
}
'''"""
ONE_SOURCE = """rules = '''
table ip one-source {
  chain postrouting {
    type nat hook postrouting priority srcnat - 1; policy accept;
    meta l4proto tcp ct original ip daddr 10.0.0.100 snat to 10.1.0.240
  }
}
'''"""


def verified(folder, service, dut="", more=""):
    path = folder / "verify.toml"
    path.write_text(served("nft", service, dut=dut, tables=VERIFY + more))
    done = run("run", path, "--out", folder / "runs", "--json")
    return done, json.loads(done.stdout) if done.stdout else None


@pytest.mark.parametrize(
    ("service", "dut"),
    [
        pytest.param(FULL_NAT, "", marks=pytest.mark.tier1("measure:verify", "device:nft")),
        (f'{FULL_NAT}\nscheduler = "hash"', ""),
        ('mode = "dnat"', ""),
        (FULL_NAT, "syn_proxy = true"),
        (f'{FULL_NAT}\nscheduler = "source-hash"', ""),
        (f'{FULL_NAT}\ncloses = "backend"', ""),
    ],
    ids=["full-nat", "hash", "dnat", "syn proxy", "source-hash", "backend closes"],
)
def test_nftables_does_what_the_service_says(tmp_path, service, dut):
    done, told = verified(tmp_path, service, dut)
    assert done.returncode == 0, done.stderr
    (scenario,) = told["scenarios"]
    metrics = {metric["name"]: metric["value"] for metric in scenario["metrics"]}
    assert metrics["completed"] == 1.0
    assert min(metrics[f"{stage} p50"] for stage in ("connect", "answer", "close")) > 0


@pytest.mark.parametrize("scheduler", ["round-robin", "hash"])
def test_requests_by_udp_are_dealt_as_connections_are(tmp_path, scheduler):
    done, told = verified(tmp_path, f'{FULL_NAT}transport = "udp"\nscheduler = "{scheduler}"\nclosed_s = 1')
    assert done.returncode == 0, done.stderr
    (scenario,) = told["scenarios"]
    metrics = {metric["name"]: metric for metric in scenario["metrics"]}
    assert (metrics["completed"]["note"], metrics["forgotten"]["value"]) == ("150 of 150", 1.0)
    assert ("in turn" in metrics["busiest backend"]["note"]) == (scheduler == "round-robin")
    assert "connect p50" not in metrics and metrics["answer p50"]["value"] > 0


def test_several_virtual_servers_have_one_turn(tmp_path):
    text = served("nft", tables=VERIFY).replace('"10.0.0.100"\nport = 80', '"10.0.0.100-10.0.0.102"\nport = "80-84"')
    (path := tmp_path / "many.toml").write_text(text)
    done = run("run", path, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["nft", "haproxy", "nginx"])
def test_weights_are_followed(tmp_path, kind):
    text = served(kind, tables=VERIFY).replace("port = 8081", "port = 8081\nweight = 3")
    (path := tmp_path / "weights.toml").write_text(text)
    done = run("run", path, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    (busiest,) = [metric for metric in scenario["metrics"] if metric["name"] == "busiest backend"]
    assert busiest["value"] == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize(("kind", "form"), [("haproxy", "v1"), ("haproxy", "v2"), ("nginx", "v1")])
def test_backends_get_the_client_in_a_proxy_header(tmp_path, kind, form):
    (path := tmp_path / "header.toml").write_text(served(kind, f'{FULL_NAT}proxy_protocol = "{form}"', tables=VERIFY))
    done = run("run", path, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    notes = {metric["name"]: metric["note"] for metric in scenario["metrics"]}
    assert notes["PROXY header"] == "150 of 150 answers name the client"
    assert notes["payload intact"].startswith("0 answers")


@pytest.mark.needs("vlan")
@pytest.mark.parametrize("kind", ["nft", "haproxy", "nginx", "envoy"])
def test_frames_of_a_service_may_have_tags(tmp_path, kind):
    local = 'local = "10.1.0.240"\n' if kind == "envoy" else FULL_NAT
    (path := tmp_path / "tagged.toml").write_text(served(kind, f"{local}vlan = 100", tables=VERIFY))
    done = run("run", path, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr


def test_an_unfair_scheduler_is_named_and_the_exit_status_says_so(tmp_path):
    done, told = verified(tmp_path, FULL_NAT, ALL_TO_ONE)
    assert done.returncode == 1
    assert "the service is wrong: busiest backend: 150 / 0 / 0, not in turn" in done.stderr
    (scenario,) = told["scenarios"]
    assert scenario["outcome"] == "wrong"
    assert {metric["name"]: metric["value"] for metric in scenario["metrics"]}["busiest backend"] == 1.0


def test_blocks_instead_of_turns_are_named_although_their_counts_are_even(tmp_path):
    done, _ = verified(tmp_path, FULL_NAT, IN_BLOCKS)
    assert done.returncode == 1
    assert "busiest backend: 50 / 50 / 50, not in turn: 147 of 149 reached another backend" in done.stderr


def test_source_nat_to_one_of_four_local_addresses_is_named(tmp_path):
    done, _ = verified(tmp_path, FULL_NAT, ONE_SOURCE)
    assert done.returncode == 1
    assert "expected source: 1 of 4 local addresses seen, the others never" in done.stderr


def test_real_programs_get_answers_in_turn_and_their_servers_see_local_addresses(tmp_path):
    done, told = verified(tmp_path, FULL_NAT, more="programs = true\n")
    assert done.returncode == 0, done.stderr
    (scenario,) = told["scenarios"]
    notes = {metric["name"]: metric["note"] for metric in scenario["metrics"]}
    assert notes["busiest server"] == "1 / 1 / 1, in turn"
    for number in (1, 2, 3):
        assert "answered and saw 10.1.0.24" in notes[f"request {number}"]
