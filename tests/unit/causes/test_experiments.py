"""The counter-experiments of any bench: the scenario changed in one respect."""

from support import TWO_PORTS, scenario_of

from pinchpoint.causes.experiments import FEW, experiments
from pinchpoint.model.causes import Experiment
from pinchpoint.model.frames import five_tuples
from pinchpoint.scenario import parse

SERVED = """
measure = "rates"
[dut]
kind = "nft"
[service]
address = "10.0.0.100"
port = 80
mode = "dnat"
[[backend]]
address = "10.1.0.1"
[[port]]
name = "clients"
[[port]]
name = "servers"
"""
BACK = '[[stream]]\nfrom = "right"\nto = "left"\n'


def test_traffic_both_ways_answers_each_stream_with_its_own_five_tuples():
    (there, back) = experiments(TWO_PORTS, {}, ())[Experiment.BOTH_WAYS].streams
    assert there == TWO_PORTS.streams[0]
    assert (back.tx_port, back.rx_port) == (there.rx_port, there.tx_port)
    assert (back.eth_src, back.eth_dst) == (there.eth_dst, there.eth_src)
    assert (back.ipv4_src, back.ipv4_dst) == (there.ipv4_dst, there.ipv4_src)
    assert (back.udp_src, back.udp_dst) == (there.udp_dst, there.udp_src)
    assert (back.flows, back.share) == (there.flows, there.share)


def test_the_answer_moves_through_its_five_tuples_as_the_stream_does():
    (there, back) = experiments(scenario_of("reference"), {}, ())[Experiment.BOTH_WAYS].streams
    opposite = {"ipv4_src": "ipv4_dst", "ipv4_dst": "ipv4_src", "udp_src": "udp_dst", "udp_dst": "udp_src"}
    assert back.order == tuple(opposite[name] for name in there.order)


def test_what_goes_both_ways_already_is_left_as_it_is():
    assert Experiment.BOTH_WAYS not in experiments(scenario_of("reference", more=BACK), {}, ())


def test_five_tuples_that_are_drawn_have_no_answers():
    drawn = scenario_of("reference", more='ipv4_src = { random = "10.0.0.0/24", count = 9 }')
    assert Experiment.BOTH_WAYS not in experiments(drawn, {}, ())


def test_few_five_tuples_are_few_of_those_that_zipf_draws():
    drawn = scenario_of("reference", more="udp_src = { zipf = 1, first = 5, count = 1000 }")
    (few,) = experiments(drawn, {}, ())[Experiment.FEW_FLOWS].streams
    assert five_tuples(few) <= FEW


def test_what_would_change_nothing_is_no_experiment():
    possible = experiments(TWO_PORTS, {}, ())
    assert Experiment.SHORT_FRAMES not in possible, "its frames are the shortest already"
    assert all(changed != TWO_PORTS for changed in possible.values())


def test_frames_on_connections_that_stand_stay_segments_from_the_clients():
    scenario = parse(SERVED, "served.toml")
    possible = experiments(scenario, {}, ())
    assert Experiment.BOTH_WAYS not in possible
    (shortest,) = possible[Experiment.SHORT_FRAMES].streams
    assert shortest.frame_bytes == 76 and shortest.segment == scenario.streams[0].segment
