"""Processor time by CPU and by process."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.host.local import Local
from pinchpoint.host.processes import ENVIRONMENT_MARK, stat, ticks_and_cpu
from pinchpoint.observe import cpu
from pinchpoint.observe.cpu import BenchProcesses, CpuTime, cpu_ticks, process_name
from pinchpoint.observe.snapshot import difference

STAT = """\
cpu  1042351 24665 276796 1012458 12660 0 81788 3561 0 0
cpu0 475980 11304 154185 534123 6437 5 43050 1765 0 0
cpu13 566370 13360 122610 478334 6223 0 38737 1796 0 0
intr 12345
"""


def test_ticks_are_told_by_cpu_and_state():
    counters = cpu_ticks(STAT)
    assert set(counters) == {0, 13}
    assert (counters[0]["softirq"], counters[0]["irq"], counters[13]["steal"]) == (43050, 5, 1796)


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    cpu_ticks(text)


def test_a_line_cut_short_is_skipped():
    assert cpu_ticks("cpu0 1 2 3\ncpu1 1 2 3 4 5 6 x 8\n") == {}


def test_the_engine_that_relays_is_the_relay():
    assert process_name(b"/opt/bin/pinchpoint-engine\0relay\0a\0b\0") == "relay"
    assert process_name(b"/opt/bin/pinchpoint-engine\0") == "pinchpoint-engine"
    assert process_name(b"/usr/lib/openvswitch-switch/ovs-vswitchd\0unix:relay\0") == "ovs-vswitchd"
    with pytest.raises(ValueError, match="command line"):
        process_name(b"")


def test_a_process_may_be_called_anything():
    class Named(Local):
        def read(self, path):
            return "7 (a ) b) S 1 " + " ".join(["0"] * 9) + " 40 2 " + " ".join(["0"] * 23) + " 3 0 0"

    assert ticks_and_cpu(stat(Named(), "/proc/7")) == (42, 3)


def test_a_busy_process_of_the_bench_is_found_by_its_mark_and_counted():
    program = "import sys\nfor line in sys.stdin:\n    sum(range(20_000_000))\n    print('done', flush=True)\n"
    mark = {**os.environ, ENVIRONMENT_MARK: "test-cpu"}
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, env=mark, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        cpus, processes = CpuTime(Local(), sorted(os.sched_getaffinity(0))), BenchProcesses(Local(), "test-cpu")
        assert cpus.can_run() is processes.can_run() is None
        child.stdin.write("go\n")
        child.stdin.flush()
        child.stdout.readline()  # it runs by now, with its mark
        before = cpus.snapshot(), processes.snapshot()
        child.stdin.write("go\n")
        child.stdin.flush()
        child.stdout.readline()
        after = cpus.snapshot(), processes.snapshot()
        child.stdin.close()
    of_cpus, of_processes = (difference(*pair).differences for pair in zip(before, after, strict=True))
    (name,) = {name for name in of_processes if name != "host/process/lab/ticks"}
    assert of_processes[name] >= 5, "tens of milliseconds of sums"
    assert sum(ticks for name, ticks in of_cpus.items() if name.endswith("busy_ticks")) >= 5
    assert after[0].gauges["host/irq_time_separate"] in (0.0, 1.0)


def test_a_process_keeps_its_counter_when_another_of_its_name_ends_and_a_new_one_has_all_its_time(monkeypatch):
    running = {11: 500, 12: 900, 13: 100}
    monkeypatch.setattr(cpu, "marked_pids", lambda *_: iter(running))
    monkeypatch.setattr(cpu, "ticks_and_cpu", lambda words: (running[int(words[0])], 0))

    class Engines(Local):
        def read_bytes(self, path, offset=0):
            return path.split("/")[2].encode() if path.endswith("/stat") else b"/opt/bin/pinchpoint-engine\0"

    processes = BenchProcesses(Engines(), "test-cpu")
    before = processes.snapshot()
    del running[11]
    running |= {12: 910, 14: 7}
    change = difference(before, processes.snapshot()).differences
    assert {name: ticks for name, ticks in change.items() if "engine" in name} == {
        "host/process/pinchpoint-engine-2/ticks": 10,
        "host/process/pinchpoint-engine-3/ticks": 0,
        "host/process/pinchpoint-engine-4/ticks": 7,
    }
