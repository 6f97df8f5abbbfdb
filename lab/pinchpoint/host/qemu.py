"""Debian's kernel under qemu-system-x86_64 as a guest's kernel: its command, and what it was built with.

Options: qemu(1). The kernel is unpacked, not installed, by `packaging/guest-kernel`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from pinchpoint.host import guest
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import RequirementError

TITLE = "Debian's kernel under qemu"
ABOUT = (
    "Debian's own kernel under qemu, with KVM where that works, else emulated (TCG), which is slower; "
    "`packaging/guest-kernel` provides it"
)
PROGRAM = "qemu-system-x86_64"
PROGRAMS: tuple[tuple[str, str], ...] = ((PROGRAM, "qemu-system-x86"),)
HAS_RELEASES = True
HAS_NODES = True
LEAST_MB = 128
STANDING_S = 20.0  # to boot and to end, emulated on a machine of two cores
VCPU = re.compile(
    r"(CPU \d+|ALL CPUs)/.*"
)  # with one thread for a CPU, or one for all; the main thread moves frames between taps and rings
LINE = "/dev/vport0p1"  # to the lab
_PROVIDER = "packaging/guest-kernel"
_FOLDER = Path("/var/cache/pinchpoint/guest-kernel")  # the same whoever asks, also by sudo(8)
_MODULES = "modules"
_BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_PROBE_S = 10.0


def place(release: str | None = None) -> Path:
    """The folder of a kernel, which need not be there: vmlinuz, initrd, config, modules/RELEASE.

    It is that of the Debian here where no release is wanted, or that has it.
    """
    if release is None or any(guest.is_release(installed, release) for installed in guest.releases(_FOLDER / _MODULES)):
        return _FOLDER
    return _FOLDER.with_name(f"{_FOLDER.name}-{release}")


def files(release: str | None = None) -> Sequence[tuple[str, str]]:
    """The file system with which it begins: made last, with all the others."""
    return ((f"kernel {release} for qemu" if release else "kernel for qemu", str(place(release) / "initrd")),)


def provided_by(release: str | None = None) -> str:
    """The command that provides the kernel and its modules."""
    return f"{_PROVIDER} --release {release}" if release else _PROVIDER


def mended_by() -> str:
    """The command that may make it boot; empty if none is known."""
    return ""


def command(
    machine: Host,
    folder: str,
    init: str,
    memory_mb: int,
    mtu: int,
    taps: Sequence[str],
    release: str | None = None,
    nodes: Sequence[int | None] = (None,),
    shares_cpu: bool = False,
) -> tuple[str, ...]:
    """What boots it, with `taps` as its interfaces eth0, eth1 and so on; `init` is the file of `init_line`.

    Its root is this machine's, read only, by 9p. Nothing listens; `folder` is not needed.
    """
    kernel, has_kvm = place(release), _has_kvm(machine)
    # On one CPU a thread each would wait out its time slice at every lock that another holds; one thread takes turns.
    threads = "single" if shares_cpu else "multi"
    accelerated = ("-accel", "kvm", "-cpu", "host") if has_kvm else ("-accel", f"tcg,thread={threads}")
    # No frame is the kernel's own idea; no namespace can say so before the module is there.
    # Without `no_timer_check` a kernel whose emulated timer a busy host holds up takes it for broken, and panics.
    words = f"console=ttyS0 quiet panic=-1 no_timer_check ipv6.disable_ipv6=1 pinchpoint.init={init}"
    return (
        *guest.OWN_NAMESPACE,
        *(PROGRAM, "-name", "guest,debug-threads=on", *_BARE, "-sandbox", _SANDBOX),
        *("-machine", "pc,graphics=off", *accelerated, *_cpus(memory_mb, nodes)),
        *("-kernel", str(_booted(kernel, has_kvm)), "-initrd", str(kernel / "initrd"), "-append", words),
        *("-chardev", "file,id=console,path=/dev/stdout,append=on", "-serial", "chardev:console"),
        # The first device of virtio: its port is /dev/vport0p1.
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=line,fd={guest.LINE}"),
        *("-device", "virtserialport,chardev=line"),
        *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=root,mount_tag=root"),
        *(word for number, tap in enumerate(taps) for word in _interface(number, tap, mtu)),
    )


def _cpus(memory_mb: int, nodes: Sequence[int | None]) -> tuple[str, ...]:
    """Its memory and CPUs: a socket with one CPU for each node, since the CPUs of a socket are of one node."""
    count = len(nodes)
    if nodes == (None,):
        return ("-smp", "1", "-m", f"{memory_mb}M")
    each = memory_mb // count
    sizes = (memory_mb - (count - 1) * each, *(each for _ in nodes[1:]))
    words = ["-smp", f"{count},sockets={count},cores=1,threads=1", "-m", f"{memory_mb}M"]
    for number, (size, here) in enumerate(zip(sizes, nodes, strict=True)):
        bound = "" if here is None else f",host-nodes={here},policy=bind"
        words += ["-object", f"memory-backend-ram,id=ram{number},size={size}M{bound}"]
        words += ["-numa", f"node,nodeid={number},cpus={number},memdev=ram{number}"]
    return tuple(words)


def _booted(folder: Path, has_kvm: bool) -> Path:
    """The kernel's file: where its processor is emulated, the unpacked one, since unpacking takes that one seconds."""
    plain = folder / "vmlinux"
    return plain if plain.exists() and not has_kvm else folder / "vmlinuz"


def _interface(number: int, tap: str, mtu: int) -> tuple[str, ...]:
    """An interface without offloads: frames are taken and given as they are on a wire."""
    return (
        *("-netdev", f"tap,id=net{number},ifname={tap},script=no,downscript=no,vhost=off,vnet_hdr=off"),
        *("-device", f"virtio-net-pci,netdev=net{number},host_mtu={mtu},romfile="),
    )


def init_line(release: str | None = None) -> str:
    """The shell command with which the guest begins, once its root is mounted."""
    return guest.init_line(place(release) / _MODULES, LINE)


def interface(number: int) -> str:
    """The guest's name of the tap of that number."""
    return f"eth{number}"


def thread(number: int) -> str:
    """A pattern of the name of the thread that is the virtual CPU of that number."""
    return rf"(CPU {number}|ALL CPUs)/.*"


def runs_on(machine: Host) -> str:
    """What stands for its CPU."""
    return "KVM" if _has_kvm(machine) else "TCG, emulated"


def has_module(name: str, release: str | None = None) -> bool:
    """Whether there is such a module."""
    return guest.has_module(place(release) / _MODULES, name)


def is_configured(machine: Host, option: str, release: str | None = None) -> bool:
    """Whether the kernel was built with an option, or has it as a module; False where there is no kernel."""
    try:
        return any(
            line in (f"{option}=y", f"{option}=m") for line in machine.read(str(place(release) / "config")).splitlines()
        )
    except OSError:
        return False


def _has_kvm(machine: Host) -> bool:
    """Whether KVM runs CPUs that a 64-bit kernel can use: a nested one was seen to open, and to boot nothing.

    qemu(1), `enforce`: it ends with an error if a feature of that plain processor is missing.
    """
    if not machine.exists("/dev/kvm"):
        return False
    words = f"{PROGRAM} {' '.join(_BARE)} -S -machine pc -accel kvm -cpu kvm64,enforce -monitor stdio"
    try:
        machine.run(["sh", "-c", f"echo quit | {words}"], timeout_s=_PROBE_S)
    except (CommandFailed, RequirementError):
        return False
    return True
