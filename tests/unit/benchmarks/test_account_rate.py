"""What `make bench-engine` reads of the example that accounts frames in memory."""

import pytest
from account_rate import ALL, CHECKED, accounted

TABLE = f"""
                           best ns    median    Mframes/s
{ALL:<24}      7.55      7.75        129.0
{CHECKED:<24}     90.10     95.20         10.5
"""


def test_a_rate_is_of_the_item_asked_for_and_an_older_build_without_it_is_an_error() -> None:
    assert (accounted(TABLE, ALL), accounted(TABLE, CHECKED)) == (129e6, 10.5e6)
    with pytest.raises(RuntimeError, match="no line 'all of it': build it anew"):
        accounted(TABLE, "all of it")
