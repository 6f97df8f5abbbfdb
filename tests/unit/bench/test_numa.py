"""NUMA placement on machines made up for it, and the kernel's own words for this one."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.dut.placement import alike, daemon_nodes, place, placed
from pinchpoint.dut.registry import device_of
from pinchpoint.host import memory_policy
from pinchpoint.host.local import Local
from pinchpoint.host.numa import Topology, cpu_list, memory_on, read_topology
from pinchpoint.model.errors import HostLostError, InputError, RequirementError
from pinchpoint.model.scenario import NumaPlacement, Point
from pinchpoint.scenario import parse

TWO = Topology({0: (0, 1, 2, 3), 1: (4, 5, 6, 7)})
ONE = Topology({0: (0, 1)})
WITH_MEMORY_NODE = Topology({0: (0, 1), 1: (2, 3), 2: ()})
ANY, SAME, DIFFERENT = NumaPlacement.ANY, NumaPlacement.SAME, NumaPlacement.DIFFERENT

HOSTS = """
title = "two hosts"
measure = "rr"
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=NORMAL" }
engine = { cpus = [0] }
host = [{ name = "a", address = "10.0.0.1/24", cpus = [0] }, { name = "b", address = "10.0.0.2/24", cpus = [0] }]
sockets = { client = "a", server = "b" }
"""
PORTS = """
title = "two ports"
dut = { datapath = "dpdk", pmd_cpus = [1], rules = "actions=NORMAL" }
engine = { cpus = [0] }
port = [{ name = "left" }, { name = "right" }]
stream = [{ from = "left", to = "right" }]
"""


def with_memory(scenario, machine):
    return device_of(scenario).on_nodes(scenario, machine)


@pytest.mark.parametrize(
    ("placement", "machine", "wanted", "expected"),
    [
        (ANY, TWO, ((0,), (4,)), ((0,), (4,))),
        (SAME, TWO, ((0,), (1,)), ((0,), (1,))),
        (SAME, TWO, ((0,), (4,)), ((0,), (1,))),
        (SAME, TWO, ((5,), (0, 1)), ((5,), (4, 6))),
        (SAME, ONE, ((0,), (0,)), ((0,), (0,))),
        (SAME, ONE, ((0, 1), (0, 1)), ((0, 1), (0, 1))),
        (DIFFERENT, TWO, ((0,), (1,)), ((0,), (4,))),
        (DIFFERENT, TWO, ((0,), (6,)), ((0,), (6,))),
        (DIFFERENT, TWO, ((6,), (6,)), ((6,), (0,))),
        (DIFFERENT, TWO, ((0, 1), (2, 3)), ((0, 1), (4, 5))),
        (DIFFERENT, WITH_MEMORY_NODE, ((2,), (2,)), ((2,), (0,))),
    ],
)
def test_both_ends_go_where_the_placement_wants_them(placement, machine, wanted, expected):
    assert place(placement, machine, wanted) == expected


def test_cpus_of_the_switch_are_left_to_it_while_there_are_others():
    assert place(DIFFERENT, TWO, ((0,), (1,)), taken=(4,))[1] == (5,)
    _, crowded = place(DIFFERENT, TWO, ((0,), (1, 2, 3)), taken=(4, 5))
    assert set(crowded) <= {4, 5, 6, 7}
    assert {6, 7} < set(crowded)


def test_two_nodes_are_impossible_on_a_machine_with_one():
    with pytest.raises(RequirementError, match="impossible here: this machine has only one NUMA node"):
        place(DIFFERENT, ONE, ((0,), (1,)))


def test_a_node_that_is_too_small_is_named_with_its_size():
    with pytest.raises(RequirementError, match="5 CPUs are needed on NUMA node 0, which has 4"):
        place(SAME, TWO, ((0, 1, 2, 3, 4), (0,)))


@given(
    st.sampled_from([SAME, DIFFERENT]),
    st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True),
)
def test_whatever_is_wanted_the_ends_have_as_many_cpus_on_the_right_nodes(placement, first, second):
    on_first, on_second = place(placement, TWO, (tuple(first), tuple(second)))
    assert (len(on_first), len(on_second)) == (len(first), len(second))
    assert len(set(on_first)) == len(first)
    first_nodes, second_nodes = TWO.nodes_of(on_first), TWO.nodes_of(on_second)
    assert len(first_nodes) == len(second_nodes) == 1
    assert (first_nodes == second_nodes) is (placement is SAME)


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8,10-11\n", (0, 1, 2, 3, 8, 10, 11)), ("\n", ()), ("0", (0,)), ("1,0-1", (0, 1))]
)
def test_the_kernels_cpu_lists_are_read(text, cpus):
    assert cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["3-1", "a", "0-99999999", "-1"])
def test_what_is_no_cpu_list_is_refused(text):
    with pytest.raises(ValueError, match=r"range|literal"):
        cpu_list(text)


def machine(folder, nodes):
    for number, cpus in nodes.items():
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}" / "cpulist").write_text(cpus)
    (folder / "online").write_text("0-1")
    return str(folder)


def test_a_machines_nodes_are_read_with_the_cpus_that_may_be_used(tmp_path):
    topology = read_topology(Local(), machine(tmp_path, {0: "0-3\n", 1: "4-7\n", 2: "\n"}), usable=(1, 2, 4, 5))
    assert topology.cpus == {0: (1, 2), 1: (4, 5), 2: ()}
    assert topology.with_cpus == (0, 1)


def test_a_kernel_without_numa_has_one_node(tmp_path):
    assert read_topology(Local(), str(tmp_path / "none"), usable=(0, 1)).cpus == {0: (0, 1)}


def test_a_file_that_is_not_the_kernels_is_named(tmp_path):
    with pytest.raises(InputError, match="node0/cpulist: "):
        read_topology(Local(), machine(tmp_path, {0: "zero"}))


def test_this_machines_nodes_hold_all_usable_cpus():
    assert {cpu for cpus in read_topology(Local()).cpus.values() for cpu in cpus} == os.sched_getaffinity(0)


def hosts(placement, client=(0,), server=(0,), device=(1,), engine=(0,), datapath="af_packet"):
    plain = parse(HOSTS, "hosts.toml")
    first, second = plain.hosts
    return replace(
        plain,
        numa=placement,
        hosts=(replace(first, cpus=client), replace(second, cpus=server)),
        dut=replace(plain.dut, pmd_cpus=device, datapath=Datapath(datapath)),
        engine=replace(plain.engine, cpus=engine),
    )


def where(scenario):
    client, server = scenario.hosts
    return client.cpus, server.cpus, scenario.dut.pmd_cpus, scenario.engine.cpus


def test_a_socket_scenarios_ends_and_switch_move_and_the_record_says_where():
    moved, facts = placed(hosts(DIFFERENT, datapath="dpdk"), TWO)
    assert where(moved) == ((0,), (4,), (5,), (6,))
    words = (
        "different: client on CPU 0, node 0; server on CPU 4, node 1; switch on CPU 5, node 1; relay on CPU 6, node 1"
    )
    assert facts == {"NUMA placement of hosts": words}
    assert daemon_nodes(moved, TWO) == (1,)


@pytest.mark.parametrize(
    ("scenario", "machine", "expected"),
    [
        (hosts(SAME), TWO, ((0,), (0,), (1,), (0,))),
        (hosts(SAME, device=(5,), engine=(6,)), TWO, ((0,), (0,), (1,), (2,))),
        (hosts(SAME, client=(4,), server=(4,)), TWO, ((4,), (4,), (5,), (6,))),
        (hosts(SAME, server=(6,), device=(7,)), TWO, ((0,), (1,), (2,), (0,))),
        (hosts(DIFFERENT, server=(4,), device=(1, 5)), TWO, ((0,), (4,), (5, 6), (7,))),
        (hosts(DIFFERENT), WITH_MEMORY_NODE, ((0,), (2,), (3,), (2,))),
        (hosts(DIFFERENT, server=(3,), device=(2,)), WITH_MEMORY_NODE, ((0,), (3,), (2,), (3,))),
    ],
)
def test_switch_and_engine_are_on_the_servers_node(scenario, machine, expected):
    moved, _ = placed(scenario, machine)
    assert where(moved) == expected
    server, switch, engine = (machine.nodes_of(cpus) for cpus in expected[1:])
    assert server == switch == engine


def test_a_switch_never_gets_a_hosts_cpu_that_the_scenario_does_not_share():
    crowded = Topology({0: (0, 1), 1: (2,)})
    with pytest.raises(RequirementError, match="node 1 has too few CPUs for server and switch to have their own"):
        placed(hosts(DIFFERENT), crowded)
    moved, _ = placed(hosts(DIFFERENT, device=(0,)), crowded)
    assert where(moved) == ((0,), (2,), (2,), (2,)), "what the scenario shares may be shared elsewhere"


def test_queues_follow_the_pmd_thread_that_they_are_pinned_to():
    plain = parse(PORTS.replace("[1]", "[1, 2]"), "ports.toml")
    left, right = plain.ports
    pinned = replace(left, queues=2, rxq_affinity="0:2,1:1")
    moved, _ = placed(replace(plain, numa=DIFFERENT, ports=(pinned, right)), TWO)
    assert moved.dut.pmd_cpus == (4, 5)
    assert [port.rxq_affinity for port in moved.ports] == ["0:5,1:4", ""]


def test_a_rate_scenarios_engine_and_pmds_move():
    scenario = replace(parse(PORTS, "ports.toml"), numa=DIFFERENT)
    moved, facts = placed(scenario, TWO)
    assert (moved.engine.cpus, moved.dut.pmd_cpus) == ((0,), (4,))
    assert "device on CPU 4, node 1" in facts["NUMA placement of ports"]
    assert daemon_nodes(moved, TWO) == (1,)
    bound = with_memory(moved, TWO)
    assert bound.dut.other_config == {"dpdk-socket-mem": f"0,{moved.dut.memory_mb}"}
    assert with_memory(bound, Topology({0: (0, 4), 1: (1,)})) == bound, "what is said already stays"


def test_engine_and_pmds_never_share_a_cpu_to_be_on_one_node():
    scenario = replace(parse(PORTS, "ports.toml"), numa=SAME)
    with pytest.raises(RequirementError, match="too few CPUs for engine and switch"):
        placed(scenario, Topology({0: (0,), 1: (1,)}))


def swept(placement, repeat=1, **more):
    """A point of a sweep over `numa`, called as the sweep would."""
    level = str(placement)
    point = Point("g", {"numa": level}, repeat)
    return replace(hosts(placement, **more), name=f"g.numa-{level}.r{repeat}", title=level, point=point)


def test_same_is_needless_beside_any_on_a_machine_with_one_node():
    units = [swept(placement, repeat) for repeat in (1, 2) for placement in (SAME, ANY, DIFFERENT)]
    reason = "places everything as numa = any does here: one NUMA node"
    assert alike(units, ONE) == {"g.numa-same.r1": reason, "g.numa-same.r2": reason}
    assert alike(units, TWO) == {}, "there its memory is bound"
    assert alike(units, WITH_MEMORY_NODE) == {}


@pytest.mark.parametrize(
    "other",
    [[], [swept(DIFFERENT)], [swept(ANY, repeat=2)], [swept(ANY, server=(1,))], [swept(ANY, datapath="af_xdp")]],
    ids=["none", "no any", "of another repeat", "elsewhere", "another datapath"],
)
def test_what_no_other_unit_measures_is_needed(other):
    assert alike([swept(SAME), *other], ONE) == {}


def test_what_cannot_be_placed_is_not_called_alike():
    units = [swept(placement, client=(0, 1, 2)) for placement in (ANY, SAME)]
    assert alike(units, ONE) == {}


def test_nothing_is_bound_where_the_scenario_leaves_it_open():
    scenario = parse(PORTS, "ports.toml")
    assert placed(scenario, TWO) == (with_memory(scenario, TWO), {})
    assert daemon_nodes(scenario, TWO) is None
    assert with_memory(scenario, ONE) == scenario
    assert with_memory(parse(HOSTS, "hosts.toml"), TWO) == parse(HOSTS, "hosts.toml")


def policy_line():
    """The policy of this thread's stack, as the kernel tells it."""
    lines = Path("/proc/thread-self/numa_maps").read_text().splitlines()
    return next(line.split()[1] for line in lines if "stack" in line)


def test_memory_is_bound_inside_the_block_and_for_processes_started_there():
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel has no NUMA")
    before = memory_policy.current()
    with memory_on((0,), Local()):
        assert memory_policy.current() == (2, (0,))
        assert policy_line() == "bind:0"
        pid = os.fork()
        if pid == 0:
            os.execv("/bin/grep", ["grep", "-q", "bind:0", "/proc/self/numa_maps"])
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert memory_policy.current() == before


def test_a_node_that_does_not_exist_is_refused_with_the_kernels_reason():
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel has no NUMA")
    with pytest.raises(RequirementError, match="Invalid argument"), memory_on((63,), Local()):
        pass


class Bound:
    """Another host, which may be lost while memory is bound there."""

    name = "far"

    def __init__(self, lost=False):
        self.lost, self.asked = lost, []

    def bind_memory(self, nodes):
        if self.asked and self.lost:
            raise HostLostError("gone")
        self.asked.append(tuple(nodes))


def test_memory_of_another_host_is_taken_from_anywhere_again_after_an_error():
    host = Bound()
    with pytest.raises(ValueError, match="the daemon"), memory_on((1, 0), host):
        raise ValueError("the daemon")
    assert host.asked == [(0, 1), ()]


def test_a_host_that_is_lost_while_its_memory_is_bound_hides_no_error():
    with pytest.raises(ValueError, match="the daemon"), memory_on((0,), Bound(lost=True)):
        raise ValueError("the daemon")


def test_no_nodes_asked_for_changes_nothing():
    before = memory_policy.current() if Path("/proc/self/numa_maps").exists() else None
    with memory_on(None, Local()):
        assert before is None or memory_policy.current() == before
