"""A host by ssh that can be rebooted, cut off, filled up and looked at, for tests of what goes wrong with one.

It has processes, interfaces, /run, /tmp, /var/cache and an empty /root of its own. It shares this machine's other
files, hugepages, kernel and clock. Several may stand at once.
"""

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

from bench_tools import wait_for
from ssh_tools import CLIENT, CONFIG

ENGINE = b"pinchpoint-engine"
STAYS = {  # what docs/hosts.md says stays, and what is the host's own
    "/run": re.compile("netns|mount|sshd|login(/.*)?|sudo(/.*)?|pinchpoint(/run.lock)?"),
    "/tmp": re.compile("$"),
    "/var/cache": re.compile("pinchpoint(/[0-9a-f]{16}(/pinchpoint-engine)?)?"),
}
# What it keeps is in /var/cache; all else that it writes is gone after a reboot. A setup may change it further.
BOOT = """
set -e
mount -t tmpfs run /run
mkdir -p /run/netns /run/sshd /run/login
cp {folder}/host_key {folder}/key.pub {folder}/sshd_config /run/login
mount --bind {folder}/disk /var/cache
mount -t tmpfs tmp /tmp
mount -t tmpfs home /root
mount -t sysfs sys /sys
{setup}
ip link set lo up
while ! ip link show {link} >/dev/null 2>&1; do sleep 0.02; done
ip address add {there}/24 dev {link}
ip link set {link} up
exec /usr/sbin/sshd -D -e -f /run/login/sshd_config
"""


class Site:
    """One such host, and the link by which the lab reaches it as `far`."""

    def __init__(self, folder, number=1, setup="", sshd=""):
        """`setup`: commands of the host before its sshd starts; `sshd`: more lines of sshd_config."""
        self.folder, self._setup = Path(folder), setup
        self._lab_link, self._link = f"pp-lab{number}", f"pp-far{number}"
        self._here, self.there = f"10.98.{number}.1", f"10.98.{number}.2"
        self._holder = None
        self.pid = 0  # its first process
        (self.folder / "disk").mkdir()
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        self.write_config(sshd)
        (self.folder / "config").write_text(CLIENT.format(name="far", folder=self.folder, there=self.there))
        self.trust()
        (self.folder / "bin").mkdir()
        (self.folder / "bin/ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.folder}/config "$@"\n')
        (self.folder / "bin/ssh").chmod(0o755)

    def write_config(self, more):
        """Its sshd_config, as of the next start."""
        text = CONFIG.format(folder="/run/login", there=self.there)
        (self.folder / "sshd_config").write_text(f"{text}MaxStartups 100\n{more}\n")

    def trust(self):
        """Let ssh know its host key as it is."""
        key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text(f"{self.there} {key}")

    @property
    def environment(self):
        """In which `ssh far` leads there."""
        return {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def start(self):
        """Boot it, and wait until it can be reached."""
        link, far_link = self._lab_link, self._link
        subprocess.run(["ip", "link", "add", link, "type", "veth", "peer", "name", far_link], check=True)
        subprocess.run(["ip", "address", "add", f"{self._here}/24", "dev", link], check=True)
        subprocess.run(["ip", "link", "set", link, "up"], check=True)
        own = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        script = BOOT.format(folder=self.folder, setup=self._setup, there=self.there, link=far_link)
        log = self.folder / "sshd.log"
        with log.open("w") as file:
            self._holder = subprocess.Popen([*own, "--mount-proc", "sh", "-c", script], stdout=file, stderr=file)
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self.pid = int(wait_for(lambda: children.read_text().split(), "the host's first process")[0])
        own_net = Path("/proc/self/ns/net").readlink()
        wait_for(lambda: Path(f"/proc/{self.pid}/ns/net").readlink() != own_net, "its network namespace")
        subprocess.run(["ip", "link", "set", far_link, "netns", str(self.pid)], check=True)
        wait_for(lambda: "listening" in log.read_text(), f"sshd: {log.read_text()}")

    def stop(self):
        """End it at once, as a loss of power does: processes, namespaces, /run and /tmp are gone."""
        if self._holder is None:
            return
        os.kill(self.pid, signal.SIGKILL)
        self._holder.wait()
        self._holder = None
        subprocess.run(["ip", "link", "del", self._lab_link], check=False, capture_output=True)
        gone = ["ip", "link", "show", self._lab_link]
        wait_for(lambda: subprocess.run(gone, check=False, capture_output=True).returncode, "the link's end")

    def reboot(self):
        """End it, and start it again."""
        self.stop()
        self.start()

    def cut(self, is_cut):
        """Lose every frame that the lab sends there, acknowledgements too, or none; nobody is told."""
        queue = ["replace", "dev", self._lab_link, "root", "pfifo", "limit", "0"]  # holds nothing, so passes nothing
        subprocess.run(["tc", "qdisc", *(queue if is_cut else ["del", *queue[1:4]])], check=True)

    def link(self, state):
        """Take the lab's end of the link down, or up."""
        subprocess.run(["ip", "link", "set", self._lab_link, state], check=True)

    def root(self, path):
        """A path of the host, as seen from here."""
        return Path(f"/proc/{self.pid}/root{path}")

    def processes(self):
        """{process id here: its command line} of all but its first."""
        leftovers = {}
        try:
            own = Path(f"/proc/{self.pid}/ns/pid").readlink()
        except OSError:
            return leftovers
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.pid:
                continue
            try:
                if (entry / "ns/pid").readlink() == own:
                    leftovers[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
        return leftovers

    def victims(self, kind):
        """The processes there of that kind: agent, engine, device or session."""
        is_one = {
            "agent": lambda words: words.partition(b"\0")[0].endswith(b"python3") and b"\0-I\0-S\0-c\0" in words,
            "engine": lambda words: words.partition(b"\0")[0].endswith(ENGINE),
            "device": lambda words: words.partition(b"\0")[0].endswith(b"ovs-vswitchd"),
            "session": lambda words: words.startswith(b"sshd: "),
        }[kind]
        return [pid for pid, words in self.processes().items() if is_one(words)]

    def holds(self):
        """All that a bench or an agent could have left there: processes, interfaces, mounts, files."""
        own = ["nsenter", "--net", "-t", str(self.pid), "ip", "-o", "link"]
        links = subprocess.run(own, capture_output=True, text=True, check=True).stdout.splitlines()
        names = {line.split(": ")[1].partition("@")[0] for line in links}
        mounts = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        words = (line.replace(b"\0", b" ")[:60].decode(errors="replace") for line in self.processes().values())
        leftovers = [f"process {line}" for line in words if line]  # a zombie has no words
        leftovers += [f"interface {name}" for name in names - {"lo", self._link}]
        leftovers += [f"mount {line.split()[4]}" for line in mounts if "/netns/" in line.split()[4]]
        for folder in ("/run", "/tmp", "/var/cache"):
            top = self.root(folder)
            paths = (str(path.relative_to(top)) for path in top.rglob("*"))
            leftovers += [f"file {folder}/{name}" for name in paths if not STAYS[folder].fullmatch(name)]
        return sorted(leftovers)


@contextmanager
def site(folder, number=1, setup="", sshd=""):
    """One that runs, for a test."""
    Path(folder).mkdir()
    place = Site(folder, number, setup, sshd)
    try:
        place.start()
        yield place
    finally:
        place.stop()
