"""From what is there to what is wanted."""

from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.bench.builder import Create, Remove, describe, plan
from pinchpoint.bench.resource import Hugepages, Namespace, RunDirectory, Veth

DIRECTORY = RunDirectory("/run/pinchpoint/b1")
PAGES = Hugepages(before=10, after=522)
LEFT = Namespace("pp-b1-dut")
RIGHT = Namespace("pp-b1-gen")
LINK = Veth("left", "pp-b1-dut", "left", "pp-b1-gen", 1500)

_SETS = st.lists(st.sampled_from([DIRECTORY, PAGES, LEFT, RIGHT, LINK]), unique=True)


def carried_out(current, actions):
    present = list(current)
    for action in actions:
        if isinstance(action, Create):
            assert action.resource not in present
            present.append(action.resource)
        else:
            present.remove(action.resource)
    return present


@given(_SETS, _SETS)
def test_a_plan_leads_exactly_to_what_is_wanted(current, desired):
    assert set(carried_out(current, plan(current, desired))) == set(desired)


def test_creations_come_in_order_and_removals_in_reverse():
    everything = [DIRECTORY, LEFT, RIGHT, LINK]
    assert plan((), everything) == tuple(Create(resource) for resource in everything)
    assert plan(everything, ()) == tuple(Remove(resource) for resource in reversed(everything))


def test_what_stays_is_not_touched():
    assert plan([DIRECTORY, LEFT], [DIRECTORY, RIGHT]) == (Remove(LEFT), Create(RIGHT))


def test_a_plan_reads_as_commands():
    assert describe(plan([PAGES], [LEFT])) == (
        "1. - sysctl vm.nr_hugepages=522    # was 10",
        "2. + ip netns add pp-b1-dut",
    )
