"""docs/conformance.md: every key that it names is one of a scenario."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
NAMED = re.findall(r"`[a-z]+\.([a-z_]+)(?:`| = )", (DOCS / "conformance.md").read_text())


@pytest.mark.parametrize("key", sorted(set(NAMED)))
def test_a_key_that_it_names_is_in_the_reference(key):
    assert f"\n| `{key}` |" in (DOCS / "scenario.md").read_text()
