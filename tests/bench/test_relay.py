"""A host in a namespace reaches OVS-DPDK through a relay: TCP, transactions, and an account that closes."""

import json
import secrets
import subprocess
from pathlib import PurePosixPath

import pytest

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.builder import Builder
from pinchpoint.bench.journal import STATE_DIRECTORY
from pinchpoint.bench.resource import (
    Command,
    Daemon,
    Hugepages,
    MarkedProcesses,
    Namespace,
    RunDirectory,
    Veth,
)
from pinchpoint.dut.attach import host_relay, plain_frames
from pinchpoint.dut.places import Places
from pinchpoint.engine.process import find_engine
from pinchpoint.host import hugepages
from pinchpoint.host.local import Local
from pinchpoint.host.priority import preferred
from pinchpoint.model.errors import BenchError
from pinchpoint.observe.relay import RelayAccount, Relays, parse_account

pytestmark = [pytest.mark.tier2("hosts behind vhost-user"), pytest.mark.needs("dpdk")]

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
VSWITCHD = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
PAGES = 400  # 512 MB for the switch, 96 MB for the relay, and what DPDK adds


class Path:
    """Two hosts, each behind a veth link, a relay and a vhost-user port of one switch."""

    def __init__(self):
        self.id = secrets.token_hex(3)
        self.folder = PurePosixPath(STATE_DIRECTORY / self.id)
        self.hosts = {name: f"pp-{self.id}-{name}" for name in ("one", "two")}
        self.places = Places(self.id, self.folder, Local())
        self.outer = self.places.dut_netns
        self.relay = host_relay(self.places, [find_engine(Local())], list(self.hosts), cpu=0)

    def resources(self, ports):
        present, _ = hugepages.pool(Local())
        yield RunDirectory(str(self.folder))
        yield MarkedProcesses(self.id)
        yield Hugepages(before=present, after=present + PAGES)
        yield Namespace(self.outer)
        for number, (name, netns) in enumerate(self.hosts.items(), start=1):
            yield Namespace(netns)
            yield Veth(name, self.outer, "eth0", netns, mtu=1500)
            yield plain_frames("eth0", netns)
            yield plain_frames(name, self.outer)
            yield Command(("ip", "-n", netns, "address", "add", f"10.99.0.{number}/24", "dev", "eth0"))
        yield from self.switch(ports)
        yield self.relay

    def switch(self, ports):
        environment = tuple((f"OVS_{what}", str(self.folder)) for what in ("RUNDIR", "LOGDIR", "DBDIR"))
        database = f"unix:{self.folder}/db.sock"
        vsctl = ("ovs-vsctl", f"--db={database}", "--timeout=30")

        def daemon(name, *argv, netns=None):
            pidfile, log = f"{self.folder}/{name}.pid", f"{self.folder}/{name}.log"
            words = (f"--pidfile={pidfile}", f"--log-file={log}", f"--unixctl={self.folder}/{name}.ctl", "--detach")
            return Daemon(name, (*argv, *words), pidfile, log, self.id, netns, (0,), environment)

        yield Command(("ovsdb-tool", "create", f"{self.folder}/conf.db", SCHEMA))
        yield daemon("ovsdb", "ovsdb-server", f"{self.folder}/conf.db", f"--remote=p{database}")
        extra = 'other_config:dpdk-extra="--no-pci --in-memory --no-telemetry"'
        options = ("dpdk-init=true", "dpdk-socket-mem=512", "dpdk-lcore-mask=1", "pmd-cpu-mask=2")
        words = [f"other_config:{option}" for option in options]
        yield Command((*vsctl, "--no-wait", "set", "Open_vSwitch", ".", *words, extra))
        yield daemon("vswitchd", VSWITCHD, database, netns=self.outer)
        bridge = ["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"]
        for name in ports:
            bridge += ["--", "add-port", "br0", f"v-{name}", "--", "set", "interface", f"v-{name}"]
            bridge += ["type=dpdkvhostuserclient", f"options:vhost-server-path={self.places.vhost_socket(name)}"]
        yield Command((*vsctl, *bridge))

    def work(self, kind, *more):
        argv = [
            find_engine(Local()),
            kind,
            "--client",
            self.hosts["one"],
            "--server",
            self.hosts["two"],
            "--json",
            "--quiet",
        ]
        cores = ["--client-core", "0", "--server-core", "0"]
        done = subprocess.run(
            [*argv, "--address", "10.99.0.2", "--time", "2s", *cores, *more],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["runs"][0]


@pytest.fixture
def comes_first():
    """The bench comes before what else runs here, as in every run."""
    with preferred():
        yield


@pytest.mark.usefixtures("comes_first")
def test_tcp_and_transactions_pass_a_dpdk_switch_and_every_frame_is_accounted_for(nothing_left):
    path = Path()
    builder = Builder(path.id, Local())
    builder.apply(tuple(path.resources(["one", "two"])))
    try:
        collector = Relays(Local(), [path.relay])
        before = collector.snapshot().counters
        assert path.work("stream")["received_bytes"] > 0
        for kind in ("rr", "crr"):
            run = path.work(kind)
            assert run["transactions"] > 0
            assert run["failed"] == 0
        after = collector.snapshot()
        account = parse_account(ask_relay(path.relay, Local()), RelayAccount, "relay")
    finally:
        builder.undo()
    assert 0 < after.gauges["host/relay/relay/busy_share"] <= 1
    assert [port.down_s for port in account.ports] == [0.0] * 4
    for lane in account.directions:
        assert lane.received == lane.sent + lane.dropped + lane.too_long + lane.waiting
    # What one host's relay gave the switch, the other's took from it: all but strays and retried frames.
    carried = {name: after.counters[name] - before[name] for name in before}
    there = carried["host/relay/one/one at the switch/sent"]
    assert there > 0
    assert carried["host/relay/two at the switch/two/received"] == pytest.approx(there, rel=0.05, abs=20)


def test_a_relay_whose_switch_never_connects_is_told_and_leaves_nothing(nothing_left, monkeypatch):
    path = Path()
    argv = [word if not word.endswith("s") or not word[:-1].isdigit() else "2s" for word in path.relay.argv]
    relay_in_haste = type(path.relay)(**{**_fields(path.relay), "argv": tuple(argv)})
    monkeypatch.setattr(path, "relay", relay_in_haste)
    with pytest.raises(BenchError, match="no client connected to net_virtio_user1"):
        Builder(path.id, Local()).apply(tuple(path.resources(["one"])))


def _fields(resource):
    return {name: getattr(resource, name) for name in resource.__struct_fields__}
