"""Frames through a real balancer on connections that stand."""

import pytest
from bench_tools import what_is_there
from serving_tools import FULL_NAT, served
from standing_tools import standing

from pinchpoint.host.local import Local
from pinchpoint.scenario import parse

pytestmark = pytest.mark.tier2("frames on established connections")

LOW_FPS = 4_000
CONNECTIONS = 40
ESTABLISHED = f"[established]\nconnections = {CONNECTIONS}\n"
CLIENTS = "10.0.1.1-10.0.1.4"
OTHERS = {
    "reference": ("cpus = [1]", "", ""),
    "ovs": ('datapath = "af_packet"\npmd_cpus = [1]', 'scheduler = "hash"', ""),
    "ipvs": ("", "", '[guest]\nkernel = "auto"\n'),
}


def scenario(kind, dut="", service="", more=""):
    tables = ESTABLISHED + more
    stands = served(kind, FULL_NAT + service, measure="rates", dut=dut, tables=tables, backends=2, clients=CLIENTS)
    return parse(stands, "established.toml")


@pytest.fixture(scope="module")
def trials():
    """The settings of a balancer, a trial on connections that stand, and one after a quarter of them was forgotten."""
    before = what_is_there()
    with standing(scenario("nft")) as (live, trial):
        whole = trial(LOW_FPS)
        Local().run(["conntrack", "-D", "-s", "10.0.1.1"], live.places.dut_netns)
        reading = live.settings(), whole, trial(LOW_FPS)
    assert what_is_there() == before
    return reading


@pytest.mark.tier1("frames on established connections")
def test_every_frame_is_translated_by_its_connection_and_arrives_in_order(trials):
    _, whole, _ = trials
    (stream,) = whole.streams
    assert whole.ledger.offered > 0
    assert whole.ledger.received + whole.ledger.dropped == whole.ledger.offered, whole.ledger
    assert (stream.corrupt, stream.reordered_in_flow) == (0, 0)
    seen = [whole.observed[f"host/conntrack/{name}"] for name in ("entries", "invalid", "insert")]
    assert seen == [CONNECTIONS, 0, 0], "the balancer knows the connections and makes none"


@pytest.mark.tier1("frames on established connections")
def test_frames_of_connections_that_are_forgotten_are_lost_by_name_and_make_no_new_ones(trials):
    settings, _, trial = trials
    drops = {drop.name: drop.frames for hop in trial.ledger.hops for drop in hop.drops}
    assert settings["net.netfilter.nf_conntrack_tcp_loose"] == "0"
    forgotten = drops.pop("on a connection that is not known")
    assert abs(forgotten - trial.ledger.offered / 4) <= 1 + sum(drops.values()), trial.ledger
    assert trial.ledger.unexplained == 0
    assert trial.observed["host/conntrack/entries"] == CONNECTIONS * 3 / 4


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("kind", OTHERS)
def test_every_balancer_that_forwards_carries_frames_on_connections_that_stand(kind):
    with standing(scenario(kind, *OTHERS[kind])) as (live, trial):
        known = live.balancer().tracked()
        low = trial(LOW_FPS)
        assert live.balancer().tracked() == known >= CONNECTIONS, "frames make no connection and end none"
    (stream,) = low.streams
    assert low.ledger.received > 0
    assert low.ledger.received + low.ledger.dropped == low.ledger.offered, low.ledger
    assert (stream.corrupt, stream.reordered_in_flow) == (0, 0)
