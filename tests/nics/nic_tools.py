"""Runs the lab in a virtual machine with NICs (packaging/in-qemu) and keeps what it left in a folder."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from bench_tools import run, wait_for
from ssh_tools import delay, write_configuration

ROOT = Path(__file__).parents[2]
IN_QEMU = ROOT / "packaging/in-qemu"
PINCHPOINT = Path(sys.executable).parent / "pinchpoint"
MISSING = 3  # qemu, its kernel or a model of NIC: the machine's own words say which
LIMIT_S = 540  # emulated, beside busy neighbours


class Machine(NamedTuple):
    """What a run in a virtual machine left."""

    code: int
    errors: str
    before: str
    after: str
    result: dict
    trials: list
    info: dict


def measured(folder, cables, options=(), settings=(), scenario="forward.toml"):
    """One run of a scenario between these NICs; skips with the reason where there is no such machine."""
    words = [IN_QEMU, *options, *(f"--cable={cable}" for cable in cables), f"--limit={LIMIT_S}", f"--out={folder}"]
    command = [ROOT / "tests/nics/inside", PINCHPOINT, ROOT / "tests/nics" / scenario, *settings]
    done = subprocess.run([*words, *command], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode == MISSING and not (folder / "before").exists():
        pytest.skip(done.stderr.strip())
    if not (folder / "after").exists():
        pytest.fail(f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return left(done.returncode, (folder / "errors").read_text(), folder, folder / "runs")


def measured_by_ssh(folder, cables):
    """The same with the lab here: only engine and switch are in the virtual machine."""
    path, runs = folder / "forward.toml", folder / "runs"
    path.write_text(f'runs_on = "vm"\nhost.vm = {{}}\n{(ROOT / "tests/nics/forward.toml").read_text()}')
    with reached_by_ssh(folder / "vm", options=[f"--cable={cable}" for cable in cables]) as vm:
        done = run("run", path, "--out", runs, env=vm.environment)
    return left(done.returncode, done.stderr, folder / "vm/out", runs)


def left(code, errors, states, runs):
    """What one run left: the folder of the machine's states, and that of the run."""
    folder = next(runs.glob("*"), None)
    if folder is None:
        pytest.fail(f"exit {code}\n{errors}")
    trials, result = folder / "trials.jsonl", folder / "result.json"
    return Machine(
        code,
        errors,
        (states / "before").read_text(),
        (states / "after").read_text(),
        json.loads(result.read_text()) if result.exists() else {},
        [json.loads(line) for line in trials.read_text().splitlines()] if trials.exists() else [],
        json.loads((folder / "run.json").read_text()),
    )


def has_carried(outcome):
    """Frames crossed both cables and the switch, each hop counted them, and every NIC is as it was before.

    What they were on arrival is qemu's doing: frames of its e1000e reach DPDK's driver four bytes short.
    """
    assert outcome.code == 0, outcome.errors
    assert outcome.after == outcome.before
    (scenario,) = outcome.result["scenarios"]
    hops = [{hop["name"]: hop for hop in trial["ledger"]["hops"]} for trial in outcome.trials]
    assert any(trial["switch sends"]["frames_out"] for trial in hops)
    for trial in hops:
        assert trial["engine sends"]["frames_out"] == trial["switch receives"]["frames_in"]
        assert trial["switch sends"]["frames_out"] == trial["engine receives"]["frames_in"]
    return scenario


def has_a_rate(outcome):
    """The same with frames that arrive whole: a rate, and accounts that close."""
    scenario = has_carried(outcome)
    assert scenario["outcome"] == "measured", scenario["reason"]
    assert any(rate["lower_fps"] for rate in scenario["rates"])
    ended = [trial for trial in outcome.trials if trial["validity"] == "valid"]
    assert ended
    for trial in ended:
        ledger = trial["ledger"]
        dropped = sum(drop["frames"] for hop in ledger["hops"] for drop in hop["drops"])
        assert ledger["offered"] == ledger["received"] + dropped
    return scenario


class Guest(NamedTuple):
    """A virtual machine that is reached by ssh."""

    folder: Path
    tap: str  # on which its sshd is reached

    @property
    def environment(self):
        """In which `ssh NAME` leads there."""
        return reaching(self.folder)

    def link(self, state):
        """Cut the link to it, or join it again."""
        subprocess.run(["ip", "link", "set", self.tap, state], check=True)

    def delay(self, seconds):
        """Let what is sent either way take so long."""
        delay(self.folder, seconds)

    def holds(self):
        """Namespaces and files of benches there."""
        return (self.folder / "out/holds").read_text().split()


def reaching(folder):
    """The environment in which ssh has the folder's configuration."""
    return {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}


@contextmanager
def reached_by_ssh(folder, name="vm", number=0, options=(), nics=()):
    """A virtual machine of these options, with more NICs: (name there, tap interface here).

    In the end benches have left nothing there, and its NICs are what they were.
    """
    control, here, there = f"pp-tap{number}", f"10.97.{number}.1", f"10.97.{number}.2"
    folder.mkdir(parents=True)
    write_configuration(folder, name, there)
    with ExitStack() as stack:
        stack.enter_context(tap(control))
        subprocess.run(["ip", "address", "add", f"{here}/24", "dev", control], check=True)
        taps = [f"--tap={interface}" for interface in (control, *(nic for _, nic in nics))]
        words = [IN_QEMU, *taps, *options, f"--limit={LIMIT_S}", f"--out={folder / 'out'}"]
        command = [ROOT / "tests/nics/by-ssh", folder / "sshd_config", there, *(nic for nic, _ in nics)]
        log = stack.enter_context((folder / "log").open("w"))
        machine = subprocess.Popen([*words, *command], stdout=log, stderr=log, cwd=ROOT)
        before, after = folder / "out/before", folder / "out/after"
        try:
            wait_for(lambda: machine.poll() is not None or before.exists(), "the virtual machine", LIMIT_S)
            if machine.poll() == MISSING:
                pytest.skip((folder / "log").read_text().strip())
            yield Guest(folder, control)
        finally:
            (folder / "out/end").touch()
            code = machine.wait()
        assert code == 0, (folder / "log").read_text()[-2000:]
        assert after.read_text() == before.read_text()


@contextmanager
def tap(name):
    """A tap interface that is up."""
    subprocess.run(["ip", "tuntap", "add", "dev", name, "mode", "tap"], check=True)
    try:
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)


@contextmanager
def cable(near, other):
    """Two tap interfaces: what arrives at one leaves by the other."""
    bridge = f"{near}-br"
    subprocess.run(["ip", "link", "add", bridge, "up", "type", "bridge", "mcast_snooping", "0"], check=True)
    try:
        with tap(near), tap(other):
            for end in (near, other):
                subprocess.run(["ip", "link", "set", end, "master", bridge], check=True)
            yield
    finally:
        subprocess.run(["ip", "link", "del", bridge], check=True)
