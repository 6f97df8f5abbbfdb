"""Texts with a unit as values of keys whose names end in one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import scenario_text

from pinchpoint.keys import kinds
from pinchpoint.keys.reader import in_unit_of
from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse


@pytest.mark.parametrize(
    ("key", "written", "number"),
    [
        ("trial_duration_s", "50ms", 0.05),
        ("trial_duration_s", "0.2 ms", 0.0002),
        ("duration_s", "5m", 300.0),
        ("duration_s", "1.5h", 5400.0),
        ("slow_ms", "2s", 2000.0),
        ("new_flow_us", "350ns", 0.35),
        ("max_load_fps", "3Mpps", 3e6),
        ("max_load_fps", "14.88Mpps", 14.88e6),
        ("at_fps", ["10kpps", 20000], [10e3, 20000]),
    ],
)
def test_a_text_with_a_unit_is_the_number_in_the_keys_unit(key, written, number):
    assert in_unit_of(key, written) == number


@pytest.mark.parametrize(
    ("key", "written"),
    [("duration_s", "3Mpps"), ("max_load_fps", "5s"), ("frame_bytes", "64k"), ("title", "5s"), ("duration_s", "-5s"),
     ("duration_s", "5"), ("duration_s", ""), ("duration_s", True), ("duration_s", 5)],
)  # fmt: skip
def test_whatever_is_no_quantity_of_the_key_stays(key, written):
    assert in_unit_of(key, written) is written


@given(st.sampled_from(("a_s", "a_ms", "a_us", "a_fps")), st.text())
def test_any_text_is_a_number_or_stays(key, written):
    value = in_unit_of(key, written)
    assert value is written or (isinstance(value, float) and value >= 0)


def test_a_scenario_says_times_and_rates_with_units_and_addresses_by_prefix():
    search = '[search]\ntrial_duration_s = "1500ms"\nduration_sum_s = "21s"\nmax_load_fps = "3Mpps"'
    scenario = parse(scenario_text(more=f'ipv4_dst = "48.0.0.0/24"\n{search}'), "x.toml")
    assert (scenario.search.trial_duration_s, scenario.search.max_load_fps) == (1.5, 3e6)
    destinations = scenario.streams[0].ipv4_dst
    assert (destinations.first, destinations.count) == ((48 << 24), 256)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('ipv4_dst = "48.0.0.1/24"', "without bits set behind the prefix"),
        ('ipv4_dst = "48.0.0.0/33"', "without bits set behind the prefix"),
        ('[search]\ntrial_duration_s = "1 parsec"', 'found "1 parsec"'),
        ("[search]\nloss_ratios = [50]", "0.5 % is 0.005"),
    ],
)
def test_what_is_none_is_named_with_what_was_expected(line, words):
    with pytest.raises(InputError, match=r"x\.toml:") as error:
        parse(scenario_text(more=line), "x.toml")
    assert words in error.value.message


@pytest.mark.parametrize(("prefix", "count"), [("10.0.0.0/8", 1 << 24), ("fd00::/120", 256)])
def test_a_range_of_either_family_may_be_a_prefix(prefix, count):
    assert kinds.ip_range().read(prefix).count == count


@pytest.mark.parametrize("prefix", ["fd00::/64", "::/96", "10.0.0.1/8", "10.0.0.0/", "/8"])
def test_a_prefix_that_is_too_large_or_none_is_refused(prefix):
    with pytest.raises(kinds.MismatchError):
        kinds.ip_range().read(prefix)
