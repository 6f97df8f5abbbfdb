"""CPUs of the ends of a socket workload that a file leaves to the machine, and threads that the kernel moves."""

from dataclasses import replace

import pytest
from msgspec import UNSET

from pinchpoint.dut.placement import alike, placed
from pinchpoint.dut.setup import unplaceable
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import Topology
from pinchpoint.measure.sockets.run import Ends, requests
from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.run.budget import expected_s, whole_s
from pinchpoint.scenario import parse

SCENARIO = """
title = "two hosts"
measure = "bandwidth"
numa = "{numa}"
[dut]
kind = "ovs"
datapath = "kernel"
pmd_cpus = [1]
rules = "actions=NORMAL"
[[host]]
name = "client"
address = "192.168.7.1/24"
cpus = {cpus}
pinned = {pinned}
[[host]]
name = "server"
address = "192.168.7.2/24"
cpus = {cpus}
pinned = {pinned}
[sockets]
client = "client"
server = "server"
connections = {connections}
"""
TWO_NODES = Topology({0: (0, 1, 2, 3), 1: (4, 5, 6, 7)})
ONE_NODE = Topology({0: (0, 1)})


def scenario(numa="any", cpus='"all"', pinned="false", connections=64):
    return parse(SCENARIO.format(numa=numa, cpus=cpus, pinned=pinned, connections=connections), "x.toml")


def cpus_of(topology, **changes):
    return tuple(host.cpus for host in placed(scenario(**changes), topology)[0].hosts)


@pytest.mark.parametrize(
    ("numa", "expected"),
    [
        ("any", (tuple(range(8)), tuple(range(8)))),
        ("same", ((0, 1, 2, 3), (0, 1, 2, 3))),
        ("different", ((0, 1, 2, 3), (4, 5, 6, 7))),
    ],
)
def test_ends_have_all_cpus_of_the_nodes_on_which_they_are(numa, expected):
    assert cpus_of(TWO_NODES, numa=numa) == expected


def test_pinned_ends_share_the_cpus_of_a_node_out():
    assert cpus_of(TWO_NODES, numa="same", pinned="true") == ((0, 2), (1, 3))
    assert cpus_of(TWO_NODES, numa="different", pinned="true") == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert cpus_of(Topology({0: (0,)}), pinned="true") == ((0,), (0,)), "one CPU is all there is"


def test_cpus_that_the_file_names_stay():
    assert cpus_of(TWO_NODES, cpus="[2]") == ((2,), (2,))


def test_two_nodes_are_impossible_on_a_machine_with_one():
    with pytest.raises(RequirementError, match="only one NUMA node"):
        placed(scenario("different"), ONE_NODE)


def test_one_node_of_one_is_as_good_as_any():
    units = [scenario("any"), scenario("same")]
    assert list(alike(units, ONE_NODE)) == ["x"]


def test_points_that_a_machine_cannot_place_are_known_before_the_run(monkeypatch):
    machines = Machines(Local())
    monkeypatch.setattr(Local, "cpus", lambda self: frozenset({0, 1}))
    monkeypatch.setattr(machines, "topology", lambda remote: ONE_NODE)
    units = [
        replace(scenario("different"), name="two nodes"),
        replace(scenario(cpus="[7]"), name="eight CPUs"),
        scenario(),
    ]
    assert unplaceable(units, machines) == {"two nodes", "eight CPUs"}
    assert whole_s(units, machines) == pytest.approx(expected_s(units[-1]))


def wanted(**changes):
    ends = Ends.of(placed(scenario(**changes), TWO_NODES)[0])
    return ends, requests(ends, ("c", "s"), "t")


def test_there_are_as_many_pairs_as_cpus_or_connections():
    assert [wanted(connections=count)[0].pairs for count in (1, 5, 64)] == [1, 5, 8]


def test_threads_that_are_not_pinned_may_run_on_every_cpu_of_their_end():
    ends, made = wanted(numa="different", connections=2)
    assert [(request.client.cpus, request.server.cpus) for request in made] == [((0, 1, 2, 3), (4, 5, 6, 7))] * 2
    assert ends.moving == ("client", "server")
    assert set(range(8)) <= set(ends.cpus), "all of them are watched"


def test_a_pinned_thread_has_its_cpu_alone():
    ends, made = wanted(numa="different", pinned="true", connections=2)
    assert [(request.client.core, request.client.cpus) for request in made] == [(0, UNSET), (1, UNSET)]
    assert ends.moving == ()


@pytest.mark.parametrize("value", ['"some"', "[]", '["all"]'])
def test_no_other_word_stands_for_cpus(value):
    with pytest.raises(InputError, match=r'host\[1\].cpus: expected a list of CPU numbers or "all"'):
        scenario(cpus=value)
