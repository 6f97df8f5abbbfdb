"""The measure `build` with real daemons: every method makes what it says and leaves nothing."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from bench_tools import ROOT, SCENARIO, STATE, marked_processes, run, wait_for, what_is_there

from pinchpoint.bench import actions
from pinchpoint.bench.builder import Builder
from pinchpoint.bench.resource import Daemon, Namespace, TapLinks
from pinchpoint.bulk import making
from pinchpoint.bulk.making import timed_make, timed_removal
from pinchpoint.dut.ovs import bulk
from pinchpoint.dut.ovs.bench import SWITCH
from pinchpoint.host import netlink
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.build import run as build
from pinchpoint.measure.build.run import Build
from pinchpoint.measure.standing import Interrupted, Task
from pinchpoint.measure.traffic import Background
from pinchpoint.model.errors import BenchError
from pinchpoint.model.warning import Warn
from pinchpoint.run.scenario import run_scenario
from pinchpoint.scenario import parse

pytestmark = pytest.mark.tier2("measure:build")

RULES = "in_port={left},actions=output:{right}"


def building(**changes):
    """A scenario on veth links that builds what `changes` say."""
    text = SCENARIO.replace("{datapath}", "af_packet").replace("{rules}", RULES).replace("{more}", "")
    scenario = parse(text.replace("{max_load_fps}", "1e6").replace("{trial_s}", "0.2"), "build.toml")
    wanted = Build(**{"what": "flows", "method": "file", "count": 100, "concurrency": 8, "probe_rules": 0,
                     "load_fps": 0.0} | changes)  # fmt: skip
    return replace(scenario, measure=wanted)


def measured(scenario, on_stoppable=lambda _: None):
    """(its result, its measurements)."""
    kept = []
    task = Task(on_stoppable=on_stoppable, keep=kept.append)
    return run_scenario(Machines(Local()), scenario, task), kept


def value(result, name):
    return next(metric.value for metric in result.metrics if metric.name == name)


FAST = {"bundle", "transaction", "netlink"}  # of each kind of item the method that `make test` has
METHODS = [
    pytest.param(what, method, count, marks=[pytest.mark.tier1("measure:build")] * (method in FAST))
    for what, methods, count in (
        ("flows", bulk.FLOW_METHODS, 3000),
        ("ports", bulk.PORT_METHODS, 12),
        ("veths", making.VETH_METHODS, 30),
    )
    for method in methods
]


@pytest.mark.parametrize(("what", "method", "count"), METHODS)
def test_every_method_is_timed_until_all_is_there_and_until_all_is_gone(nothing_left, what, method, count):
    count = 40 if (what, method) == ("flows", "process") else count
    result, (kept,) = measured(building(what=what, method=method, count=count))
    made, removal = kept.account["making"], kept.account["removal"]
    assert 0 < made["returned_s"] <= made["visible_s"]
    assert removal["visible_s"] > 0
    assert made["steps"][0] == [0, 0.0]
    assert made["steps"][-1] == [count, made["returned_s"]]
    assert value(result, "build rate") == pytest.approx(count / made["returned_s"])
    assert value(result, "removal time") == removal["visible_s"]
    assert result.metrics == kept.metrics


@pytest.mark.parametrize("method", ["file", "bundle"])
def test_each_probed_rule_takes_its_first_frame_after_building_began(nothing_left, method):
    result, (kept,) = measured(building(method=method, count=5000, probe_rules=5))
    taken = kept.account["probes"]["taken_s"]
    assert len(taken) == 5
    within = kept.account["probes"]["within_s"]
    assert all(-within <= seconds < kept.account["making"]["returned_s"] + 2.0 for seconds in taken)
    assert value(result, "first frame time") == max(taken)
    assert Warn.TOOK_NO_FRAME not in [warning.kind for warning in result.warnings]


def seen_by_the_engine(monkeypatch, lost_before):
    """The engine's account of the traffic, as of a host that never stops the engine; that host is not on trial."""
    finish = Background.finish

    def planted(self, *arguments):
        seen = finish(self, *arguments)
        quiet, meanwhile = seen.load
        quiet = replace(quiet, received=quiet.offered - int(lost_before * quiet.offered))
        return replace(seen, load=(quiet, replace(meanwhile, missed=0, engine_gaps_s=0.0)))

    monkeypatch.setattr(Background, "finish", planted)


def test_a_load_that_is_forwarded_meanwhile_says_how_long_it_was_blocked(nothing_left, monkeypatch):
    seen_by_the_engine(monkeypatch, lost_before=0.0)
    result, (kept,) = measured(building(method="bundle", count=20000, load_fps=5000))
    assert kept.account["load"]["quiet"]["offered"] > 0
    assert kept.account["load"]["building"]["offered"] > 0
    assert kept.account["refused"] == ""
    assert 0 <= value(result, "blocked time") < value(result, "visible time") + 3
    assert value(result, "longest gap") >= 0


def test_a_load_that_was_lost_before_building_has_no_blocked_time_and_the_reason(nothing_left, monkeypatch):
    seen_by_the_engine(monkeypatch, lost_before=0.5)
    result, (kept,) = measured(building(method="bundle", count=1000, load_fps=5000))
    assert "of the load was lost before" in kept.account["refused"]
    assert Warn.NO_BLOCKED_TIME.of(kept.account["refused"]) in result.warnings
    assert "blocked time" not in {metric.name for metric in result.metrics}


def test_frames_take_no_rule_that_is_not_there(nothing_left):
    """The scenario's own rule would forward the probes: they are kept from it."""
    scenario = building(method="process", count=60, concurrency=1, probe_rules=2)
    _, (kept,) = measured(scenario)
    first, last = kept.account["probes"]["taken_s"]
    assert last > first + 0.1  # rule 60 is added by the 60th process


LONG = [
    ("flows", "process", 10_000),
    ("flows", "file", 2_000_000),
    ("ports", "process", 2_000),
    ("veths", "netlink", 20_000),
]


@pytest.mark.parametrize(("what", "method", "count"), LONG)
def test_a_signal_ends_the_building_long_before_it_is_done(nothing_left, monkeypatch, what, method, count):
    at = {}

    def stop_soon(stoppable):
        def stop():
            at["stopped"] = time.monotonic()
            stoppable.stop()

        threading.Timer(1.0, stop).start()

    undo = Builder.undo

    def noticed(self):
        at["undo"] = time.monotonic()
        undo(self)

    monkeypatch.setattr(Builder, "undo", noticed)
    with pytest.raises(Interrupted):
        measured(building(what=what, method=method, count=count), stop_soon)
    assert 0 <= at["undo"] - at["stopped"] < 5.0, "the rest would take tens of seconds"


RUN_IT = """
import sys
sys.path[:0] = {path!r}
from test_build import building, measured
measured(building(what={what!r}, method={method!r}, count={count}))
"""


@pytest.mark.parametrize(("what", "method", "count"), [LONG[0], LONG[3]])
def test_after_kill_9_clean_leaves_nothing(what, method, count):
    before = what_is_there()
    script = RUN_IT.format(
        path=[str(ROOT / "lab"), str(ROOT / "tests" / "bench")], what=what, method=method, count=count
    )
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        wait_for(lambda: list(STATE.glob("*.journal")) and marked_processes(), "the bench")
        time.sleep(2.5)  # into the building
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    done = run("clean", env={**os.environ, "PYTHONPATH": str(ROOT / "lab")})
    assert done.returncode == 0, done.stderr
    assert what_is_there() == before


def test_the_taps_of_many_ports_are_gone_before_their_switch_ends(nothing_left, monkeypatch):
    """A switch that ends with its taps leaves them to the kernel, which takes 20 ms for each."""
    seen = {}
    remove = actions.remove

    def noted(resource, host):
        is_switch = isinstance(resource, Daemon) and resource.name == SWITCH
        if is_switch or isinstance(resource, TapLinks):
            with netlink.Links(resource.netns) as links:
                seen["before the switch" if is_switch else "before the taps"] = len(links.list())
        remove(resource, host)

    def leave_them(*_):
        raise Interrupted("interrupted")

    monkeypatch.setattr(actions, "remove", noted)
    monkeypatch.setattr(build, "timed_removal", leave_them)
    with pytest.raises(Interrupted):
        measured(building(what="ports", method="transaction", count=100))
    assert seen["before the taps"] > 100
    assert seen["before the switch"] <= seen["before the taps"] - 100


@pytest.fixture
def two_namespaces():
    """Two that hold nothing but lo."""
    builder = Builder(f"t{os.getpid():x}", Local())
    names = (f"pp-t{os.getpid():x}-a", f"pp-t{os.getpid():x}-b")
    builder.apply([Namespace(name) for name in names])
    yield names
    builder.undo()


def test_a_pair_that_cannot_be_made_is_named_with_the_kernels_reason(nothing_left, two_namespaces):
    (near, far), made = two_namespaces, []
    netlink.create_veths(made.append, near, far, [("a", "b")])
    with pytest.raises(BenchError, match=rf"veth a in {near}: File exists"):
        netlink.create_veths(made.append, near, far, [("c", "d"), ("a", "e"), ("f", "g")])
    assert made == [1]


@pytest.mark.parametrize("method", ["file", "netlink"])
def test_removal_spans_groups_of_a_thousand(nothing_left, two_namespaces, method):
    bulk = making.Veths(Local(), *two_namespaces, 1100, method, 1)
    assert timed_make(bulk, 1100).steps[-1].items == 1100
    assert bulk.shown() == 1100
    timed_removal(bulk, 1100)
    assert bulk.shown() == 0


def test_more_pairs_than_one_process_can_hold_files_open_take_several(nothing_left, two_namespaces):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    bulk = making.Veths(Local(), *two_namespaces, 400, "file", 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert timed_make(bulk, 400).steps[-1].items == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert bulk.shown() == 400


def test_taps_of_a_dead_switch_go_together(nothing_left, two_namespaces):
    netns, _ = two_namespaces
    for number in range(3):
        subprocess.run(["ip", "-n", netns, "tuntap", "add", f"tap{number}", "mode", "tap"], check=True)
    netlink.create_veths(lambda _: None, netns, two_namespaces[1], [("stays", "stays")])
    with netlink.Links(netns) as links:
        assert links.remove_kind("tun") == 3
        assert {name for _, name, _ in links.list()} == {"lo", "stays"}
