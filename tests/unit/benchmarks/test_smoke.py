"""Every benchmark has a smoke run, and `make test-all` holds all of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^(bench-[a-z-]+):", MAKEFILE, re.MULTILINE)) - {"bench-tools"}


def test_make_smoke_runs_every_benchmark() -> None:
    (listed,) = re.findall(r"^BENCHMARKS := (.*)$", MAKEFILE, re.MULTILINE)
    assert set(listed.split()) == TARGETS
    (parts,) = re.findall(r"^TEST_ALL := (.*)$", MAKEFILE, re.MULTILINE)
    assert "smoke" in parts.split()


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_benchmark_takes_smoke(target: str) -> None:
    (script,) = re.findall(rf"^{target}:.*\n\t.*python (benchmarks/\S+) \$\(BENCH\)$", MAKEFILE, re.MULTILINE)
    text = (ROOT / script).read_text()
    assert '"--smoke"' in text or "engine_rows.options" in text
