"""docs/studies.md: its example is a study that loads, and its tables name what there is."""

import re
import textwrap
from pathlib import Path

from pinchpoint.findings.findings import KINDS
from pinchpoint.scenario.study import load_study

GUIDE = Path(__file__).parents[3] / "docs" / "studies.md"
TEXT = GUIDE.read_text()


def blocks():
    return [textwrap.dedent(block) for block in re.findall(r"^ *```toml\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)]


def test_the_step_by_step_study_loads_in_both_forms(tmp_path):
    scenario, sweep, study = blocks()
    (tmp_path / "no-emc.toml").write_text(f"{scenario}\n{sweep}")
    without = scenario.replace("emc_insert_inv_prob = 0\n", "")
    assert without != scenario
    (tmp_path / "with-emc.toml").write_text(f"{without}\n{sweep}")
    (tmp_path / "study.toml").write_text(study)
    loaded, sweeps = load_study(tmp_path)
    assert [(sweep.group, len(sweep.scenarios), sweep.repeats) for sweep in sweeps] == [
        ("with-emc", 4, 3),
        ("no-emc", 4, 3),
    ]
    _, quick = load_study(tmp_path, quick=True)
    assert [(len(sweep.scenarios), sweep.repeats) for sweep in quick] == [(2, 1), (2, 1)]
    assert len(loaded.findings) == 3
    assert len(loaded.published[0].points) == 3


def test_every_kind_of_finding_is_explained():
    assert set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)) == set(KINDS)


def test_every_group_of_the_shipped_studies_is_mentioned():
    for name in ("flow-rules", "io-paths", "rfc2544"):
        for sweep in load_study(GUIDE.parents[1] / "studies" / name)[1]:
            assert re.search(rf"\b{re.escape(sweep.group)}\b", TEXT), sweep.group
