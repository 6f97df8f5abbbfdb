"""A balancer in XDP, connection by connection."""

import json

import pytest
from bench_tools import run
from serving_tools import served

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier1("device:xdp")]
DIRECT = 'mode = "direct-return"\nscheduler = "hash"'


def test_a_balancer_in_xdp_does_what_the_service_says(tmp_path):
    text = served("xdp", DIRECT, tables="[verify]\nconnections = 150\ntimeout_s = 20.0\n")
    (path := tmp_path / "xdp.toml").write_text(
        text.replace("port = 8080", "port = 80").replace("port = 8081", "port = 80")
    )
    done = run("run", path, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    metrics = {metric["name"]: metric["value"] for metric in scenario["metrics"]}
    assert {metrics[name] for name in ("completed", "tuples kept", "direct return")} == {1.0}
