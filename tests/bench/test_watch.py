"""A running switch is watched without being changed; recordings replay; a switch that ends is told."""

import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from bench_tools import PINCHPOINT, run, wait_for
from scenario_text import one_way

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.resource import Daemon
from pinchpoint.dut.ovs.bench import SWITCH
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Listener, standing_bench
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("command:watch")]
DROP = "in_port={left},udp,actions=drop"
SEED = 33
CHANGES = [
    *(("ovs-ofctl", "-O", "OpenFlow14", command, "unix:{place}/br0.mgmt", f"in_port=1,udp,actions={action}")
      for command in ("add-flow", "mod-flows") for action in ("drop", "output:2")),
    ("ovs-appctl", "-t", "{place}/vswitchd.ctl", "revalidator/purge"),
    *(("ovs-vsctl", "--db=unix:{place}/db.sock", "--timeout=20", *words.split()) for words in (
        "--may-exist add-port br0 extra -- set interface extra type=internal", "--if-exists del-port br0 extra",
        "set interface right mtu_request=1400", "set interface right mtu_request=1500",
        "set Open_vSwitch . other_config:flow-limit=1000", "remove Open_vSwitch . other_config flow-limit",
    )),
]  # fmt: skip


@pytest.fixture
def seconds(request):
    """For how long a switch is watched that is changed meanwhile."""
    return request.config.getoption("--watched")


@pytest.fixture
def switch(seconds):
    """A switch that drops what is sent to it, a thousand frames a second: (its run directory, its process)."""
    setup = prepare(
        parse(one_way("load", "[load]\nat_fps = [1000]", datapath="af_packet", rules=DROP), "drop.toml"),
        Machines(Local()),
    )
    path = f"af_packet:left@{setup.places.engine_netns}"
    with standing_bench(setup, Listener()):
        sending = subprocess.Popen(
            [find_engine(Local()), "send", "--from", path, "--rate", "1k", "--time", f"{60 + seconds}s", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            daemon = next(
                resource for resource in setup.resources if isinstance(resource, Daemon) and resource.name == SWITCH
            )
            yield setup.places.directory, daemon_pid(daemon, Local())
        finally:
            sending.kill()
            sending.wait()


@pytest.mark.tier1("command:watch")
def test_the_path_of_a_running_switch_names_where_frames_are_dropped(switch, tmp_path):
    place, _ = switch
    record = tmp_path / "switch.jsonl"
    done = run("watch", place, "--for", "4s", "--record", record)
    assert done.returncode == 0, done.stderr
    assert "drop action of pipeline" in done.stdout
    assert "likely: a rule that drops" in done.stdout
    assert "most of them by the rule br0 table=0," in done.stdout
    replayed = run("watch", record)
    assert replayed.stdout == done.stdout, "a recording says the same wherever it is replayed"
    view = json.loads(run("watch", record, "--json").stdout)["watched"]
    assert view["suspicions"][0]["cause"] == "rule-drop"
    (received,) = (hop["frames_in"] for hop in view["hops"] if hop["name"] == "switch reads")
    assert received > 0
    again = run("watch", place, "--for", "1s", "--record", record)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_every_row_closes_and_the_main_threads_ports_are_named_from_another_namespace(switch):
    place, _ = switch
    done = run("watch", place, "--for", "3s", "--json")
    found = json.loads(done.stdout)["watched"]
    for hop in found["hops"]:
        missing = hop["frames_in"] - hop["frames_out"] - sum(drop["frames"] for drop in hop["drops"])
        assert abs(missing) <= max(20, 0.02 * hop["frames_in"]) + found["unsure"][hop["name"]], hop
    (main,) = (load for load in found["threads"] if load["name"] == "main thread")
    assert {"left", "right"} <= set(main["ports"])
    assert 0 <= found["waited"]["main thread"] <= 1
    assert found["unread"] == {}


@pytest.mark.thorough
def test_what_is_said_of_a_switch_that_is_changed_at_random_meanwhile_is_right(switch, seconds, tmp_path):
    (place, _), draw, made = switch, random.Random(SEED), []
    said, errors = tmp_path / "said.json", tmp_path / "errors.txt"
    with said.open("w") as out, errors.open("w") as told:
        watching = subprocess.Popen(
            [PINCHPOINT, "watch", str(place), "--for", f"{seconds}s", "--json"], stdout=out, stderr=told
        )
        while watching.poll() is None:
            made.append([word.format(place=place) for word in draw.choice(CHANGES)])
            subprocess.run(made[-1], check=True, capture_output=True)
            time.sleep(draw.uniform(0.1, 2.0))
    assert watching.returncode == 0, errors.read_text()
    found = json.loads(said.read_text())["watched"]
    changes = f"seed {SEED}, {len(made)} changes; the last: {made[-20:]}"
    assert found["seconds"] > 0 and found["unread"] == {}, changes
    for hop in found["hops"]:
        missing = hop["frames_in"] - hop["frames_out"] - sum(drop["frames"] for drop in hop["drops"])
        assert abs(missing) <= max(50, 0.005 * hop["frames_in"]) + found["unsure"][hop["name"]], (hop, changes)
    again = [name for name in found["resets"] if not name.startswith("ovs/port/extra/")]
    assert again == [], f"nothing but the port that comes and goes begins anew; {changes}"


def test_what_a_packet_socket_has_no_room_for_is_named(switch):
    """The switch stands still for longer than its socket takes frames up."""
    place, pid = switch
    with subprocess.Popen(
        [PINCHPOINT, "watch", str(place), "--for", "6s"], stdout=subprocess.PIPE, text=True
    ) as watching:
        time.sleep(2.0)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2.0)
        os.kill(pid, signal.SIGCONT)
        out, _ = watching.communicate(timeout=60)
    assert "packet socket of left full" in out


def test_what_its_commands_print_is_read_elsewhere_as_the_switch_itself_is(switch, tmp_path):
    place, _ = switch

    def asked(command):
        argv = ["ovs-appctl", "-t", f"{place}/vswitchd.ctl", *command.split()]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    wait_for(lambda: re.search(r"^drop_action_of_pipeline.* total: [0-9]{4}", asked("coverage/show"), re.M), "drops")
    for command in (
        "dpif-netdev/pmd-stats-show", "dpif-netdev/pmd-rxq-show", "coverage/show", "dpctl/show", "upcall/show",
        "dpctl/dump-flows -m",
    ):  # fmt: skip
        (tmp_path / f"ovs-appctl_{command.replace('/', '.').replace(' ', '_')}").write_text(asked(command))
    for command in ("dump-ports", "dump-ports-desc"):
        argv = ["ovs-ofctl", "-O", "OpenFlow14", command, f"unix:{place}/br0.mgmt"]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        (tmp_path / f"ovs-ofctl_{command}_br0").write_text(printed)
    found = json.loads(run("watch", tmp_path, "--json").stdout)["watched"]
    assert found["seconds"] == 0, "totals"
    assert (found["unread"], found["missing"]) == ({}, {})
    assert [drop["kind"] for hop in found["hops"] for drop in hop["drops"] if drop["frames"] > 100] == ["rule"]
    assert [load["name"] for load in found["threads"]] == ["main thread"]


def test_a_switch_that_ends_while_it_is_watched_is_told_and_what_was_read_is_kept(switch, tmp_path):
    place, pid = switch
    record = tmp_path / "switch.jsonl"
    watching = subprocess.Popen(
        [PINCHPOINT, "watch", str(place), "--every", "1s", "--record", str(record)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: record.exists() and record.read_text().count("\n") > 2, "two readings")
    os.kill(pid, signal.SIGKILL)
    out, errors = watching.communicate(timeout=60)
    assert watching.returncode == 6, errors
    assert "no answer" in errors or "does not answer" in errors
    assert "switch reads" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("/nowhere",), 2, "no such folder, file or run directory"),
        (("{folder}", "--for", "1s"), 3, "no running switch found there"),
        (("--kind", "warp"), 2, "no device of kind 'warp'"),
        (("--kind", "wire"), 2, "cannot be watched"),
    ],
)
def test_what_cannot_be_watched_is_said(arguments, code, words, tmp_path):
    done = run("watch", *(argument.format(folder=tmp_path) for argument in arguments))
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
