"""What `make bench-exhaustion` plants, drawn by a seed, and when it is content."""

import exhaustion_rows
import pytest
from exhaustion_rows import NOTHING, Row

from pinchpoint.scenario import parse

FAULTS = {
    *("local ports", "table", "descriptors", "lowered descriptors", "accept queue", "queueing discipline"),
    *("slow backend", "hole", "unfair scheduler", "blocks"),
}


def sizes(seed: int, number: int, only: str = "") -> list[tuple[str, str]]:
    return [(plant.name, plant.drawn) for plant in exhaustion_rows.drawn(seed, number, only)]


def row(*, is_right: bool, is_clean: bool = False) -> Row:
    return Row("clean" if is_clean else "hole", "nft", NOTHING, is_right, is_clean, "", 1.0)


def test_every_kind_of_fault_is_planted_and_three_rounds_have_thirty_clean_benches() -> None:
    rounds = [exhaustion_rows.drawn(1, number) for number in range(3)]
    for plants in rounds:
        assert {plant.what for plant in plants if not plant.is_clean} == FAULTS
    assert sum(plant.is_clean for plants in rounds for plant in plants) == 30


def test_a_seed_draws_the_same_again_and_each_round_has_sizes_of_its_own() -> None:
    assert sizes(7, 0) == sizes(7, 0)
    assert set(sizes(7, 0)) != set(sizes(7, 1))
    assert set(sizes(7, 0)) != set(sizes(8, 0))
    assert sizes(7, 0, "nginx") == [size for size in sizes(7, 0) if "nginx" in size[0]]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_drawn_is_a_scenario_that_is_read(seed: int) -> None:
    for plant in exhaustion_rows.drawn(seed, 0):
        scenario = parse(plant.text(2.0), "drawn.toml")
        assert (scenario.dut.kind, scenario.measure.kind) == (plant.kind, plant.measure)


def test_a_smoke_round_has_two_plants_and_a_clean_bench() -> None:
    plants = exhaustion_rows.drawn(1, 0)
    assert sorted(
        (plant.name, plant.measure) for plant in plants if (plant.name, plant.measure) in exhaustion_rows.SMOKE
    ) == sorted(exhaustion_rows.SMOKE)


def test_nineteen_of_twenty_are_enough_and_one_clean_bench_that_is_accused_is_too_many() -> None:
    named, missed = row(is_right=True), row(is_right=False)
    assert exhaustion_rows.is_met([*19 * [named], missed])
    assert not exhaustion_rows.is_met([*18 * [named], missed])
    assert not exhaustion_rows.is_met([*20 * [named], row(is_right=False, is_clean=True)])
