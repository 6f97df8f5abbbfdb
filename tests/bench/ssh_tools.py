"""Another machine for tests: sshd in namespaces of its own, behind a link that can be cut."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench_tools import wait_for

CONFIG = """
ListenAddress {there}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
"""
# /run and an empty /root are its own; so are its processes and interfaces. Nothing of a bench on it is this machine's.
FAR = """
mount -t tmpfs home /root
mount -t tmpfs run /run && mkdir -p /run/netns /run/sshd && mount -t sysfs sys /sys && ip link set lo up
while ! ip link show {link} >/dev/null 2>&1; do sleep 0.02; done
ip address add {there}/24 dev {link} && ip link set {link} up
while sleep 0.05; do test -e {folder}/sshd_is_down || /usr/sbin/sshd -D -e -f {folder}/sshd_config; done
"""
CLIENT = """
Host {name}
  HostName {there}
  User root
  IdentityFile {folder}/key
  UserKnownHostsFile {folder}/known_hosts
"""


@dataclass(frozen=True)
class Far:
    """The other machine, as the lab's processes see it."""

    folder: Path
    pid: int  # its first process
    near_link: str  # the lab's end of the link to it

    @property
    def environment(self):
        """In which `ssh far` leads there."""
        return {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def holds(self):
        """Namespaces and files of benches there."""
        run = Path(f"/proc/{self.pid}/root/run")
        state = [path.name for path in run.glob("pinchpoint/*") if path.name != "run.lock"]
        return sorted([*(path.name for path in run.glob("netns/*")), *state])

    def agents(self):
        """The processes there that answer the lab."""
        return self._having(b"\0-I\0-S\0-c\0")

    def connections(self):
        """The processes there that are sshd's, each of a connection."""
        return self._having(b"sshd: root") + self._having(b"sshd-session: root")

    def kill_sshd(self):
        """End it with all its connections; none is accepted until `start_sshd`. The machine stays up."""
        (self.folder / "sshd_is_down").touch()
        for pid in self._having(b"sshd"):
            if pid != self.pid:  # whose script has its name
                os.kill(pid, signal.SIGKILL)

    def start_sshd(self):
        """Accept connections again."""
        (self.folder / "sshd_is_down").unlink()

    def _having(self, part):
        lines = []
        for entry in Path("/proc").iterdir():
            try:
                values = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                is_far = part in values and (entry / "ns/pid").readlink() == self.processes
            except OSError:
                continue
            if is_far:
                lines.append(int(entry.name))
        return lines

    @property
    def processes(self):
        """Its process namespace."""
        return Path(f"/proc/{self.pid}/ns/pid").readlink()

    def link(self, state):
        """Cut the link to it, or join it again."""
        subprocess.run(["ip", "link", "set", self.near_link, state], check=True)

    def run(self, *values):
        """A command in its network namespace."""
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", "--net", *values], capture_output=True, text=True, check=True
        )
        return done.stdout

    def delay(self, seconds):
        """Let what is sent either way take so long, as a jump host's ProxyCommand."""
        delay(self.folder, seconds)


def write_configuration(folder, name, there):
    """Keys, sshd's configuration, and an ssh that reaches an address by a name."""
    values = {"folder": folder, "there": there, "name": name}
    for key in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    (folder / "sshd_config").write_text(CONFIG.format(**values))
    (folder / "config").write_text(CLIENT.format(**values))
    (folder / "known_hosts").write_text(f"{there} {(folder / 'host_key.pub').read_text()}")
    write_ssh(folder)


def write_ssh(folder):
    """In bin/: ssh with the folder's configuration."""
    (folder / "bin").mkdir()
    (folder / "bin/ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config "$@"\n')
    (folder / "bin/ssh").chmod(0o755)


def delay(folder, seconds):
    """Let the folder's ssh take so long for what it sends either way, as a jump host's ProxyCommand."""
    command = f"{sys.executable} {Path(__file__).with_name('delaying.py')} %h %p {seconds}"
    with (folder / "config").open("a") as file:
        file.write(f"  ProxyCommand {command}\n")


@contextmanager
def far_machine(folder, name="far", number=0):
    """One that is reached as `far`, or by another name; the number is its own among several."""
    here, there = f"10.97.{number}.1", f"10.97.{number}.2"
    near_link, far_link = f"pp-lab{number}", f"pp-far{number}"
    values = {"folder": folder, "there": there, "link": far_link, "name": name}
    write_configuration(folder, name, there)
    subprocess.run(["ip", "link", "add", near_link, "type", "veth", "peer", "name", far_link], check=True)
    subprocess.run(["ip", "address", "add", f"{here}/24", "dev", near_link], check=True)
    subprocess.run(["ip", "link", "set", near_link, "up"], check=True)
    own = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (folder / "sshd.log").open("w") as log:
        holder = subprocess.Popen([*own, "sh", "-c", FAR.format(**values)], stderr=log)
    try:
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
        pid = int(wait_for(lambda: children.read_text().split(), "the other machine's first process")[0])
        own_net = Path("/proc/self/ns/net").readlink()
        wait_for(lambda: Path(f"/proc/{pid}/ns/net").readlink() != own_net, "its network namespace")
        subprocess.run(["ip", "link", "set", far_link, "netns", str(pid)], check=True)
        wait_for(lambda: "listening" in (folder / "sshd.log").read_text(), "sshd")
        yield Far(folder, pid, near_link)
    finally:
        subprocess.run(["ip", "link", "del", near_link], check=False)
        holder.send_signal(signal.SIGKILL)
        holder.wait()


@contextmanager
def far_machines(folder, *names):
    """Several, each reached by its name: (machines by name, the environment in which `ssh NAME` leads there)."""
    with ExitStack() as stack:
        gathered = {}
        for number, name in enumerate(names, start=1):
            own = folder / name
            own.mkdir(parents=True)
            gathered[name] = stack.enter_context(far_machine(own, name, number))
        (folder / "config").write_text("".join((folder / name / "config").read_text() for name in names))
        write_ssh(folder)
        yield gathered, {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}


def cable(first, one_name, other, other_name):
    """Join two machines by a pair of interfaces that the lab knows nothing of."""
    ends = ["netns", str(first.pid), "type", "veth", "peer", "name", other_name, "netns", str(other.pid)]
    subprocess.run(["ip", "link", "add", "name", one_name, *ends], check=True)
    for machine, name in ((first, one_name), (other, other_name)):
        machine.run("ip", "link", "set", name, "up")


class Hosts:
    """The three machines, and how their cables' ends were before any bench."""

    def __init__(self, machines, environment):
        self.gen, self.dut, self.sink = (machines[name] for name in ("gen", "dut", "sink"))
        self.environment = environment
        cable(self.gen, "eth9", self.dut, "to-gen")
        cable(self.dut, "to-sink", self.sink, "eth9")
        self.gen.run("ip", "link", "set", "eth9", "mtu", "1700")
        self.gen.run("ip", "address", "add", "192.0.2.1/24", "dev", "eth9")
        self.sink.run("ip", "link", "set", "eth9", "down")
        self.before = self.ends()

    @property
    def all(self):
        return self.gen, self.dut, self.sink

    def ends(self):
        """The cables' ends by machine: names, MTU, state, MAC and IPv4 addresses."""
        return [
            [
                (
                    *(link["ifname"], link["mtu"], link["address"]),
                    *("UP" in link["flags"], "PROMISC" in link["flags"]),
                    [address["local"] for address in link["addr_info"] if address["family"] == "inet"],
                )
                for link in json.loads(machine.run("ip", "-j", "address", "show"))
                if link["ifname"].startswith(("eth9", "to-"))
            ]
            for machine in self.all
        ]

    def holds(self):
        return [machine.holds() for machine in self.all]


@contextmanager
def three_hosts(folder):
    """Generator, device and sink; in the end they hold nothing, and their interfaces are what they were."""
    with far_machines(folder, "gen", "dut", "sink") as (machines, environment):
        hosts = Hosts(machines, environment)
        yield hosts
        assert hosts.holds() == [[], [], []]
        assert hosts.ends() == hosts.before
