"""Nodes of a Ray cluster that cannot be used, and a head that is gone."""

import json
from pathlib import Path

import pytest
from bench_tools import wait_for, what_is_there
from campaign_tools import log_of, only_folder, require_whole, write_campaign
from cluster_tools import cluster

import pinchpoint

pytestmark = [pytest.mark.tier2("campaigns on a Ray cluster"), pytest.mark.needs("ray")]


@pytest.fixture
def nothing_left():
    before = what_is_there()
    yield
    assert what_is_there() == before


def test_a_node_whose_actor_cannot_live_is_excluded_with_the_reason(nothing_left, tmp_path):
    path, out = write_campaign(tmp_path, sizes=1, repeats=1), tmp_path / "runs"
    without_pinchpoint = f"mount -t tmpfs none {Path(pinchpoint.__file__).parent}"
    with cluster(tmp_path / "cluster", 1, head_measures=False) as made:
        made.add(2, without_pinchpoint)
        lab = made.start(tmp_path / "stderr", "campaign", path, "--out", out, "--no-ceiling")
        wait_for(lambda: log_of(out), "n2 to be excluded", 120)
        made.add(3)
        assert lab.wait(240) == 0, (tmp_path / "stderr").read_text()
    excluded = log_of(out)[0]
    assert (excluded["what"], excluded["machine"]) == ("excluded", "n2")
    assert "its actor died 3 times before it was ready" in excluded["reason"]
    assert "No module named" in excluded["reason"]
    require_whole(only_folder(out), 1)


def test_when_the_head_dies_the_campaign_ends_with_what_to_do_and_keeps_what_it_has(nothing_left, tmp_path):
    path, out = write_campaign(tmp_path, sizes=8, repeats=4), tmp_path / "runs"
    with cluster(tmp_path / "cluster", 1) as made:
        lab = made.start(tmp_path / "stderr", "campaign", path, "--out", out, "--no-ceiling")
        wait_for(lambda: any(entry["what"] == "finished" for entry in log_of(out)), "the first unit", 120)
        assert lab.poll() is None
        made.head.kill_ray_server()
        assert lab.wait(120) == 3, (tmp_path / "stderr").read_text()
        said = (tmp_path / "stderr").read_text()
        assert "Traceback" not in said
        assert f"the Ray cluster at {made.head.address}:6379 is gone" in said
        assert "--resume" in said
        assert made.head.left() == []
    assert json.loads((only_folder(out) / "result.json").read_text())["scenarios"]
