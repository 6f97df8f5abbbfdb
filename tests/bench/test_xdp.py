"""A balancer in XDP, connection by connection: the engine's program, and one of the user's."""

import json
import subprocess
from pathlib import Path

import pytest
from bench_tools import only_run, run
from serving_tools import served

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier1("device:xdp")]
DIRECT = 'mode = "direct-return"\nscheduler = "hash"'
VERIFY = "[verify]\nconnections = 150\ntimeout_s = 20.0\n"
RIGHT = ("completed", "tuples kept", "direct return")
MAPS = """
[[map]]
name = "pp_service"
key = "00000000"
value = "0a00006400500000"
[[map]]
name = "pp_to"
key = "00000000"
port = "servers"
"""
OF_BPF = ("bpf-gcc", "-O2", "-gbtf", "-mcpu=v3", "-I/usr/include", "-I/usr/include/x86_64-linux-gnu", "-c")


def scenario(folder, dut="", more=""):
    text = served("xdp", DIRECT, dut=dut, tables=VERIFY + more)
    (path := folder / "xdp.toml").write_text(
        text.replace("port = 8080", "port = 80").replace("port = 8081", "port = 80")
    )
    return path


def verified(done):
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    return {metric["name"]: metric["value"] for metric in result["metrics"]}


def test_a_balancer_in_xdp_does_what_the_service_says(tmp_path):
    metrics = verified(run("run", scenario(tmp_path), "--out", tmp_path / "runs", "--json"))
    assert {metrics[name] for name in RIGHT} == {1.0}


@pytest.mark.tier2("device:xdp")
@pytest.mark.needs("bpf-gcc")
@pytest.mark.parametrize("attach", ["generic", "native"])
def test_a_program_of_the_user_s_is_attached_and_its_maps_are_set_and_read(tmp_path, attach):
    source, compiled = Path(__file__).with_name("xdp_balancer.c"), tmp_path / "balancer.o"
    subprocess.run([*OF_BPF, source, "-o", compiled], check=True)
    path = scenario(tmp_path, f'counter = "pp_sent"\nattach = "{attach}"', MAPS)
    done = run("run", path, "--set", f"dut.object={compiled}", "--out", tmp_path / "runs", "--json")
    metrics = verified(done)
    assert {metrics[name] for name in RIGHT} == {1.0}
    lines = (only_run(tmp_path / "runs").path / "measurements.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["observed"]["xdp/port/clients/balanced"] for line in lines) >= 150
