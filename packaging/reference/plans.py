"""The plans of all shipped scenarios, as `--dry-run` prints them, on a planted machine.

`python packaging/reference/plans.py` writes tests/golden/plans/FOLDER.txt for each folder of studies/, which
tests/unit/studies/test_plans.py holds against the present ones. The machine has two NUMA nodes with four CPUs each, all
programs, and nothing that a plan would have to read. Of a group's points the first is printed whole, of the others the
lines in which they differ.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

from pinchpoint.cli.program import of_paths
from pinchpoint.dut import placement, setup
from pinchpoint.host import guest_kernels
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import NODES
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Scenario
from pinchpoint.run.scenario import planned_lines

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies"
STORED = ROOT / "tests" / "golden" / "plans"
_BENCH = "b0b0b0"  # what names it, else drawn
_NUMBER = re.compile(r"^ *\d+\. ")
_CPUS = 8


class Planted(Host):
    """A machine of two nodes that runs nothing."""

    files: ClassVar[Mapping[str, str]] = {f"{NODES}/node0/cpulist": "0-3\n", f"{NODES}/node1/cpulist": "4-7\n"}

    def cpus(self) -> frozenset[int]:
        """All of them may be used."""
        return frozenset(range(_CPUS))

    def names(self, folder: str) -> list[str]:
        """Its nodes; no other folder is there."""
        if folder == NODES:
            return ["node0", "node1"]
        raise FileNotFoundError(folder)

    def read_bytes(self, path: str, offset: int = 0) -> bytes:
        """What it has of files."""
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path].encode()[offset:]

    def exists(self, path: str) -> bool:
        """No other file is there."""
        return path in self.files

    def which(self, program: str) -> str:
        """Every program is installed."""
        return f"/usr/bin/{program}"


@contextmanager
def _planted() -> Iterator[Machines]:
    """Inside, nothing of this machine is looked at."""
    with ExitStack() as stack:
        stack.enter_context(patch("pinchpoint.dut.setup.secrets.token_hex", lambda _: _BENCH))
        stack.enter_context(patch.object(setup, "find_engine", lambda _: "pinchpoint-engine"))
        stack.enter_context(patch.object(setup, "check_captures", lambda *_: None))
        stack.enter_context(patch.object(placement, "_best", lambda words, *_: words[0]))
        stack.enter_context(patch.object(guest_kernels, "releases", lambda _: ()))
        stack.enter_context(patch.object(guest_kernels.Uml, "_PTRACE", Path("/nonexistent")))
        yield Machines(Planted())


def plans(folder: Path) -> str:
    """The plans of a folder's points in its short form."""
    parts = list[str]()
    with _planted() as machines:
        for sweep in of_paths([folder], quick=True).sweeps:
            first = list[str]()
            for unit in sweep.scenarios:
                lines = list(_lines(unit, machines))
                parts += [f"# {Path(unit.path).name}: {unit.name}", *(_difference(first, lines) if first else lines)]
                first = first or lines
    return "\n".join(parts) + "\n"


def _lines(unit: Scenario, machines: Machines) -> Iterator[str]:
    try:
        for line in planned_lines(setup.prepare(unit, machines)):
            yield _NUMBER.sub("", line).replace(str(Path(sys.executable).parent), "BIN")
    except RequirementError as error:
        yield f"impossible: {error.message}"


def _difference(first: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    yield from (f"without {line}" for line in first if line not in lines)
    yield from (f"with {line}" for line in lines if line not in first)


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    for study in sorted(path for path in STUDIES.iterdir() if path.is_dir()):
        (STORED / f"{study.name}.txt").write_text(plans(study), encoding="utf-8")
