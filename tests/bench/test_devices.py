"""A short transmission through each device that needs no switch: its account closes, and nothing of it stays."""

import pytest
from bench_tools import ROOT, kill_lab, run, start_watched, what_is_there
from standing_tools import standing

from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError
from pinchpoint.model.offload import Offload, OffloadLimit
from pinchpoint.model.result import Limit, Outcome, RateStatus
from pinchpoint.scenario import parse
from pinchpoint.store.folder import RunFolder

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("accounts of simple devices close")]
LOW_FPS = 2_000  # the softirq queue of a CPU (1,000 frames) holds what arrives while that CPU is paused
FLOWS = 20
SCENARIO = """
title = "a device"
[dut]
kind = "{kind}"
cpus = [1]
{dut}
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
ipv4_dst = "198.19.0.1-198.19.0.20"
{more}
"""


def scenario(kind, dut="", more=""):
    return parse(SCENARIO.format(kind=kind, dut=dut, more=more), "device.toml")


def drops(trial):
    return {drop.name: (drop.frames, drop.limits) for hop in trial.ledger.hops for drop in hop.drops}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("wire", marks=pytest.mark.tier1("device:wire")),
        pytest.param("bridge", marks=pytest.mark.tier1("device:bridge")),
        "nft",
        pytest.param("redirect", marks=pytest.mark.tier1("device:redirect")),
    ],
)
def test_every_frame_of_a_low_load_arrives_and_is_seen_at_every_place(kind):
    with standing(scenario(kind)) as (live, trial):
        settings, low = live.settings(), trial(LOW_FPS)
    account = low.ledger
    assert account.offered > 0
    assert account.unexplained == 0, account
    assert account.received == account.offered, account
    uncounted = {"queueing disciplines"} if kind != "wire" else set()  # a veth has none unless somebody adds one
    for hop in account.hops[1:-1]:
        expected = None if hop.name in uncounted else account.offered
        assert hop.frames_in == hop.frames_out == expected, hop
    if kind != "wire":
        assert settings["rps_cpus of left"] == "2"
        (load,) = low.threads
        assert (load.cpu, load.received) == (1, account.offered), "the softirqs run on the device's CPU"


BOTH_WAYS = '[[stream]]\nfrom = "right"\nto = "left"\neth_dst = "02:00:00:00:00:07"\nipv4_dst = "198.20.0.1"\n'


HEADERS = """vlan = "5-9"
[[stream]]
from = "left"
to = "right"
eth_src = "02:00:00:00:01:01-02:00:00:00:01:ff"
ipv6_dst = "2001:db8::1-2001:db8::ff"
tcp_dst = [80, 443]
[[stream]]
from = "left"
to = "right"
layers = ["ethernet", "ipv4", "udp", { vxlan = { vni = 7 } }, "ethernet", { ipv4 = { ttl = [9, 8] } }, "udp"]
"""


@pytest.mark.parametrize("kind", ["wire", "bridge", "redirect"])
def test_frames_with_tags_ipv6_tcp_and_tunnels_arrive(kind):
    with standing(scenario(kind, more=HEADERS)) as (_, trial):
        account = trial(LOW_FPS).ledger
    assert account.unexplained == 0 and account.received == account.offered > 0, account


@pytest.mark.parametrize("kind", ["bridge", "nft", "redirect"])
def test_streams_go_both_ways(kind):
    with standing(scenario(kind, more=BOTH_WAYS)) as (_, trial):
        account = trial(LOW_FPS).ledger
    assert account.unexplained == 0 and account.received == account.offered, account


def test_a_bridge_learns_where_that_is_asked_for():
    with standing(scenario("bridge", dut="learning = true")) as (live, trial):
        account = trial(LOW_FPS).ledger
        assert live.settings()["learning of left"] == "1"
        assert "02:00:00:00:00:01 dev left" in live.dumps()["bridge-fdb.txt"]
    assert account.unexplained == 0 and account.received == account.offered, account


def test_the_filters_of_a_redirection_are_read_back_and_kept():
    with standing(scenario("redirect")) as (live, trial):
        settings, low = live.settings(), trial(LOW_FPS)
        assert "mirred (Egress Redirect to device right)" in live.dumps()["tc-filters.txt"]
        Local().run(["tc", "-n", live.places.dut_netns, "filter", "del", "dev", "right", "ingress"])
        with pytest.raises(BenchError, match="filter of right: u32 to left was set, none is in force"):
            live.settings()
    assert (settings["filter of left"], settings["filter of right"]) == ("u32 to right", "u32 to left")
    assert (low.observed["tc/filter/left/packets"], low.observed["tc/filter/right/packets"]) == (
        low.ledger.offered,
        0,
    )


TRANSLATED = '''rules = """
table ip nat {
  counter translated { }
  counter dropped { }
  chain incoming { type nat hook prerouting priority -100;
    iifname {left} udp dport 9 dnat to 10.1.0.5
  }
  chain filter { type filter hook forward priority 0;
    ip daddr 10.1.0.5 counter name translated
    ct original ip daddr 198.19.0.1-198.19.0.5 counter name dropped drop
  }
  chain outgoing { type nat hook postrouting priority 100;
    oifname {right} snat to 10.0.0.1
  }
}
"""
[[route]]
to = "10.1.0.0/24"
port = "right"
'''


def test_addresses_are_translated_and_what_rules_drop_is_the_rules():
    with standing(scenario("nft", dut=TRANSLATED)) as (_, trial):
        low = trial(LOW_FPS)
    account, seen = low.ledger, low.observed
    assert seen["nft/counter/translated"] == account.offered
    assert seen["host/conntrack/entries"] >= FLOWS - 5
    dropped, limits = drops(low)["dropped"]
    assert limits == "rules"
    assert dropped == pytest.approx(account.offered * 5 / FLOWS, abs=5)
    assert account.unexplained == 0 and account.received == account.offered - dropped, account


def slow_rules(family):
    """Enough rules that match nothing to make every frame cost much more than sending it."""
    lines = "".join(f"    udp dport {20_000 + number} counter\n" for number in range(4000))
    return f"table {family} slow {{\n  chain forward {{ type filter hook forward priority 0;\n{lines}  }}\n}}"


def slow_filters():
    """The same as filters of traffic control before the port's own."""
    before = "filter add dev left ingress pref 1 protocol all u32 match u32"
    return "".join(f"{before} {number} 0xffffffff\n" for number in range(4000))


SLOW = {
    "bridge": (slow_rules("bridge"), ("nft", "-f")),
    "nft": (slow_rules("ip"), ("nft", "-f")),
    "redirect": (slow_filters(), ("tc", "-batch")),
}


@pytest.mark.parametrize("kind", SLOW)
def test_frames_beyond_what_its_softirqs_manage_are_the_devices_loss_and_are_counted(kind, tmp_path):
    """The rules are loaded beside the device's own, so that each kind becomes slow alike."""
    text, command = SLOW[kind]
    rules = tmp_path / "slow"
    rules.write_text(text)
    with standing(scenario(kind)) as (live, trial):
        Local().run([*command, str(rules)], live.places.dut_netns)
        loaded = trial(100_000)
    lost = drops(loaded)
    assert lost, loaded.ledger
    assert {limits for _, limits in lost.values()} == {"dut"}, lost
    assert loaded.ledger.unexplained == 0, loaded.ledger
    assert loaded.observed["host/softnet/1/dropped"] > 0


def test_a_destination_without_a_route_is_the_rules_loss():
    with standing(scenario("nft", more='[[route]]\nto = "198.19.0.0/29"\nport = "right"\n')) as (_, trial):
        loaded = trial(1_000)
    lost, limits = drops(loaded)["no route to the destination"]
    assert limits == "rules"
    assert lost == pytest.approx(loaded.ledger.offered * 13 / FLOWS, abs=5)
    assert loaded.ledger.unexplained == 0, loaded.ledger


def test_a_refused_rule_is_reported_with_its_line_and_leaves_nothing():
    wanted = scenario("nft", dut='rules = """\ntable ip x {\n  chain y { bogus }\n}\n"""')
    line = SCENARIO.split("{dut}")[0].count("\n") + 3
    with pytest.raises(BenchError, match=rf"^device.toml:{line}: nft refused this rule: "), standing(wanted):
        pass


@pytest.mark.parametrize("kind", ["bridge", "nft"])
def test_a_lab_killed_while_it_measures_is_cleaned_up_after(kind, tmp_path):
    path = tmp_path / "device.toml"
    path.write_text(SCENARIO.format(kind=kind, dut="", more=""))
    watched = start_watched(tmp_path / "stderr", "run", path, "--out", tmp_path / "runs")
    watched.wait_until_it_says("  ·  warm-up")
    kill_lab(watched.process)
    assert what_is_there().namespaces
    assert run("clean").returncode == 0


@pytest.mark.subject(target="test-studies")
def test_the_shipped_comparison_of_devices_has_a_line_for_each(tmp_path):
    """Short searches: what is shown is that each is built, measured and judged, not how fast it is."""
    files = sorted((ROOT / "studies" / "devices").glob("*.toml"))
    short = ("search.max_traffic_s=2", "search.max_repeats=30", "latency.duration_s=0.2")
    words = [word for setting in short for word in ("--set", setting)]
    done = run("run", ROOT / "studies" / "devices", "--out", tmp_path / "runs", "--no-ceiling", *words)
    assert done.returncode in (0, 1), done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    results = RunFolder.open(folder).read_result().scenarios
    assert [scenario.scenario for scenario in results] == [path.stem for path in files]
    assert {scenario.outcome for scenario in results} == {Outcome.MEASURED}, [scenario.reason for scenario in results]
    for path in files:
        assert path.stem in done.stdout


@pytest.mark.subject(target="test-studies")
def test_the_offload_story_ends_each_step_in_its_sentence(tmp_path):
    # That frames are lost at any load is certain after 15 usable trials; a busy host has many discarded.
    words = ["--set", "search.max_traffic_s=6", "--set", "search.trial_duration_s=0.1", "--no-ceiling"]
    words += ["--set", "search.initial_trial_duration_s=0.1", "--set", "search.relative_width=0.1"]
    # A busy host keeps the engine from offering what is due; here the devices are tried, not the host.
    words += ["--set", "validity.gap_shortfall_ratio=0.99", "--set", "validity.shortfall_ratio=0.99"]
    done = run("study", "run", "offload-story", "--out", tmp_path / "runs", *words, timeout=400)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs").iterdir()
    steps = {scenario.scenario: scenario for scenario in RunFolder.open(path).read_result().scenarios}
    assert list(steps) == [path.stem for path in sorted((ROOT / "studies" / "offload-story").glob("[0-9]*.toml"))]
    through, slow, fast, vanished, plain, lying, one_way, two_way, vms, bare_metals = steps.values()
    assert (slow.offload, fast.offload) == (None, None)
    assert vanished.rates[0].status is RateStatus.LOSES_ALWAYS
    assert vanished.verdict.limit is Limit.UNEXPLAINED
    assert 'most of them in "device table"' in vanished.verdict.headline
    judged = (through, plain, lying, one_way, two_way, vms, bare_metals)
    assert [step.offload.word for step in judged] == [
        Offload.CLAIMED,
        Offload.PROVEN,
        Offload.CLAIMED,
        Offload.CLAIMED,
        Offload.PROVEN,
        Offload.CLAIMED,
        Offload.PROVEN,
    ]
    assert {step.offload.claimed for step in judged} == {1.0}
    assert (lying.offload.limits, list(one_way.offload.limits)) == ({}, [OffloadLimit.ONE_WAY])
    said = done.stdout.replace("\n", " ")
    assert "offload claimed, not real" in said and "offload proven" in said
