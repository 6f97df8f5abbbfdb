"""Whether the order of trials decides what a device carries."""

from dataclasses import replace

import pytest
from simulated import Truth
from support import Bench

from pinchpoint.search.memory import BOTH, PAIR, PAIRS, Memory, Role

GOOD = Bench(Truth(5e6)).measure(0.2, 1e6)
LOSING = replace(GOOD, received=GOOD.offered // 2)


def paired(memory: Memory, *, after_overload: bool, after_rest: bool) -> None:
    """One pair; whether the trials of it lose."""
    for role in PAIR:
        assert memory.role is role
        loses = {Role.OVERLOAD: True, Role.AFTER_OVERLOAD: after_overload, Role.AFTER_REST: after_rest}
        memory.note(LOSING if loses.get(role, False) else GOOD, 0.0)


def test_one_pair_is_enough_where_order_does_not_decide() -> None:
    memory = Memory()
    memory.plan(1e6)
    paired(memory, after_overload=False, after_rest=True)
    assert memory.is_known and not memory.is_there
    assert memory.role is Role.SEARCH


def test_memory_is_believed_only_where_every_pair_shows_it() -> None:
    memory = Memory()
    memory.plan(1e6)
    for _ in range(PAIRS - 1):
        paired(memory, after_overload=True, after_rest=False)
        assert not memory.is_known
    paired(memory, after_overload=True, after_rest=True)
    assert memory.is_known and not memory.is_there


def test_with_memory_trials_go_on_after_rests_and_after_overloads() -> None:
    memory = Memory()
    memory.plan(1e6)
    for _ in range(PAIRS):
        paired(memory, after_overload=True, after_rest=False)
    assert memory.is_there
    roles = (*BOTH, BOTH[0])
    for role in roles:
        assert memory.role is role
        memory.note(GOOD, 0.0)
    assert len(memory.overloads) == PAIRS + roles.count(Role.OVERLOAD)
    assert len(memory.after_overloads) == roles.count(Role.AFTER_OVERLOAD)


def test_the_loads_of_a_pair_are_on_either_side_of_the_estimate() -> None:
    memory = Memory()
    memory.plan(1e6)
    loads = []
    for _ in PAIR:
        loads.append(memory.load_fps(9e6, 1e4))
        memory.note(GOOD, 0.0)
    assert loads == [9e6, pytest.approx(0.97e6), 1e4, pytest.approx(1.03e6)]
