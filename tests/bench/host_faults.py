"""`make test-hosts`: benches on hosts by ssh, while what they stand on is killed or cut off at random moments.

Each fault strikes a short run: the lab, its ssh client, the session of sshd, the agent, the engine or the device is
killed, the link is cut, the host loses its power. Then the run goes on, or is resumed. Asserted each time: nothing is
left on the host, no finished trial is lost or made twice, and exit codes are the documented ones.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench_tools import PINCHPOINT, wait_for
from fault_tools import Site

FAULTS, SITES = 200, 3
LEASE_S = 8  # a lab that waits for a core on a busy machine is not lost
PATIENCE_S = 300.0  # for what a busy machine keeps waiting
RATES, REPEATS = (1000, 2000), 4
KINDS = {  # kind: exit codes of the run that it strikes; 0: it goes on
    "lab killed": (-signal.SIGKILL,),
    "lab and agent killed": (-signal.SIGKILL,),
    "lab killed, link cut": (-signal.SIGKILL,),
    "lab told to end": (130,),
    "ssh client killed": (0,),
    "sshd's session killed": (0,),
    "agent killed": (0,),
    "engine killed": (5,),
    "device killed": (4, 6),
    "frames lost": (0,),
    "link down": (0,),
    "power lost": (0,),
}
BEFORE_IT_HOLDS = (3, 4)  # a host that is lost before the run has a folder
SCENARIO = """
measure = "load"
runs_on = "far"
[host.far]
lease_s = {lease_s}
[dut]
{device}
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [{engine_cpu}]
[[stream]]
from = "left"
to = "right"
[load]
at_fps = {rates}
duration_s = 0.1
repeats = {repeats}
[search]
min_load_fps = 1000
max_load_fps = 5000
max_repeats = 100
drain_s = 0.1
[validity]
shortfall_ratio = 0.9
gap_shortfall_ratio = 0.9
"""
DEVICES = {
    "bridge": 'kind = "bridge"\ncpus = [{cpu}]',
    "ovs": 'kind = "ovs"\ndatapath = "af_packet"\npmd_cpus = [{cpu}]\nrules = "actions=NORMAL"',
}


@dataclass(frozen=True)
class Fault:
    """What strikes a run, when, and what is done then."""

    number: int
    kind: str
    device: str
    moment: float  # as a share of a run that nothing strikes
    pause_s: float  # for which a link is cut
    after: str  # of a lab that is killed: resume, lease or clean

    @classmethod
    def drawn(cls, seed, number):
        """The same for the same seed."""
        chance = random.Random(f"{seed}/{number}")
        kinds = list(KINDS)
        random.Random(f"{seed}/{number // len(kinds)}").shuffle(kinds)
        kind = kinds[number % len(kinds)]
        device = "ovs" if kind == "device killed" else chance.choice(list(DEVICES))
        after = "clean" if kind == "lab and agent killed" else chance.choice(("resume", "lease", "clean"))
        return cls(number, kind, device, chance.uniform(0, 1), chance.uniform(0.3, 1.5 * LEASE_S), after)


@dataclass
class Outcome:
    """What became of it."""

    fault: Fault
    codes: list = field(default_factory=list)  # of every run and resumption
    refused: int = 0  # resumptions, since the dead lab's agent still held the host
    trials: int = 0  # finished when the fault had struck
    seconds: float = 0.0
    wrong: list = field(default_factory=list)


class Struck:
    """One fault on one host."""

    def __init__(self, site, fault, folder, usual_s):
        self.site, self.fault, self.folder, self.usual_s = site, fault, folder, usual_s
        self.out, self.errors = folder / "runs", folder / "stderr"
        self.outcome = Outcome(fault)

    def played(self):
        """Everything about it; what is wrong stands in the outcome."""
        self.folder.mkdir()
        began = time.monotonic()
        try:
            self._play()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.outcome.wrong.append(str(error))
        finally:
            self._heal()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _play(self):
        fault = self.fault
        lab = self._started("run", self._scenario())
        with suppress(subprocess.TimeoutExpired):
            lab.wait(fault.moment * self.usual_s)
        struck = self._strike(lab)
        code = lab.wait(PATIENCE_S)
        self._judge(code, struck)
        kept = self._trials()
        self.outcome.trials = kept.count(b"\n")
        if code != 0:
            self._after(struck)
            self._resumed()
        if not self._trials().startswith(kept):
            self.outcome.wrong.append("a finished trial is lost")
        self._count()
        self._wait_until_nothing_is_left()

    def _scenario(self):
        cpu = self.fault.number % 2
        device = DEVICES[self.fault.device].format(cpu=1 - cpu)
        path = self.folder / "struck.toml"
        values = {"device": device, "engine_cpu": cpu, "rates": list(RATES), "repeats": REPEATS}
        path.write_text(SCENARIO.format(lease_s=LEASE_S, **values))
        return path

    def _started(self, *values):
        values = [
            PINCHPOINT,
            *map(str, values),
            *(() if values[0] == "clean" else ("--out", str(self.out), "--no-ceiling")),
        ]
        with self.errors.open("a") as errors:
            return subprocess.Popen(values, stdout=errors, stderr=errors, env=self.site.environment)

    def _strike(self, lab):
        """Whether there was something to strike: the run may have ended."""
        kind, site = self.fault.kind, self.site
        if kind == "lab told to end":
            wait_for(lambda: self.errors.stat().st_size or lab.poll() is not None, "it to have begun", PATIENCE_S)
            lab.send_signal(signal.SIGINT)
        elif kind == "power lost":
            site.reboot()
        elif kind in ("frames lost", "link down", "lab killed, link cut"):
            self._cut(lab)
        elif kind == "lab killed":
            lab.kill()
        elif kind == "lab and agent killed":
            agents = self._victims(lab, lambda: site.victims("agent"))
            for pid in (*agents, lab.pid):
                _kill(pid)
        elif kind == "ssh client killed":
            return self._killed(lab, lambda: _clients(lab.pid))
        else:
            word = {"sshd's session killed": "session"}.get(kind, kind.partition(" ")[0])
            return self._killed(lab, lambda: site.victims(word))
        return True

    def _cut(self, lab):
        down = self.fault.kind == "link down"
        (self.site.link("down") if down else self.site.cut(True))
        if self.fault.kind == "lab killed, link cut":
            lab.kill()
        time.sleep(self.fault.pause_s)
        (self.site.link("up") if down else self.site.cut(False))

    def _killed(self, lab, victims):
        victims_seen = self._victims(lab, victims)
        for pid in victims_seen:
            _kill(pid)
        return bool(victims_seen)

    def _victims(self, lab, victims):
        """As soon as there are any; none if the run ends before."""
        wait_for(lambda: victims() or lab.poll() is not None, "a victim", PATIENCE_S)
        return victims()

    def _judge(self, code, struck):
        """Whether the run that was struck ended as documented."""
        self.outcome.codes.append(code)
        allowed = {0, *(KINDS[self.fault.kind] if struck else ())}
        if struck and self._run_folder() is None:
            allowed |= set(BEFORE_IT_HOLDS)
        said = self.errors.read_text()
        if code not in allowed or "Traceback" in said:
            self.outcome.wrong.append(f"it ended with {code}: {said}")

    def _after(self, struck):
        """What a user does whose lab is dead; an agent that lives has its lease."""
        if not struck or not self.fault.kind.startswith("lab") or self.fault.kind == "lab told to end":
            return
        if self.fault.after == "clean":
            cleaned = self._started("clean", "--host", "far")
            if cleaned.wait(PATIENCE_S) != 0:
                self.outcome.wrong.append(f"clean ended with {cleaned.returncode}: {self.errors.read_text()}")
        if self.fault.after != "resume":
            self._wait_until_nothing_is_left()

    def _resumed(self):
        """Resume until it is through. A host that a dead lab's agent still holds refuses for the lease at most."""
        until = time.monotonic() + 4 * LEASE_S + 20
        while True:
            folder = self._run_folder()
            before = len(self.errors.read_text())
            again = self._started(*(("run", "--resume", folder) if folder else ("run", self.folder / "struck.toml")))
            code = again.wait(PATIENCE_S)
            said = self.errors.read_text()[before:]
            if code == 3 and "another run is active on far" in said and time.monotonic() < until:
                self.outcome.refused += 1
                time.sleep(0.5)
                continue
            self.outcome.codes.append(code)
            if code != 0:
                self.outcome.wrong.append(f"resumed, it ended with {code}: {said}")
            return

    def _run_folder(self):
        runs = sorted(self.out.glob("*/run.json"))
        return runs[-1].parent if runs else None

    def _trials(self):
        """The whole lines of the run's trials."""
        folder = self._run_folder()
        stored = folder / "trials.jsonl" if folder else None
        data = stored.read_bytes() if stored and stored.exists() else b""
        return data[: data.rfind(b"\n") + 1]

    def _count(self):
        """Whether a trial was made twice, or the result lacks one."""
        trials = [json.loads(line) for line in self._trials().splitlines()]
        if len({trial["id"] for trial in trials}) < len(trials):
            self.outcome.wrong.append("two trials have one id")
        judged = Counter(
            trial["load_fps"] for trial in trials if (trial["phase"], trial["validity"]) == ("load", "valid")
        )
        if judged != dict.fromkeys(map(float, RATES), REPEATS):
            self.outcome.wrong.append(f"valid trials at each rate, expected {REPEATS}: {dict(judged)}")

    def _wait_until_nothing_is_left(self):
        try:
            wait_for(lambda: not self.site.holds(), "nothing to be left", 4 * LEASE_S + 30)
        except AssertionError:
            self.outcome.wrong.append(f"left on the host: {self.site.holds()}")

    def _heal(self):
        """What is wrong with one fault is not to be blamed on the next."""
        if self.outcome.wrong:
            with suppress(subprocess.CalledProcessError):
                self.site.link("up")
            self.site.reboot()


def _kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _clients(lab):
    """The ssh that carries the line, a child of the lab."""
    outcomes = []
    with suppress(OSError):
        for pid in Path(f"/proc/{lab}/task/{lab}/children").read_text().split():
            if b"ControlMaster=yes" in Path(f"/proc/{pid}/cmdline").read_bytes():
                outcomes.append(int(pid))
    return outcomes


class Campaign:
    """All faults of one seed, spread over hosts."""

    def __init__(self, seed, faults, folder, say=lambda outcome: None):
        self._left = [Fault.drawn(seed, number) for number in range(faults)]
        self._folder, self._say = folder, say
        self._turn = threading.Lock()
        self.outcomes = []

    def run(self, sites):
        """Play them on so many hosts at once."""
        with ThreadPoolExecutor(sites) as workers:
            for ended in [workers.submit(self._work, number) for number in range(1, sites + 1)]:
                ended.result()
        return self.outcomes

    def _work(self, number):
        folder = self._folder / f"host-{number}"
        folder.mkdir()
        site = Site(folder, number)
        try:
            site.start()
            usual_s = self._usual_s(site)
            while True:
                with self._turn:
                    if not self._left:
                        return
                    fault = self._left.pop(0)
                outcome = Struck(site, fault, self._folder / f"fault-{fault.number}", usual_s).played()
                with self._turn:
                    self.outcomes.append(outcome)
                    self._say(outcome)
        finally:
            site.stop()

    def _usual_s(self, site):
        """How long a run takes that nothing strikes, once the engine's file is there."""
        took_s = []
        for attempt in range(6):
            spared = Struck(site, Fault(0, "agent killed", "bridge", 0, 0, ""), site.folder / f"spared-{attempt}", 0)
            spared.folder.mkdir()
            began = time.monotonic()
            if spared._started("run", spared._scenario()).wait(PATIENCE_S) == 0:
                took_s.append(time.monotonic() - began)
            if len(took_s) == 2:
                assert not site.holds(), site.holds()
                return took_s[-1]
        raise AssertionError(f"nothing strikes it, and yet: {spared.errors.read_text()}")


def table(outcomes):
    """Counts by kind of fault, as lines."""
    head = ("fault", "struck", "went on", "resumed", "refused", "kept", "wrong", "median s")
    rows = [head]
    for kind in [*KINDS, "all"]:
        alike = [outcome for outcome in outcomes if kind in (outcome.fault.kind, "all")]
        if not alike:
            continue
        seconds = sorted(outcome.seconds for outcome in alike)[len(alike) // 2]
        went_on = sum(outcome.codes[:1] == [0] for outcome in alike)
        counts = (
            len(alike),
            went_on,
            sum(len(outcome.codes) > 1 for outcome in alike),
            sum(outcome.refused for outcome in alike),
        )
        wrong = sum(bool(outcome.wrong) for outcome in alike)
        rows.append((kind, *map(str, (*counts, sum(outcome.trials for outcome in alike), wrong)), f"{seconds:.1f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)) for row in rows]


def main():
    """Play and print; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=FAULTS, metavar="N", help=f"how many ({FAULTS})")
    parser.add_argument("--hosts", type=int, default=SITES, metavar="N", help=f"at once ({SITES})")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of kinds and moments (1)")
    asked = parser.parse_args()

    def say(outcome):
        told = "; ".join((f"ended with {', '.join(map(str, outcome.codes))}", *outcome.wrong))
        fault = outcome.fault
        print(
            f"{fault.number}: {fault.kind} at {fault.moment:.0%}, {fault.device}: {told}", file=sys.stderr, flush=True
        )

    with tempfile.TemporaryDirectory(prefix="pinchpoint-faults-") as folder:
        outcomes = Campaign(asked.seed, asked.faults, Path(folder), say).run(asked.hosts)
    print("\n".join(table(outcomes)))
    return int(len(outcomes) < asked.faults or any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
