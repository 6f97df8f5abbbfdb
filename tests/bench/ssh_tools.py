"""Another machine for tests: sshd in namespaces of its own, behind a link that can be cut."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench_tools import wait_for

HERE, THERE = "10.97.0.1", "10.97.0.2"
LINK, FAR_LINK = "pp-lab", "pp-far"
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
exec /usr/sbin/sshd -D -e -f {folder}/sshd_config
"""
CLIENT = """
Host far
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
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                is_far = b"\0-I\0-S\0-c\0" in words and (entry / "ns/pid").readlink() == self.processes
            except OSError:
                continue
            if is_far:
                found.append(int(entry.name))
        return found

    @property
    def processes(self):
        """Its process namespace."""
        return Path(f"/proc/{self.pid}/ns/pid").readlink()

    def link(self, state):
        """Cut the link to it, or join it again."""
        subprocess.run(["ip", "link", "set", LINK, state], check=True)

    def delay(self, seconds):
        """Let what is sent either way take so long, as a jump host's ProxyCommand."""
        command = f"{sys.executable} {Path(__file__).with_name('delaying.py')} %h %p {seconds}"
        with (self.folder / "config").open("a") as file:
            file.write(f"  ProxyCommand {command}\n")


@contextmanager
def far_machine(folder):
    """One that is reached as `far`."""
    given = {"folder": folder, "there": THERE, "link": FAR_LINK}
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "sshd_config").write_text(CONFIG.format(**given))
    (folder / "config").write_text(CLIENT.format(**given))
    (folder / "known_hosts").write_text(f"{THERE} {(folder / 'host_key.pub').read_text()}")
    (folder / "bin").mkdir()
    (folder / "bin/ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config "$@"\n')
    (folder / "bin/ssh").chmod(0o755)
    subprocess.run(["ip", "link", "add", LINK, "type", "veth", "peer", "name", FAR_LINK], check=True)
    subprocess.run(["ip", "address", "add", f"{HERE}/24", "dev", LINK], check=True)
    subprocess.run(["ip", "link", "set", LINK, "up"], check=True)
    own = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (folder / "sshd.log").open("w") as log:
        holder = subprocess.Popen([*own, "sh", "-c", FAR.format(**given)], stderr=log)
    try:
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
        pid = int(wait_for(lambda: children.read_text().split(), "the other machine's first process")[0])
        own_net = Path("/proc/self/ns/net").readlink()
        wait_for(lambda: Path(f"/proc/{pid}/ns/net").readlink() != own_net, "its network namespace")
        subprocess.run(["ip", "link", "set", FAR_LINK, "netns", str(pid)], check=True)
        wait_for(lambda: "listening" in (folder / "sshd.log").read_text(), "sshd")
        yield Far(folder, pid)
    finally:
        subprocess.run(["ip", "link", "del", LINK], check=False)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
