"""`make test-campaign`: sixty points on a real Ray cluster of four nodes; two are killed, one comes back."""

import random
import subprocess
import time

import pytest
from bench_tools import wait_for, what_is_there
from campaign_tools import log_of, only_folder, require_whole, write_campaign
from cluster_tools import cluster

pytestmark = [pytest.mark.tier2("campaigns on a Ray cluster"), pytest.mark.needs("ray")]

SIZES, REPEATS = 20, 3


def test_sixty_points_are_whole_though_two_of_four_nodes_are_killed_at_random(tmp_path):
    before = what_is_there()
    chance = random.Random(time.time_ns())
    path, out = write_campaign(tmp_path, SIZES, REPEATS), tmp_path / "runs"
    with cluster(tmp_path / "cluster", 4) as made:
        lab = made.start(tmp_path / "stderr", "campaign", path, "--out", out, "--no-ceiling")
        killed = chance.sample(["n2", "n3", "n4"], 2)
        for number, name in enumerate(killed):
            least = 10 + 15 * number + chance.randrange(10)
            wait_for(lambda least=least: finished(out) >= least or lab.poll() is not None, f"{least} points", 600)
            time.sleep(chance.uniform(0, 3))
            assert lab.poll() is None, f"the lab runs when {name} is killed: {(tmp_path / 'stderr').read_text()}"
            assert finished(out) < SIZES * REPEATS, f"something is left to be measured when {name} is killed"
            made.nodes[name].kill()
        made.add(int(killed[0][1:]))
        back_since = len(log_of(out))
        assert lab.wait(600) == 0, (tmp_path / "stderr").read_text()
        for name, node in made.nodes.items():
            if name != killed[1]:
                assert (name, node.left(), node.links()) == (name, [], ["eth0", "lo"])
        log = log_of(out)
    require_whole(only_folder(out), SIZES * REPEATS)
    lost = {entry["machine"] for entry in log if entry["what"] == "lost"}
    assert lost <= set(killed)
    told = {name: sum(entry["what"] == "finished" and entry["machine"] == name for entry in log) for name in made.nodes}
    again = sum(entry["machine"] == killed[0] and entry["what"] == "finished" for entry in log[back_since:])
    print(f"killed {killed}; lost {sum(entry['what'] == 'lost' for entry in log)} attempts; finished on {told}; "
          f"on {killed[0]} once it was back {again}")  # fmt: skip
    assert what_is_there() == before


def finished(out):
    """Units that have been measured."""
    return sum(entry["what"] == "finished" for entry in log_of(out))


@pytest.fixture(scope="session", autouse=True)
def clean_before():
    """What a test that died here earlier left of its bridge."""
    subprocess.run(["ip", "link", "del", "pp-cluster"], check=False, capture_output=True)
