"""`make bench-causes`: causes planted in real devices, and which cause the lab names first, and confirms.

Each plant changes one thing of a bench that is otherwise fast. Clean benches are measured between them, in which
nothing may be blamed but the device's own speed.
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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pinchpoint.model.causes import Standing
from pinchpoint.model.errors import PinchpointError
from pinchpoint.store.folder import RunFolder

OWN_SPEED = "own-speed"
FORWARD = "in_port={left},actions=output:{right}"
BY_ADDRESS = "ip,in_port={left},nw_dst=48.0.0.0/8,actions=output:{right}"
TRACKED = """table=0,ip,in_port={left},actions=ct(commit,table=1,nat(src=10.0.0.1))
table=1,ip,actions=output:{right}"""
EXACT = "ip,in_port={left},actions=move:NXM_OF_IP_DST[]->NXM_NX_REG0[],output:{right}"
LENGTHS = range(9, 17)  # of prefixes, each of which is a mask of its own
PREFIXES = {length: 2 ** (16 - length) if length < 16 else 0 for length in LENGTHS}
MASKS = "\n".join(
    f"priority={100 + length},ip,in_port={{left}},nw_dst=48.{octet}.0.0/{length},actions=output:{{right}}"
    for length, octet in PREFIXES.items()
)
MANY = """flows = 65536
ipv4_dst = "48.0.0.1-48.0.255.255"
ipv4_src = "16.0.0.1-16.0.0.255"
order = ["ipv4_dst", "ipv4_src"]"""
SPREAD = """
[[stream]]
from = "left"
to = "right"
""".join(f'flows = 8192\nipv4_dst = "48.{octet}.0.1-48.{octet}.255.254"' for octet in PREFIXES.values())
SCENARIO = """
title = "{name}"
[dut]
{dut}
[[port]]
name = "left"
ring = {ring}
[[port]]
name = "right"
ring = {ring}
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
{stream}
[search]
loss_ratios = [0]
trial_duration_s = 0.2
initial_trial_duration_s = 0.2
duration_sum_s = 2
max_traffic_s = {traffic_s}
drain_s = 0.05
[latency]
at = []
"""
OVS = 'kind = "ovs"\ndatapath = "{datapath}"\npmd_cpus = [1]\n{more}\nrules = """\n{rules}\n"""'


STATE = Path("/run/pinchpoint")
HOG = """
import os
os.setpriority(os.PRIO_PROCESS, 0, -20)
try:
    open('/proc/self/autogroup', 'w').write('-20')
except OSError:
    pass
while True:
    pass
"""


@contextmanager
def _hog(cpu: int) -> Iterator[None]:
    """A busy program of the bench's own priority on a CPU, in a session of its own."""
    with subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-c", HOG], start_new_session=True) as hog:
        try:
            yield
        finally:
            hog.kill()


@contextmanager
def _in_each_bench(plant: Callable[[Path, threading.Event], None]) -> Iterator[None]:
    """`plant` is called with the folder of every bench whose switch answers, until the event is set."""
    ended, seen = threading.Event(), set[Path]()

    def watch() -> None:
        while not ended.wait(0.05):
            for socket in set(STATE.glob("*/br0.mgmt")) - seen:
                seen.add(socket)
                threads.append(threading.Thread(target=plant, args=(socket.parent, ended)))
                threads[-1].start()

    threads = [threading.Thread(target=watch)]
    threads[0].start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _setting(*words: str) -> Callable[[], AbstractContextManager[None]]:
    """A plant by one ovs-vsctl command, repeated until the switch has what it names."""

    def plant(bench: Path, ended: threading.Event) -> None:
        command = ["ovs-vsctl", f"--db=unix:{bench}/db.sock", "--timeout=5", *words]
        while subprocess.run(command, capture_output=True, check=False).returncode and not ended.wait(0.1):
            pass

    return lambda: _in_each_bench(plant)


def _pauses(every_s: float, pause_s: float) -> Callable[[], AbstractContextManager[None]]:
    """The switch is stopped again and again."""

    def plant(bench: Path, ended: threading.Event) -> None:
        pidfile = next(bench.glob("*vswitchd*.pid"))
        pid = int(pidfile.read_text())
        while not ended.wait(every_s):
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(pause_s)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                return

    return lambda: _in_each_bench(plant)


@dataclass(frozen=True)
class Plant:
    """One bench with one cause planted, or with none."""

    name: str
    causes: tuple[str, ...]  # any of these is right; of a clean bench, all that may be named
    dut: str
    stream: str = ""
    ring: int = 4096
    beside: Callable[[], AbstractContextManager[None]] = nullcontext
    can_confirm: bool = True

    def text(self, traffic_s: float) -> str:
        """Its scenario file."""
        return SCENARIO.format(name=self.name, dut=self.dut, ring=self.ring, stream=self.stream, traffic_s=traffic_s)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is planted."""
        return self.name.startswith("clean")


def ovs(rules: str = FORWARD, more: str = "", datapath: str = "dpdk") -> str:
    """The table of an Open vSwitch."""
    return OVS.format(datapath=datapath, more=more, rules=rules)


def reference(more: str) -> str:
    """The table of the device of known truth."""
    return f'kind = "reference"\ncpus = [1]\n{more}'


PLANTS = (
    Plant("clean: forward", (OWN_SPEED,), ovs()),
    Plant(
        "rule drop",
        ("rule-drop",),
        ovs(f"priority=2,udp,in_port={{left}},tp_dst=12,nw_dst=48.0.0.0/15,actions=drop\npriority=1,{FORWARD}"),
        'ipv4_dst = "48.0.0.1-48.7.255.255"\nudp_dst = 12\nflows = 8\norder = ["ipv4_dst"]',
    ),
    Plant("small ring", ("small-ring",), ovs(), ring=64),
    Plant("many five-tuples", ("many-flows",), ovs(BY_ADDRESS), MANY),
    Plant("connection tracking", ("recirculation",), ovs(TRACKED), 'ipv4_dst = "48.0.0.1-48.0.0.255"\nflows = 255'),
    Plant("tracking limit", ("tracking-limit",), ovs(TRACKED, "conntrack_limit = 1000"), MANY),
    Plant("flow limit", ("flow-limit", "upcalls"), ovs(EXACT, "flow_limit = 1000"), MANY),
    Plant("masks", ("masks",), ovs(MASKS), SPREAD),
    Plant("two outputs", ("copies",), ovs("in_port={left},actions=output:{right},output:{right}")),
    Plant(
        "MTU", ("mtu",), ovs(), "frame_bytes = 1518", beside=_setting("set", "Interface", "right", "mtu_request=1000")
    ),
    Plant(
        "policer",
        ("policer",),
        ovs(),
        beside=_setting(
            "set",
            "Port",
            "right",
            "qos=@limit",
            "--",
            "--id=@limit",
            "create",
            "QoS",
            "type=egress-policer",
            "other-config:cir=20000000",
            "other-config:cbs=20000",
        ),
        can_confirm=False,
    ),
    Plant("pauses", ("pauses",), ovs(), beside=_pauses(0.1, 0.01), can_confirm=False),
    Plant("hog on the core", ("preempted",), ovs(), beside=lambda: _hog(1), can_confirm=False),
    Plant("clean: forward", (OWN_SPEED,), ovs()),
    Plant("reference: pauses", ("pauses",), reference("rate_fps = 2e6\npause_every_ms = 40\npause_ms = 4"), ring=1024),
    Plant("reference: rule drop", ("rule-drop",), reference('rate_fps = 1e6\ndrop = "every=4"')),
    Plant(
        "reference: false offload", ("false-offload",), reference("rate_fps = 1e6\noffloaded = true"), can_confirm=False
    ),
    Plant("main thread", ("main-thread",), ovs(datapath="af_packet"), can_confirm=False),
)


@dataclass(frozen=True)
class Row:
    """What was said of one plant in one round."""

    plant: str
    expected: tuple[str, ...]
    named: tuple[str, ...]  # suspicions, the likeliest first
    confirmed: tuple[str, ...]
    verdict: str
    seconds: float
    is_clean: bool

    @property
    def is_right(self) -> bool:
        """Whether the planted cause is first; of a clean bench: whether nobody else is blamed."""
        if self.is_clean:
            return set(self.named) <= set(self.expected)
        return bool(self.named) and self.named[0] in self.expected


def measured(plant: Plant, folder: Path, traffic_s: float, is_confirmed: bool) -> Row:
    """One run of it."""
    path = folder / f"{plant.name.replace(' ', '-').replace(':', '')}-{time.monotonic_ns()}.toml"
    path.write_text(plant.text(traffic_s))
    program = Path(sys.executable).with_name("pinchpoint")
    verb = "explain" if is_confirmed and plant.can_confirm else "run"
    command = [str(word) for word in (program, verb, path, "--out", folder / path.stem, "--no-ceiling")]
    began = time.monotonic()
    with plant.beside():
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode not in (0, 1, 4):  # a counter-experiment that failed leaves the verdict
        raise PinchpointError(f"pinchpoint {verb} {path.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    (run,) = (folder / path.stem).iterdir()
    result = RunFolder.open(run).read_result()
    if result is None:
        raise PinchpointError(f"pinchpoint {verb} {path.name} stored no result:\n{done.stderr[-2000:]}")
    verdict = result.scenarios[0].verdict
    branches = [branch for one in result.explanations for branch in one.branches]
    return Row(
        plant.name,
        plant.causes,
        tuple(one.cause for one in verdict.suspicions) if verdict else (),
        tuple(one.suspicion.cause for one in branches if one.standing is Standing.CONFIRMED),
        verdict.headline if verdict else result.scenarios[0].reason,
        time.monotonic() - began,
        plant.is_clean,
    )


def show(found: list[Row]) -> None:
    """A table: a line a plant, with what was named first and how often."""
    table = Table(title="planted causes: what was named first")
    for name in ("plant", "rounds", "first", "named", "confirmed", "named first instead"):
        table.add_column(name)
    for plant in dict.fromkeys(row.plant for row in found):
        rows = [row for row in found if row.plant == plant]
        others = Counter(row.named[0] if row.named else "nothing" for row in rows if not row.is_right)
        table.add_row(
            plant,
            str(len(rows)),
            str(sum(row.is_right for row in rows)),
            str(sum(bool(set(row.named) & set(row.expected)) for row in rows)),
            str(sum(bool(set(row.confirmed) & set(row.expected)) for row in rows)),
            ", ".join(f"{name} {count}" for name, count in others.most_common()),
        )
    Console().print(table)


def main() -> int:
    """Print the matrix; 1 where a clean bench was blamed or a planted cause was not first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of every plant (5)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only plants whose name contains this")
    parser.add_argument("--traffic", type=float, default=6.0, metavar="SECONDS", help="of each search (6)")
    parser.add_argument("--confirm", action="store_true", help="try each suspicion by its counter-experiment")
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--smoke", action="store_true", help="three plants once; what is named is not judged")
    asked = parser.parse_args()
    plants = [plant for plant in PLANTS if asked.only in plant.name]
    if asked.smoke:
        plants, asked.rounds, asked.traffic = plants[:3], 1, 1.0
    shuffled, found = random.Random(asked.seed), list[Row]()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="causes-") as place:
        for number in range(asked.rounds):
            for plant in shuffled.sample(plants, len(plants)):
                row = measured(plant, Path(place), asked.traffic, asked.confirm)
                found.append(row)
                print(
                    f"{number + 1} {plant.name}: {', '.join(row.named) or '-'} | {row.verdict[:160]}", file=sys.stderr
                )
    if asked.json:
        print(json.dumps([asdict(row) for row in found]))
    else:
        show(found)
    return 0 if asked.smoke or all(row.is_right for row in found) else 1


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
