"""What `make bench-causes` plants: benches that are fast but for one cause, for two, or for none."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

OWN_SPEED = "own-speed"
FORWARD = "in_port={left},actions=output:{right}"
BY_ADDRESS = "ip,in_port={left},nw_dst=48.0.0.0/8,actions=output:{right}"
TRACKED = """table=0,ip,in_port={left},actions=ct(commit,table=1,nat(src=10.0.0.1))
table=1,ip,actions=output:{right}"""
IN_ZONE = """table=0,ip,in_port={left},actions=ct(commit,zone=1,table=1,exec(set_field:1->ct_mark))
table=1,priority=2,ct_mark=1,ip,actions=output:{right}
table=1,priority=1,actions=drop"""
NORMAL = "actions=NORMAL"
EXACT = "ip,in_port={left},actions=move:NXM_OF_IP_DST[]->NXM_NX_REG0[],output:{right}"
LENGTHS = range(9, 17)  # of prefixes, each of which is a mask of its own
PREFIXES = {length: 2 ** (16 - length) if length < 16 else 0 for length in LENGTHS}
MASKS = "\n".join(
    f"priority={100 + length},ip,in_port={{left}},nw_dst=48.{octet}.0.0/{length},actions=output:{{right}}"
    for length, octet in PREFIXES.items()
)
DROP_SOME = f"priority=2,udp,in_port={{left}},tp_dst=12,nw_dst=48.0.0.2/31,actions=drop\npriority=1,{FORWARD}"
DROP_AND_MANY = f"priority=2,udp,in_port={{left}},nw_dst=48.0.0.0/18,actions=drop\npriority=1,{BY_ADDRESS}"
TWICE = "in_port={left},actions=output:{right},output:{right}"
DROP = ("rule-drop",)
EIGHT = 'ipv4_dst = "48.0.0.1-48.0.0.8"\nudp_dst = 12\nflows = 8\norder = ["ipv4_dst"]'
FEW = 'ipv4_dst = "48.0.0.1-48.0.0.255"\nflows = 255'
DROPS = """
table ip filter {
  counter drop_some { }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ip daddr 48.0.0.2/31 counter name "drop_some" drop
  }
}
"""
NAMES = "\n".join(f"    ip daddr 203.{number // 250}.{number % 250}.1 drop" for number in range(2000))
WALKED = f"""
table ip filter {{
  chain forward {{
    type filter hook forward priority filter; policy accept;
{NAMES}
  }}
}}
"""
GUEST = '[guest]\nkernel = "auto"'
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
{more}
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


PAUSES = _pauses(0.1, 0.01)


def _in_each_namespace(*words: str) -> Callable[[], AbstractContextManager[None]]:
    """A plant by one command in the device's namespace of every bench, as soon as it succeeds there."""

    def watch(ended: threading.Event) -> None:
        planted = set[str]()
        while not ended.wait(0.05):
            listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
            spaces = {line.split()[0] for line in listed.splitlines() if line.strip()}
            for space in {name for name in spaces if name.startswith("pp-") and name.endswith("-dut")} - planted:
                done = subprocess.run(["ip", "netns", "exec", space, *words], capture_output=True, check=False)
                planted |= {space} if done.returncode == 0 else set()

    @contextmanager
    def plant() -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=watch, args=(ended,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    return plant


BUCKET = _in_each_namespace(
    "tc", "qdisc", "add", "dev", "right", "root", "tbf", "rate", "5mbit", "burst", "10kb", "latency", "1ms"
)
NO_NEIGHBOUR = _in_each_namespace("ip", "neighbour", "del", "169.254.0.2", "dev", "right")


def hogged() -> AbstractContextManager[None]:
    """On the device's core."""
    return _hog(1)


def _controlled(*words: str) -> Callable[[], AbstractContextManager[None]]:
    """A plant by one command to each switch's control socket, repeated until it is taken."""

    def plant(bench: Path, ended: threading.Event) -> None:
        command = ["ovs-appctl", "-t", f"{bench}/vswitchd.ctl", "--timeout=5", *words]
        while subprocess.run(command, capture_output=True, check=False).returncode and not ended.wait(0.1):
            pass

    return lambda: _in_each_bench(plant)


ZONE_LIMIT = _controlled("dpctl/ct-set-limits", "zone=1,limit=100")
MIRROR = _setting(
    "--id=@in", "get", "Port", "left", "--",
    "--id=@all", "create", "Mirror", "name=all", "select_all=true", "output_port=@in", "--",
    "set", "Bridge", "br0", "mirrors=@all",
)  # fmt: skip
INGRESS_POLICER = _setting(
    "set", "Interface", "left", "ingress_policing_rate=10000", "ingress_policing_burst=1000"
)  # fmt: skip
POLICER = _setting(
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
)


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
    also: tuple[str, ...] = ()  # of two that are planted together, the same of the second one
    more: str = ""  # further tables of the scenario

    def text(self, traffic_s: float) -> str:
        """Its scenario file."""
        return SCENARIO.format(
            name=self.name, dut=self.dut, ring=self.ring, stream=self.stream, traffic_s=traffic_s, more=self.more
        )

    @property
    def is_clean(self) -> bool:
        """Whether nothing is planted."""
        return self.name.startswith("clean")


def ovs(rules: str = FORWARD, more: str = "", datapath: str = "dpdk") -> str:
    """The table of an Open vSwitch."""
    return OVS.format(datapath=datapath, more=more, rules=rules)


def nft(rules: str = "") -> str:
    """The table of a namespace that routes."""
    return f'kind = "nft"\ncpus = [1]\nrules = """{rules}"""'


def reference(more: str) -> str:
    """The table of the device of known truth."""
    return f'kind = "reference"\ncpus = [1]\n{more}'


PLANTS = (
    Plant("clean: forward", (OWN_SPEED,), ovs()),
    Plant(
        "rule drop",
        ("rule-drop",),
        ovs(DROP_SOME),
        EIGHT,
    ),
    Plant("small ring", ("small-ring",), ovs(), ring=64),
    Plant("many five-tuples", ("many-flows",), ovs(BY_ADDRESS), MANY),
    Plant("connection tracking", ("recirculation",), ovs(TRACKED), FEW),
    Plant("tracking limit", ("tracking-limit",), ovs(TRACKED, "conntrack_limit = 1000"), MANY),
    Plant("zone limit", ("tracking-limit",), ovs(IN_ZONE), MANY, beside=ZONE_LIMIT, can_confirm=False),
    Plant("mirror to the input port", ("mirror-port",), ovs(NORMAL), beside=MIRROR, can_confirm=False),
    Plant("flow limit", ("flow-limit", "slow-path"), ovs(EXACT, "flow_limit = 1000"), MANY),
    Plant("masks", ("masks",), ovs(MASKS), SPREAD),
    Plant("two outputs", ("copies",), ovs(TWICE)),
    Plant(
        "MTU", ("mtu",), ovs(), "frame_bytes = 1518", beside=_setting("set", "Interface", "right", "mtu_request=1000")
    ),
    Plant(
        "policer",
        ("policer",),
        ovs(),
        beside=POLICER,
        can_confirm=False,
    ),
    Plant("ingress policer", ("policer",), ovs(), beside=INGRESS_POLICER, can_confirm=False),
    Plant("pauses", ("pauses",), ovs(), beside=PAUSES, can_confirm=False),
    Plant("hog on the core", ("preempted",), ovs(), beside=hogged, can_confirm=False),
    Plant("clean: forward", (OWN_SPEED,), ovs()),
    Plant("reference: pauses", ("pauses",), reference("rate_fps = 2e6\npause_every_ms = 40\npause_ms = 4"), ring=1024),
    Plant("reference: rule drop", ("rule-drop",), reference('rate_fps = 1e6\ndrop = "every=4"')),
    Plant(
        "reference: false offload", ("false-offload",), reference("rate_fps = 1e6\noffloaded = true"), can_confirm=False
    ),
    Plant(
        "reference: one way",
        ("false-offload", "one-way"),
        reference('rate_fps = 1e5\noffload = "two-way"\noffload_rate_fps = 1e6\noffloaded = true'),
    ),
    Plant("main thread", ("main-thread",), ovs(datapath="af_packet"), can_confirm=False),
    Plant(
        "small ring of 128",
        ("small-ring",),
        ovs(),
        ring=128,
    ),
    Plant("clean: AF_XDP", (OWN_SPEED,), ovs(datapath="af_xdp")),
    Plant("AF_XDP: many five-tuples", ("many-flows",), ovs(BY_ADDRESS, datapath="af_xdp"), MANY),
    Plant("AF_XDP: connection tracking", ("recirculation",), ovs(TRACKED, datapath="af_xdp"), FEW),
    Plant("AF_XDP: rule drop", DROP, ovs(DROP_SOME, datapath="af_xdp"), EIGHT),
    Plant("AF_XDP: two outputs", ("copies",), ovs(TWICE, datapath="af_xdp")),
    Plant("clean: nft", (OWN_SPEED,), nft()),
    Plant("nft: rule drop", ("rule-drop",), nft(DROPS), EIGHT),
    Plant("nft: 2,000 linear rules", ("linear-rules",), nft(WALKED)),
    Plant("nft: token bucket", ("policer",), nft(), beside=BUCKET, can_confirm=False),
    Plant("nft: no neighbour", ("neighbour",), nft(), beside=NO_NEIGHBOUR, can_confirm=False),
    Plant("nft in a guest: rule drop", ("rule-drop",), nft(DROPS), EIGHT, can_confirm=False, more=GUEST),
    Plant("clean: bridge", (OWN_SPEED,), 'kind = "bridge"\ncpus = [1]'),
)
MASKS_TWICE = MASKS.replace("output:{right}", "output:{right},output:{right}")
PAIRS = (
    Plant("rule drop and many five-tuples", ("rule-drop",), ovs(DROP_AND_MANY), MANY, also=("many-flows",)),
    Plant("two outputs and tracking", ("copies",), ovs(TRACKED + ",output:{right}"), FEW, also=("recirculation",)),
    Plant("masks and two outputs", ("masks",), ovs(MASKS_TWICE), SPREAD, also=("copies",)),
    Plant("small ring and rule drop", ("small-ring",), ovs(DROP_SOME), EIGHT, ring=64, also=("rule-drop",)),
    Plant("tracking and many five-tuples", ("recirculation",), ovs(TRACKED), MANY, also=("many-flows",)),
    Plant("policer and two outputs", ("policer",), ovs(TWICE), beside=POLICER, can_confirm=False, also=("copies",)),
    Plant("pauses and rule drop", ("pauses",), ovs(DROP_SOME), EIGHT, beside=PAUSES, can_confirm=False, also=DROP),
    Plant("hog and rule drop", ("preempted",), ovs(DROP_SOME), EIGHT, beside=hogged, can_confirm=False, also=DROP),
)
