"""Starting pinchpoint, watching it, and finding what it left: for the tests with real daemons."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pinchpoint.store.folder import RunFolder

PINCHPOINT = str(Path(sys.executable).parent / "pinchpoint")
STATE = Path("/run/pinchpoint")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Left:
    """All that a bench could leave on this machine."""

    namespaces: frozenset
    processes: frozenset
    state: frozenset
    hugepages: int
    mounts: tuple
    links: frozenset


def only_run(out):
    """The folder of the one run below `out`."""
    (path,) = Path(out).iterdir()
    return RunFolder.open(path)


def marked_processes():
    pids = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"PINCHPOINT_BENCH=" in (entry / "environ").read_bytes():
                    pids.add(int(entry.name))
            except OSError:
                continue
    return pids


def pid_of(words):
    """The marked processes whose command line holds these words."""
    pids = subprocess.run(["pgrep", "-f", words], capture_output=True, text=True, check=False).stdout.split()
    return [int(pid) for pid in pids if int(pid) in marked_processes()]


def mount_points():
    """Where benches mount something; what else runs on this machine mounts elsewhere."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return tuple(sorted(point for point in points if point.startswith(("/run/netns/", "/run/pinchpoint"))))


def what_is_there():
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return Left(
        frozenset(re.findall(r"^pp-\S+", namespaces, re.MULTILINE)),
        frozenset(marked_processes()),
        frozenset(path.name for path in STATE.glob("*") if path.name != "run.lock"),
        int(Path("/proc/sys/vm/nr_hugepages").read_text()),
        mount_points(),
        frozenset(re.findall(r"^\d+: ([^:@]+)", links, re.MULTILINE)),
    )


SCENARIO = """
title = "a test"
[dut]
kind = "ovs"
datapath = "{datapath}"
pmd_cpus = [1]
memory_mb = 1024
rules = \"\"\"
{rules}
\"\"\"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
ipv4_dst = "48.0.0.1-48.0.0.200"
[search]
min_load_fps = 10000
max_load_fps = {max_load_fps}
trial_duration_s = {trial_s}
initial_trial_duration_s = {trial_s}
duration_sum_s = {trial_s}
preceding_targets = 1
relative_width = 0.3
max_duration_s = 60
loss_ratios = [0, 0.005]
max_repeats = 20
drain_s = 0.1
[validity]
gap_shortfall_ratio = 0.9
[latency]
duration_s = 0.2
{more}
"""
FORWARD = "in_port={left},actions=output:{right}"
# Slower than the engine on any host: each frame is looked up in forty zones of connection tracking.
SLOW = "in_port={left},ip,actions=" + "".join(f"ct(zone={zone})," for zone in range(1, 41)) + "output:{right}"


def command_of(arguments, ceiling):
    """`pinchpoint ARGUMENTS`; without the generator's ceiling, a bench of its own, unless a test is about that."""
    words = [PINCHPOINT, *map(str, arguments)]
    measures = words[1] in ("run", "compare") or words[1:3] == ["study", "run"]
    return [*words, "--no-ceiling"] if measures and not ceiling else words


STARTED = []  # programs in the background that the running test has started


def start(*arguments, ceiling=False, **options):
    """`pinchpoint ARGUMENTS` in the background."""
    command = command_of(arguments, ceiling)
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    STARTED.append(subprocess.Popen(command, **options))
    return STARTED[-1]


def end_started():
    """End what a failed test has left running, which would refuse every later run on this machine."""
    left = [process for process in STARTED if process.poll() is None]
    STARTED.clear()
    for process in left:
        process.kill()
        process.wait()
    if left:
        subprocess.run([PINCHPOINT, "clean"], check=False)


@dataclass(frozen=True)
class Watched:
    """A running pinchpoint whose stderr goes to a file, so that tests can follow it as it comes."""

    process: subprocess.Popen
    errors: Path

    def wait_until_it_says(self, words, timeout_s=60.0):
        """Poll until `words` are on stderr."""
        wait_for(lambda: words in self.errors.read_text() or self.process.poll() is not None, words, timeout_s)
        assert words in self.errors.read_text()

    def end(self, timeout=60):
        """Wait for it; returns what a finished `run` returns, without stdout."""
        code = self.process.wait(timeout)
        return subprocess.CompletedProcess(self.process.args, code, "", self.errors.read_text())


def start_watched(errors, *arguments):
    """`pinchpoint ARGUMENTS` in the background, its stderr, a line for every step, in the file `errors`."""
    environment = {**os.environ, "PINCHPOINT_LOG_EVERY_S": "0"}
    with errors.open("w") as file:
        return Watched(start(*arguments, stdout=subprocess.DEVNULL, stderr=file, env=environment), errors)


def run(*arguments, timeout=300, ceiling=False, **options):
    """`pinchpoint ARGUMENTS` to its end."""
    return subprocess.run(
        command_of(arguments, ceiling), capture_output=True, text=True, timeout=timeout, check=False, **options
    )


def wait_for(condition, what, timeout_s=60.0):
    """Poll until `condition` returns something true, and return that."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"waited {timeout_s:g} s for {what}")


def journal_entries():
    """How many lines the journals hold together."""
    return sum(path.read_bytes().count(b"\n") for path in STATE.glob("*.journal"))


def trials_in(out):
    """Lines in the only run folder's trials.jsonl."""
    files = list(Path(out).glob("*/trials.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


def windows_in(out):
    """The text of the only run folder's measurements.jsonl, as far as it is written."""
    return "".join(path.read_text() for path in Path(out).glob("*/measurements.jsonl"))


def stretches_in(out):
    """Lines in the only run folder's slices.jsonl."""
    files = list(Path(out).glob("*/slices.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


def kill_lab(process):
    """SIGKILL, as the kernel's OOM killer would."""
    process.send_signal(signal.SIGKILL)
    process.wait()
