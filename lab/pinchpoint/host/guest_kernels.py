"""The kernels that a guest can have, one kind for each of the scenario's words, and whether one boots on a machine.

User-mode Linux is Debian's package user-mode-linux; its options are in the kernel's
Documentation/virt/uml/user_mode_linux_howto_v2.rst. Debian's own kernel under qemu-system-x86_64 (qemu(1)) is unpacked,
not installed, by `packaging/guest-kernel`. A new kind is a class here, and a row.

AUTO stands for the first of them that boots on this machine and has what the device needs (`dut/placement.py`).
"""

import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from pinchpoint.host.guest import LINE, OWN_NAMESPACE, Guest
from pinchpoint.host.guest_line import READY
from pinchpoint.host.interface import CommandFailed, Host, text_at
from pinchpoint.host.numa import cpu_words
from pinchpoint.host.processes import end_processes, session
from pinchpoint.model.errors import BenchError, PinchpointError, RequirementError

_BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")  # of qemu
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
# The first device of virtio: its port is /dev/vport0p1.
_LINE = (
    *("-device", "virtio-serial-pci", "-chardev", f"socket,id=line,fd={LINE}"),
    *("-device", "virtserialport,chardev=line"),
)
_PROBE_S = 10.0
_MTU = 1500  # of a guest that only boots


def releases(modules: Path) -> Sequence[str]:
    """Those of which there are modules."""
    return sorted(path.name for path in modules.iterdir()) if modules.is_dir() else ()


def is_release(release: str, wanted: str) -> bool:
    """Whether a kernel's release is the wanted one, or begins with it as a whole: 6.12 is not 6.1."""
    return release.startswith(wanted) and not release[len(wanted) :][:1].isalnum()


@dataclass(frozen=True)
class BootPlan:
    """With what a guest's kernel boots."""

    machine: Host
    folder: str  # of its bench
    init: str  # the file of `init_line`
    memory_mb: int
    mtu: int
    taps: Sequence[str] = ()  # its interfaces, in order
    release: str | None = None  # None: the one of the Debian here
    nodes: Sequence[int | None] = (None,)  # for each of its own that of the machine, of which its memory is; None: any
    shares_cpu: bool = False  # whether several virtual CPUs run on one of the machine
    cpus_each: int = 1  # virtual CPUs of each node
    rings: Sequence[str] = ()  # sockets of vhost-user interfaces, which a switch connects to; after the taps (qemu)
    has_line: bool = True  # to its agent; without it is a daemon, in no namespace of its own (qemu)


class _OfOneKind:
    """What kernels of both kinds have in common."""

    LINE: str  # the guest's device that leads to the lab
    INTERFACE: str  # how the guest's names of its taps begin

    def files(self, release: str | None = None) -> Sequence[tuple[str, str]]:
        """What it needs beside its program, each as (what it is, where it is)."""
        return ()

    def mended_by(self) -> str:
        """The command that may make it boot; empty if none is known."""
        return ""

    def modules(self, release: str | None) -> Path:
        """A folder with one for each release that is there."""
        raise NotImplementedError

    def config(self, machine: Host, release: str | None) -> str:
        """What it was built with, a line for each option."""
        raise NotImplementedError

    def init_line(self, release: str | None = None) -> str:
        """The shell command with which the guest begins. In a file, since a kernel's command line knows no quotes."""
        here = Path(__file__)
        words = (here.with_name("guest_init.sh"), sys.executable, here.parents[2], self.modules(release), self.LINE)
        return f"exec /bin/sh {shlex.join(map(str, words))}"

    def interface(self, number: int) -> str:
        """The guest's name of the tap of that number."""
        return f"{self.INTERFACE}{number}"

    def has_module(self, name: str, release: str | None = None) -> bool:
        """Whether there is such a module, or it is built in (modules.builtin lists those by their paths)."""
        folder = self.modules(release)
        built_in = (path.read_text(encoding="utf-8") for path in folder.rglob("modules.builtin"))
        return any(folder.rglob(f"{name}.ko*")) or any(f"/{name}.ko" in text for text in built_in)

    def is_configured(self, machine: Host, option: str, release: str | None = None) -> bool:
        """Whether it was built with an option, or has it as a module. Raises CommandFailed or RequirementError."""
        return any(line in (f"{option}=y", f"{option}=m") for line in self.config(machine, release).splitlines())


class Uml(_OfOneKind):
    """User-mode Linux."""

    TITLE = "user-mode Linux"
    ABOUT = "user-mode Linux, as Debian's package user-mode-linux provides it; it has no nf_tables for IPv4"
    PROGRAM = "linux.uml"
    PROGRAMS = ((PROGRAM, "user-mode-linux"),)  # (program, Debian's package of it)
    HAS_RELEASES = False  # of which a scenario may choose one: the package has one
    HAS_CPUS = False  # several CPUs, on one NUMA node or several: it has one CPU
    LEAST_MB = 64  # memory with which it boots
    STANDING_S = 4.0  # to boot and to end; seen on a machine of two cores
    LINE = "/dev/ttyS0"
    INTERFACE = "vec"
    # Names of the threads, beside the first, that forward frames: its process is its one CPU.
    VCPU = re.compile(r"(?!)")
    _PTRACE = Path(sys.prefix) / "lib/pinchpoint/uml-ptrace.so"  # built of uml_ptrace.c by `make setup`

    def modules(self, release: str | None) -> Path:
        """The package's, where modprobe(8) does not look."""
        return Path("/usr/lib/uml/modules")

    def config(self, machine: Host, release: str | None) -> str:
        """As it prints it. Raises CommandFailed or RequirementError."""
        return machine.run([self.PROGRAM, "--showconfig"], timeout_s=10.0)

    def provided_by(self, release: str | None = None) -> str:
        """The command that provides the kernel and its modules."""
        return "apt-get install user-mode-linux"

    def mended_by(self) -> str:
        """The command that may make it boot; empty if none is known."""
        if self._PTRACE.exists():
            return ""
        source = Path(__file__).with_name("uml_ptrace.c")
        return f"with AMX it needs: mkdir -p {self._PTRACE.parent} && cc -shared -fPIC -o {self._PTRACE} {source}"

    def command(self, plan: BootPlan) -> tuple[str, ...]:
        """What boots it, with the taps as its interfaces vec0, vec1 and so on.

        Its root is this machine's, read only. Processes that stand for those of the guest would be left stopped, were
        it not in a namespace of its own.
        """
        return (
            *OWN_NAMESPACE,
            *self.preloaded(),
            *(self.PROGRAM, f"mem={plan.memory_mb}M", f"uml_dir={plan.folder}/", "umid=guest"),
            *("rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"),
            # No frame is the kernel's own idea; no namespace can say so before the module is there.
            "ipv6.disable_ipv6=1",
            *("console=tty0", "con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{LINE}"),
            *(f"vec{n}:transport=tap,ifname={tap},mtu={plan.mtu}" for n, tap in enumerate(plan.taps)),
            *("init=/bin/sh", "--", plan.init),
        )

    def preloaded(self) -> tuple[str, ...]:
        """What stands before the program so that it boots on a processor with AMX, too; nothing if not built."""
        return ("env", f"LD_PRELOAD={self._PTRACE}") if self._PTRACE.exists() else ()

    def thread(self, number: int) -> str:
        """Its process is its one CPU."""
        return re.escape(self.PROGRAM)

    def runs_on(self, machine: Host) -> str:
        """What stands for its CPU."""
        return "a process"

    def is_emulated(self, machine: Host) -> bool:
        """Whether its processor is software: a process runs on this machine's own."""
        return False


class Qemu(_OfOneKind):
    """Debian's own kernel, which qemu runs."""

    TITLE = "Debian's kernel under qemu"
    ABOUT = (
        "Debian's own kernel under qemu, with KVM where that works, else emulated (TCG), which is slower; "
        "`packaging/guest-kernel` provides it"
    )
    PROGRAM = "qemu-system-x86_64"
    PROGRAMS = ((PROGRAM, "qemu-system-x86"),)
    HAS_RELEASES = True
    HAS_CPUS = True
    LEAST_MB = 128
    STANDING_S = 20.0  # to boot and to end, emulated on a machine of two cores
    LINE = "/dev/vport0p1"
    INTERFACE = "eth"
    # With one thread for a CPU, or one for all; the main thread moves frames between taps and rings.
    VCPU = re.compile(r"(CPU \d+|ALL CPUs)/.*")
    _PROVIDER = "packaging/guest-kernel"
    _FOLDER = Path("/var/cache/pinchpoint/guest-kernel")  # the same whoever asks, also by sudo(8)

    def place(self, release: str | None = None) -> Path:
        """The folder of a kernel, which need not be there: vmlinuz, initrd, config, modules/RELEASE.

        It is that of the Debian here where no release is wanted, or that has it.
        """
        if release is None or any(is_release(there, release) for there in releases(self._FOLDER / "modules")):
            return self._FOLDER
        return self._FOLDER.with_name(f"{self._FOLDER.name}-{release}")

    def files(self, release: str | None = None) -> Sequence[tuple[str, str]]:
        """The file system with which it begins: made last, with all the others."""
        return ((f"kernel {release} for qemu" if release else "kernel for qemu", str(self.place(release) / "initrd")),)

    def provided_by(self, release: str | None = None) -> str:
        """The command that provides the kernel and its modules."""
        return f"{self._PROVIDER} --release {release}" if release else self._PROVIDER

    def command(self, plan: BootPlan) -> tuple[str, ...]:
        """What boots it, with the taps as its interfaces eth0, eth1 and so on.

        Its root is this machine's, read only, by 9p. Nothing listens; the folder is not needed.
        """
        kernel, has_kvm = self.place(plan.release), self._has_kvm(plan.machine)
        image = _booted(plan.machine, kernel, has_kvm)
        # On one CPU a thread each would wait out its time slice at every lock of another; one thread takes turns.
        threads = "single" if plan.shares_cpu else "multi"
        # The plain processor that is emulated by default lacks SSE4, without which DPDK, and so the engine, ends.
        emulated = ("-accel", f"tcg,thread={threads}", "-cpu", "max")
        accelerated = ("-accel", "kvm", "-cpu", "host") if has_kvm else emulated
        # No frame is the kernel's own idea; no namespace can say so before the module is there.
        # Without `no_timer_check` a kernel whose emulated timer a busy host holds up takes it for broken, and panics.
        words = f"console=ttyS0 quiet panic=-1 no_timer_check ipv6.disable_ipv6=1 pinchpoint.init={plan.init}"
        return (
            *(OWN_NAMESPACE if plan.has_line else ()),
            *(self.PROGRAM, "-name", "guest,debug-threads=on", *_BARE, "-sandbox", _SANDBOX),
            *("-machine", "pc,graphics=off", *accelerated, *_cpus(plan)),
            *("-kernel", str(image), "-initrd", str(kernel / "initrd"), "-append", words),
            *("-chardev", "file,id=console,path=/dev/stdout,append=on", "-serial", "chardev:console"),
            *(_LINE if plan.has_line else ()),
            *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", "virtio-9p-pci,fsdev=root,mount_tag=root"),
            *(word for number, tap in enumerate(plan.taps) for word in _interface(number, tap, plan.mtu)),
            *(word for number, path in enumerate(plan.rings, len(plan.taps)) for word in _ring(number, path, has_kvm)),
        )

    def modules(self, release: str | None) -> Path:
        """Of all releases that are in its folder."""
        return self.place(release) / "modules"

    def config(self, machine: Host, release: str | None) -> str:
        """As it was built; empty where there is no kernel."""
        return text_at(machine, str(self.place(release) / "config"))

    def thread(self, number: int) -> str:
        """A pattern of the name of the thread that is the virtual CPU of that number."""
        return rf"(CPU {number}|ALL CPUs)/.*"

    def runs_on(self, machine: Host) -> str:
        """What stands for its CPU."""
        return "TCG, emulated" if self.is_emulated(machine) else "KVM"

    def is_emulated(self, machine: Host) -> bool:
        """Whether its processor is software."""
        return not self._has_kvm(machine)

    def _has_kvm(self, machine: Host) -> bool:
        """Whether KVM runs CPUs that a 64-bit kernel can use: a nested one was seen to open, and to boot nothing.

        qemu(1), `enforce`: it ends with an error if a feature of that plain processor is missing.
        """
        if not machine.exists("/dev/kvm"):
            return False
        words = f"{self.PROGRAM} {' '.join(_BARE)} -S -machine pc -accel kvm -cpu kvm64,enforce -monitor stdio"
        try:
            machine.run(["sh", "-c", f"echo quit | {words}"], timeout_s=_PROBE_S)
        except (CommandFailed, RequirementError):
            return False
        return True


def _cpus(plan: BootPlan) -> tuple[str, ...]:
    """Its memory and CPUs: a socket for each node, since the CPUs of a socket are of one node."""
    nodes, memory_mb, cpus = plan.nodes, plan.memory_mb, plan.cpus_each
    count = len(nodes)
    if nodes == (None,) and not plan.rings:
        return ("-smp", str(cpus), "-m", f"{memory_mb}M")
    kind, shared = ("memfd", ",share=on") if plan.rings else ("ram", "")  # a switch maps the memory of rings
    each = memory_mb // count
    sizes = (memory_mb - (count - 1) * each, *(each for _ in nodes[1:]))
    words = ["-smp", f"{count * cpus},sockets={count},cores={cpus},threads=1", "-m", f"{memory_mb}M"]
    for number, (size, here) in enumerate(zip(sizes, nodes, strict=True)):
        bound = "" if here is None else f",host-nodes={here},policy=bind"
        own = cpu_words(range(number * cpus, (number + 1) * cpus))
        words += ["-object", f"memory-backend-{kind},id=ram{number},size={size}M{shared}{bound}"]
        words += ["-numa", f"node,nodeid={number},cpus={own},memdev=ram{number}"]
    return tuple(words)


def _booted(machine: Host, folder: Path, has_kvm: bool) -> Path:
    """The kernel's file: where its processor is emulated, the unpacked one, since unpacking takes that one seconds."""
    plain = folder / "vmlinux"
    return plain if not has_kvm and machine.exists(str(plain)) else folder / "vmlinuz"


def _mac(end: str) -> str:
    """An address of its own for each tap or socket: by default the first interface of every machine has the same."""
    return "52:54:00:" + sha256(end.encode()).digest()[:3].hex(":")


def _interface(number: int, tap: str, mtu: int) -> tuple[str, ...]:
    """An interface without offloads: frames are taken and given as they are on a wire."""
    return (
        *("-netdev", f"tap,id=net{number},ifname={tap},script=no,downscript=no,vhost=off,vnet_hdr=off"),
        *("-device", f"virtio-net-pci,netdev=net{number},mac={_mac(tap)},host_mtu={mtu},romfile="),
    )


_RING: Final = 1024  # the most that qemu has
_OFFLOADS = ("csum", "gso", "host_tso4", "host_tso6", "guest_csum", "guest_tso4", "guest_tso6")  # of virtio-net


def _ring(number: int, path: str, has_kvm: bool) -> tuple[str, ...]:
    """An interface of which a switch serves the rings, without offloads: nobody would finish what they leave open."""
    words = f"tx_queue_size={_RING},romfile=" + "".join(f",{name}=off" for name in _OFFLOADS)
    words += "" if has_kvm else ",vectors=0"  # with MSI-X and without KVM, qemu 7.2 dies as the guest sets up rings
    return (
        *("-chardev", f"socket,id=ring{number},path={path},server=on"),
        *("-netdev", f"vhost-user,id=net{number},chardev=ring{number}"),
        *("-device", f"virtio-net-pci,netdev=net{number},mac={_mac(path)},rx_queue_size={_RING},{words}"),
    )


AUTO: Final = "auto"
GuestKernels = Uml | Qemu
KERNELS: Final[Mapping[str, GuestKernels]] = {"uml": Uml(), "qemu": Qemu()}


@dataclass(frozen=True)
class Boot:
    """How long a guest's kernel took to boot, in seconds, or why it did not."""

    took_s: float
    why_not: str = ""  # what ended it; empty: it boots
    is_late: bool = False  # nothing ended it but the time: the machine may be busy


def booted(machine: Host, word: str, timeout_s: float) -> Boot:
    """The kernel of that word, booted on `machine` with its least memory and no interface; it is gone on return.

    On an idle machine user-mode Linux takes a second or two, an emulated kernel five to ten.
    """
    kernel, guest = KERNELS[word], Guest(machine)
    with tempfile.TemporaryDirectory(prefix="pinchpoint-boot-") as folder, closing(guest):
        init = f"{folder}/init"
        # The line stays open: what a terminal has not sent is lost when it is closed.
        machine.write(init, f"exec 3<>{kernel.LINE}\necho {READY.decode()} >&3\nsleep {timeout_s:g}\n")
        argv = kernel.command(BootPlan(machine, folder, init, kernel.LEAST_MB, _MTU))
        if os.geteuid() != 0:
            argv = argv[len(OWN_NAMESPACE) :]  # its own group of processes does as well
        began = time.monotonic()
        try:
            pid = guest.start(argv, (), f"{folder}/log")
            try:
                guest.await_ready(partial(machine.ended, pid), timeout_s)
            finally:
                with suppress(BenchError):  # they end later on a busy machine, which says nothing of the boot
                    end_processes(machine, session(machine, pid), grace_s=0.0)
                machine.ended(pid)
        except PinchpointError as error:
            return Boot(time.monotonic() - began, error.message, isinstance(error, BenchError))
    return Boot(time.monotonic() - began)
