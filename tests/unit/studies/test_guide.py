"""docs/studies.md: its example is a study that loads, and its tables name what there is."""

import re
import textwrap
from dataclasses import replace
from pathlib import Path

from reference import studies
from sample_study import study_run

from pinchpoint.findings.findings import KINDS
from pinchpoint.model.study import Conclusion, ConclusionOutcome, FindingRequest, JudgedConclusion, Ratio
from pinchpoint.scenario.study import load_study
from pinchpoint.store.folder import RESULT

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


def test_the_conclusions_held_against_the_originals_are_those_of_the_stored_runs():
    assert studies.renewed(TEXT) == TEXT, "run: python packaging/reference/studies.py"


def test_a_stored_run_is_told_conclusion_by_conclusion_or_by_its_findings(tmp_path):
    _, result, _ = study_run()
    conclusion = Conclusion("Much is lost.", "figures.csv", FindingRequest("compare", "base", "NDR", "", ""), None, 0.8)
    concluded = JudgedConclusion(
        conclusion, ConclusionOutcome.NOT_DECIDABLE, {"": 0.5}, {"": Ratio(0.7, 0.6, 0.9)}, {}, ("too few repeats",), 1
    )
    for name, conclusions in (("with", (concluded,)), ("without", ())):
        stored = studies.small(replace(result, conclusions=conclusions))
        (tmp_path / f"{name}.json").write_bytes(RESULT.encode(stored, name))
    told, _, findings = studies.held(tmp_path).replace("\\", "").partition("### without")
    assert "### with\n\n| conclusion | theirs | ours here | outcome, and why they differ |" in told
    assert "| Much is lost. | 0.5 x | 0.7 x [0.6 .. 0.9] | not decidable here; too few repeats |" in told
    assert findings.count("\n- ") == len(result.findings)


def test_every_group_of_the_shipped_studies_is_mentioned():
    for name in ("flow-rules", "io-paths", "rfc2544"):
        for sweep in load_study(GUIDE.parents[1] / "studies" / name)[1]:
            assert re.search(rf"\b{re.escape(sweep.group)}\b", TEXT), sweep.group
