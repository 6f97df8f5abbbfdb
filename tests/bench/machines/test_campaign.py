"""Campaigns: on this machine, and on the nodes of a real Ray cluster, which are killed."""

import signal

import pytest
from bench_tools import run, start, wait_for
from campaign_tools import log_of, only_folder, require_whole, write_campaign
from cluster_tools import cluster

pytestmark = pytest.mark.tier2("campaigns on a Ray cluster")


@pytest.mark.tier1("command:campaign")
def test_here_it_is_interrupted_and_resumed_and_every_unit_counts_once(nothing_left, tmp_path):
    path, out = write_campaign(tmp_path, sizes=2, repeats=1), tmp_path / "runs"
    first = start("campaign", path, "--out", out, "--no-ceiling", "--quiet")
    wait_for(lambda: any(entry["what"] == "finished" for entry in log_of(out)), "the first unit")
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode in (0, 130), said  # the second may have been over
    done = run("campaign", "--resume", only_folder(out), "--quiet")
    assert done.returncode == 0, done.stderr
    require_whole(only_folder(out), 2)
    assert run("show", only_folder(out)).returncode == 0
    refused = run("run", "--resume", only_folder(out))
    assert (refused.returncode, "campaign --resume" in refused.stderr) == (2, True)


@pytest.mark.needs("ray")
def test_a_node_of_a_ray_cluster_is_killed_and_nothing_is_lost_or_counted_twice(nothing_left, tmp_path):
    path, out = write_campaign(tmp_path, sizes=4, repeats=2), tmp_path / "runs"
    with cluster(tmp_path / "cluster", 2, head_measures=False) as made:
        lab = made.start(tmp_path / "stderr", "campaign", path, "--out", out, "--no-ceiling")
        wait_for(lambda: any(entry["what"] == "finished" for entry in log_of(out)), "the first unit", 120)
        wait_for(lambda: log_of(out)[-1]["what"] == "begun", "n2 anew", 60)
        assert lab.poll() is None, "only n2 measures, so there is work left"
        made.nodes["n2"].kill()
        made.add(3)
        assert lab.wait(240) == 0, (tmp_path / "stderr").read_text()
        assert made.nodes["n3"].left() == []
        assert made.nodes["n3"].links() == ["eth0", "lo"]
    require_whole(only_folder(out), 8)
    assert "n2" in [entry["machine"] for entry in log_of(out) if entry["what"] == "lost"]
    assert {entry["machine"] for entry in log_of(out) if entry["what"] == "finished"} == {"n2", "n3"}
