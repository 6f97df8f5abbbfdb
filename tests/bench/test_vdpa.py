"""vDPA: the engine on /dev/vhost-vdpa-N in a guest, and a switch that has no such ports.

The device of the guest is the kernel's simulator, which hands what it gets back to the sender. One that finds no free
buffer is an overrun of its receive queue.
"""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench_tools import run

from pinchpoint.host.guest import MODPROBE, Guest
from pinchpoint.host.guest_kernels import KERNELS, BootPlan
from pinchpoint.host.local import Local

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("vDPA")]
RELEASE = "6.12"
BOOT_S = 240
OWN = "02:00:00:00:00:07"
SIMULATORS = Path("/var/cache/pinchpoint/vdpa-sim")
ENGINE = Path(__file__).parents[2] / ".venv/bin/pinchpoint-engine"
EAL = "--in-memory --no-pci --single-file-segments -m 256 --iova-mode=va"
SWITCH = """
[dut]
datapath = "dpdk"
pmd_cpus = [1]
rules = "in_port={left},actions=output:{right}"
[[port]]
name = "left"
kind = "vdpa"
pf = "0000:05:00.0"
vf = "0000:05:00.2"
representor = 0
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""


def test_a_switch_without_such_ports_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "vdpa.toml"
    path.write_text(SWITCH)
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 4, done.stderr
    told = f'{path}: port left: kind = "vdpa": the running switch has no ports of the type dpdkvdpa'
    assert told in done.stderr
    assert "hint: set dut.vswitchd" in done.stderr


@contextmanager
def booted(folder):
    """A guest with two CPUs, a gigabyte, and a processor on which DPDK runs."""
    init, log = folder / "init", folder / "log"
    qemu = KERNELS["qemu"]
    init.write_text(qemu.init_line(RELEASE))
    plan = BootPlan(Local(), str(folder), str(init), 1024, 1500, release=RELEASE, cpus_each=2)
    guest = Guest(Local())
    pid = guest.start(qemu.command(plan), (), str(log))
    try:
        guest.await_ready(lambda: Local().ended(pid), BOOT_S)
        yield guest
    finally:
        Local().signal([pid], 9)
        guest.close()


def vdpa_device(guest):
    """Makes one device; returns the file that leads to it."""
    (modules,) = SIMULATORS.glob(f"{RELEASE}.*")
    guest.run([MODPROBE, "vhost_vdpa"])
    for name in ("vringh", "vdpa_sim", "vdpa_sim_net"):
        if (modules / f"{name}.ko").exists():
            guest.run(["insmod", str(modules / f"{name}.ko")])
    guest.run(["vdpa", "dev", "add", "name", "one", "mgmtdev", "vdpasim_net", "mac", OWN])
    (name,) = (name for name in guest.names("/dev") if name.startswith("vhost-vdpa-"))
    return f"/dev/{name}"


def sent(guest, device, mac):
    """What became of a second of frames to an address, from the device to itself. Rings hold virtual addresses."""
    port = f"dpdk:net_virtio_user0,path={device},queue_size=256"
    words = f"send --from {port} --to {port} --dst-mac {mac} --rate 200 --time 1s --drain 2s --cores 0 --json -q"
    rings = ("--rx-ring", "256", "--tx-ring", "256", "--eal", EAL)
    said = guest.run([str(ENGINE), *words.split(), *rings], timeout_s=120)
    (stream,) = json.loads(said.splitlines()[-1])["streams"]
    return stream


@pytest.mark.needs("vdpa simulator")
def test_what_the_engine_sends_through_a_vdpa_device_comes_back(tmp_path):
    with booted(tmp_path) as guest:
        device = vdpa_device(guest)
        guest.run(["sysctl", "-qw", "vm.nr_hugepages=160"])
        transmission = sent(guest, device, OWN)
    assert transmission["received"] > 0, transmission
    assert transmission["received"] + transmission["lost"] == transmission["sent"], transmission
