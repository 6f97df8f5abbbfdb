"""A real DPVS, where PINCHPOINT_DPVS in the environment names the folder of its programs (packaging/build-dpvs)."""

import json
import os
from pathlib import Path

import pytest
from bench_tools import ROOT, run

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("device:dpvs"), pytest.mark.needs("dpvs")]
FOLDER = os.environ.get("PINCHPOINT_DPVS", "")


@pytest.mark.skipif(not FOLDER, reason="PINCHPOINT_DPVS names no folder with a build of DPVS")
def test_dpvs_deals_in_turn_from_local_addresses_and_tells_backends_the_client(tmp_path):
    program = Path(FOLDER) / "dpvs"
    done = run(
        *("run", ROOT / "studies/full-nat/verify-dpvs.toml", "--set", f"dut.program={program}"),
        *("--set", "verify.timeout_s=20", "--out", tmp_path / "runs", "--json"),
    )
    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    metrics = {metric["name"]: metric["value"] for metric in scenario["metrics"]}
    assert metrics["completed"] == metrics["expected source"] == metrics["TOA option"] == 1.0
    assert metrics["busiest backend"] == pytest.approx(1 / 3, abs=0.01)
    assert scenario["settings"]["tcp_timeout_time_wait"] == "2"
