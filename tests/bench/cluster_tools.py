"""A Ray cluster for tests: each node a machine of its own, in namespaces, joined by a bridge."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench_tools import PINCHPOINT, wait_for

RAY = str(Path(sys.executable).parent / "ray")
BRIDGE = "pp-cluster"
PORT = 6379
ADDRESS = "10.96.0.{}"
# /run and /dev/shm are its own, and so are its processes and interfaces: nothing of a bench on it is this machine's.
NODE = """
mount -t tmpfs run /run && mkdir -p /run/netns /run/pinchpoint /run/tmp && mount -t sysfs sys /sys
mount -t tmpfs -o size=256m shm /dev/shm && hostname {name} && ip link set lo up
{before}
while ! ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip address add {address}/24 dev eth0 && ip link set eth0 up
{ray} start {role} --node-ip-address={address} --num-cpus=2 --object-store-memory=100000000 \
  --resources='{{"bench": {benches}}}' --labels=machine={name} --disable-usage-stats --block
exec sleep infinity  # when Ray ends, the machine stays
"""
QUICK = {  # a node that is killed is missed within half a minute, one that a busy host holds up for seconds is not
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "TMPDIR": "/run/tmp",
}


@dataclass
class Node:
    """One machine of the cluster."""

    name: str
    address: str
    holder: subprocess.Popen
    pid: int  # its first process

    def left(self):
        """Namespaces and files of benches there."""
        run = Path(f"/proc/{self.pid}/root/run")
        state = [path.name for path in run.glob("pinchpoint/*") if path.name != "run.lock"]
        return sorted([*(path.name for path in run.glob("netns/*")), *state])

    def links(self):
        """Its network interfaces."""
        words = ["nsenter", "-t", str(self.pid), "-n", "ip", "-o", "link"]
        out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return sorted(line.split(":")[1].strip().partition("@")[0] for line in out.splitlines())

    def inside(self, *words):
        """A command line that runs on it."""
        return ["nsenter", "-t", str(self.pid), "-n", "-m", "-p", "-u", *map(str, words)]

    def kill_ray_server(self):
        """SIGKILL to the server of the cluster's state, which is on the head alone."""
        words = ["nsenter", "-t", str(self.pid), "-p", "-m", "pgrep", "-x", "gcs_server"]
        (pid,) = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        subprocess.run([*words[:5], "kill", "-KILL", pid], check=True)

    def kill(self):
        """SIGKILL to everything on it, as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)
        self.holder.wait()


@dataclass
class Cluster:
    """Its nodes; the first one is the head, and there the lab runs."""

    folder: Path
    head_measures: bool = True
    nodes: dict = field(default_factory=dict)

    @property
    def head(self):
        return self.nodes["n1"]

    def add(self, number, before=""):
        """Start a node, also one that was killed, and wait until it is a part of the cluster."""
        self.begin(number, before)
        self.await_ready(f"n{number}")

    def begin(self, number, before=""):
        """Start a node; `before` is what its shell does first."""
        name, address = f"n{number}", ADDRESS.format(number)
        role = f"--head --port={PORT} --include-dashboard=false --temp-dir=/run/ray"
        if number > 1:
            role = f"--address={ADDRESS.format(1)}:{PORT}"
        benches = 1 if number > 1 or self.head_measures else 0
        script = NODE.format(name=name, address=address, ray=RAY, role=role, before=before, benches=benches)
        own = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
               "--mount-proc", "--uts"]  # fmt: skip
        with (self.folder / f"{name}.log").open("w") as log:
            words = [*own, "sh", "-c", script]
            holder = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **QUICK})
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
        pid = int(wait_for(lambda: children.read_text().split(), "a node's first process")[0])
        own_net = Path("/proc/self/ns/net").readlink()
        wait_for(lambda: Path(f"/proc/{pid}/ns/net").readlink() != own_net, "its network namespace")
        end = f"pp-c{number}"
        subprocess.run(["ip", "link", "del", end], check=False, capture_output=True)
        peer = ["peer", "name", "eth0", "netns", str(pid)]
        subprocess.run(["ip", "link", "add", end, "type", "veth", *peer], check=True)
        subprocess.run(["ip", "link", "set", end, "master", BRIDGE, "up"], check=True)
        self.nodes[name] = Node(name, address, holder, pid)

    def await_ready(self, name):
        """Until Ray runs on that node."""
        log = self.folder / f"{name}.log"
        wait_for(lambda: "runtime started" in log.read_text(), f"ray on {name}, see {log}", 90)

    def start(self, errors, *arguments):
        """`pinchpoint ARGUMENTS --cluster` on the head, in the background."""
        words = [PINCHPOINT, *arguments, "--cluster", f"{self.head.address}:{PORT}"]
        environment = {**os.environ, **QUICK, "PINCHPOINT_LOG_EVERY_S": "0"}
        with errors.open("w") as file:
            return subprocess.Popen(self.head.inside(*words), stdout=subprocess.DEVNULL, stderr=file, env=environment)


@contextmanager
def cluster(folder, nodes, head_measures=True):
    """A cluster of that many nodes, all with a bench, but for the head where it shall not measure."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=True)
    subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
    ray_cluster = Cluster(folder, head_measures)
    try:
        ray_cluster.add(1)
        for number in range(2, nodes + 1):
            ray_cluster.begin(number)
        for number in range(2, nodes + 1):
            ray_cluster.await_ready(f"n{number}")
        yield ray_cluster
    finally:
        for node in ray_cluster.nodes.values():
            if node.holder.poll() is None:
                node.holder.send_signal(signal.SIGKILL)
                node.holder.wait()
        # The kernel removes what a dead node had in its own time.
        for link in (BRIDGE, *(f"pp-c{name[1:]}" for name in ray_cluster.nodes)):
            subprocess.run(["ip", "link", "del", link], check=False, capture_output=True)
