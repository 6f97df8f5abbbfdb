"""Carries single actions out on a host. Every removal is idempotent and takes only what is the bench's.

A network card is taken and given back with its driver, and the interface that the driver makes. Sources:
Documentation/ABI/testing/sysfs-bus-pci (driver_override, bind, unbind), Documentation/driver-api/vfio.rst.
"""

import re
import signal
import time
from contextlib import suppress
from functools import singledispatch
from pathlib import Path

from pinchpoint.bench import resource as r
from pinchpoint.host import hugepages, interfaces, numa
from pinchpoint.host.guest import Guest
from pinchpoint.host.interface import NAMESPACES, PROC, CommandFailed, Host, names_in, prefix
from pinchpoint.host.netlink import Links
from pinchpoint.host.nics import DEVICES, PCI, UNSAFE, VFIO, driver, has_device, interface_names, unsafe_mode
from pinchpoint.host.priority import session_as_new, share_priority
from pinchpoint.host.processes import ENVIRONMENT_MARK, children, end_marked, end_processes, is_marked, soon
from pinchpoint.model.addresses import expand_template
from pinchpoint.model.errors import BenchError, DutError, RequirementError

SETTLE_S = 10.0  # for a driver to make its interface
RENAME_S = 2.0  # for udev(7) to give it its name
_READY = b"ready"  # the first line of a relay's account
_BY_THEMSELVES = (r.MarkedProcesses, r.TapLinks)  # processes are marked as they start; the switch makes its taps
# Links go with a namespace, a file with the run directory, a command's effect with what it changed; time stays.
_WITH_ANOTHER = (r.Veth, r.Tap, r.TextFile, r.Command, r.Uptime)


@singledispatch
def create(resource: r.Resource, host: Host) -> None:
    """Create `resource` on `host`. Raises BenchError, RequirementError or OSError."""
    if not isinstance(resource, _BY_THEMSELVES):
        raise NotImplementedError(type(resource).__name__)


@singledispatch
def remove(resource: r.Resource, host: Host) -> None:
    """Remove `resource` from `host`; nothing if it is gone. Raises BenchError, RequirementError or OSError."""
    if not isinstance(resource, _WITH_ANOTHER):
        raise NotImplementedError(type(resource).__name__)


@create.register
def _(resource: r.RunDirectory, host: Host) -> None:
    host.make_folder(resource.path)


@remove.register
def _(resource: r.RunDirectory, host: Host) -> None:
    host.remove_folder(resource.path)


@remove.register
def _(resource: r.MarkedProcesses, host: Host) -> None:
    end_marked(host, resource.bench_id)


@create.register
def _(resource: r.Hugepages, host: Host) -> None:
    got = hugepages.resize(host, resource.after)
    if got < resource.after:
        wanted = f"{resource.after - resource.before} hugepages of 2 MiB"
        hint = f"free memory, or reserve them at boot: hugepages={resource.after} on the kernel command line"
        raise RequirementError(f"the kernel reserved {got - resource.before} of {wanted}", hint)
    hugepages.wait_for(host, resource.needed or resource.after - resource.before, "the bench")


@remove.register
def _(resource: r.Hugepages, host: Host) -> None:
    hugepages.give_back(host, resource.before, resource.after)


@create.register
def _(resource: r.Namespace, host: Host) -> None:
    host.run(["ip", "netns", "add", resource.name])
    host.run(["ip", "-n", resource.name, "link", "set", "lo", "up"])
    # -e: a kernel without IPv6 has nothing to turn off.
    off = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    host.run(["sysctl", "-e", "-qw", *off], resource.name)


@remove.register
def _(resource: r.Namespace, host: Host) -> None:
    if host.exists(f"{NAMESPACES}/{resource.name}"):
        host.run(["ip", "netns", "del", resource.name])


def named_after(bench_id: str, state_directory: Path, host: Host) -> list[r.AnyResource]:
    """What bears the bench's name on the host, in order of dependency: what any version of this program makes."""
    names = [name for name in names_in(host, NAMESPACES) if name.startswith(f"pp-{bench_id}-")]
    folders = [r.RunDirectory(str(state_directory / bench_id))]
    if host.exists((copies := r.folder_of_copies(bench_id)).path):
        folders.append(copies)
    return [*folders, *map(r.Namespace, names), r.MarkedProcesses(bench_id)]


@create.register
def _(resource: r.Veth, host: Host) -> None:
    host.run(resource.describe().split())
    for netns, name in ((resource.netns, resource.name), (resource.peer_netns, resource.peer)):
        host.run(["ip", "-n", netns, "link", "set", "dev", name, "up"])


@create.register
def _(resource: r.LentInterface, host: Host) -> None:
    interfaces.lend(host, resource.interface, resource.netns, resource.name, resource.mtu)
    if resource.stamped_before:
        interfaces.stamp(host, resource.name, interfaces.STAMP_ALL, resource.netns)


@remove.register
def _(resource: r.LentInterface, host: Host) -> None:
    before = (resource.mtu_before, resource.was_up, resource.addresses, resource.steering)
    others = (resource.mac, resource.was_promiscuous, resource.offloads, resource.stamped_before)
    state = interfaces.State(*before, *others)
    interfaces.give_back(host, resource.interface, resource.netns, resource.name, state)


@create.register
def _(resource: r.Host, host: Host) -> None:
    create(r.Namespace(resource.netns), host)
    create(r.Veth(resource.peer, resource.peer_netns, resource.INTERFACE, resource.netns, resource.mtu), host)
    host.run(["ip", "-n", resource.netns, "address", "add", resource.address, "dev", resource.INTERFACE])
    if not resource.offloads:
        host.run(["ethtool", "-K", resource.INTERFACE, "tx", "off", "tso", "off"], resource.netns)


@remove.register
def _(resource: r.Host, host: Host) -> None:
    remove(r.Namespace(resource.netns), host)


@create.register
def _(resource: r.TextFile, host: Host) -> None:
    series = (line for template, count, first in resource.series for line in expand_template(template, count, first))
    host.write(resource.path, "".join(f"{line}\n" for line in (*resource.lines, *series)))


@create.register
def _(resource: r.Command, host: Host) -> None:
    host.run(resource.argv, resource.netns, resource.environment, timeout_s=resource.timeout_s)


@remove.register
def _(resource: r.TapLinks, host: Host) -> None:
    if host.name:
        return  # netlink(7) reaches this machine's namespaces; there the kernel removes each as the switch ends
    if host.exists(f"{NAMESPACES}/{resource.netns}"):
        with Links(resource.netns) as links:
            links.remove_kind("tun")


@create.register
def _(resource: r.Tap, host: Host) -> None:
    host.run(["ip", "-n", resource.netns, "tuntap", "add", "dev", resource.name, "mode", "tap"])
    host.run(["ip", "-n", resource.netns, "link", "set", "dev", resource.name, "mtu", str(resource.mtu), "up"])


@create.register
def _(resource: r.Uptime, host: Host) -> None:
    while (left := resource.seconds - float(host.read(f"{PROC}/uptime").split()[0])) > 0:
        time.sleep(left)


@create.register
def _(resource: r.GuestKernel, host: Host) -> None:
    """`host` is the guest: who starts it has the only line to it."""
    assert isinstance(host, Guest)
    machine = host.machine
    argv = [*prefix(resource.netns, resource.cpus), *resource.argv]
    pid = host.start(argv, ((ENVIRONMENT_MARK, resource.bench_id),), resource.log)
    machine.write(resource.pidfile, str(pid))
    host.await_ready(lambda: _has_ended(machine, pid), resource.BOOT_TIMEOUT_S)
    for kernel in children(machine, pid):
        machine.write(resource.kernel_pidfile, str(kernel))
        _keep(resource, machine, kernel)


def _keep(resource: r.GuestKernel, machine: Host, kernel: int) -> None:
    """Each of the threads that have a CPU of their own to it. Raises BenchError where there is no such thread."""
    tasks = f"{PROC}/{kernel}/task"
    names = {}
    for task in machine.names(tasks) if resource.threads else ():
        with suppress(OSError):  # of a thread that has ended meanwhile
            names[task] = machine.read(f"{tasks}/{task}/comm").strip()
    for wanted, cpu in resource.threads:
        task_ids = [task for task, name in names.items() if re.fullmatch(wanted, name)]
        if not task_ids:
            raise BenchError(f"the guest's process has no thread {wanted}; it has {', '.join(sorted(names.values()))}")
        for task in task_ids:
            machine.run(["taskset", "-p", "-c", str(cpu), task])


def _has_ended(machine: Host, pid: int) -> bool:
    """Whether a guest has; one that boots has begun a session of its own, which gets this process's priority."""
    for kernel in children(machine, pid):
        share_priority(machine, kernel)
    return machine.ended(pid)


@remove.register
def _(resource: r.GuestKernel, host: Host) -> None:
    """What it holds needs no farewell. `host` is the guest, or its machine where nobody has the line to it."""
    machine = host
    if isinstance(host, Guest):
        machine = host.machine
        host.close()
    _end_named(resource, machine)


@create.register
def _(resource: r.Inside, host: Host) -> None:
    create(resource.resource, host)


@remove.register
def _(resource: r.Inside, host: Host) -> None:
    """Of a guest that goes, nothing has to be removed: this machine never had it."""
    if isinstance(host, Guest):
        remove(resource.resource, host)


@create.register
def _(resource: r.Daemon, host: Host) -> None:
    environment = (*resource.environment, (ENVIRONMENT_MARK, resource.bench_id))
    try:
        with numa.memory_on(resource.memory_nodes, host), session_as_new():
            host.run(resource.argv, resource.netns, environment, resource.cpus)
    except CommandFailed as error:
        raise BenchError(f"{resource.name} did not start: {error.output}\n{_tail(resource.log, host)}") from error
    share_priority(host, daemon_pid(resource, host))


@create.register
def _(resource: r.Relay, host: Host) -> None:
    environment = (*resource.environment, (ENVIRONMENT_MARK, resource.bench_id))
    argv = ["taskset", "-c", str(resource.cpu), *resource.argv]
    pid = host.spawn(argv, environment, resource.account, resource.log)
    host.write(resource.pidfile, str(pid))
    share_priority(host, pid)
    deadline = time.monotonic() + len(resource.directions) * resource.LINK_TIMEOUT_S
    while resource.awaited and _READY + b"\n" not in host.read_bytes(resource.account):
        if host.ended(pid):
            raise BenchError(f"{resource.name} did not start\n{_tail(resource.log, host)}")
        if time.monotonic() > deadline:
            told = f"{resource.name}: not every link came up; the switch may lack a port"
            raise BenchError(f"{told}\n{_tail(resource.log, host)}")
        time.sleep(0.01)


@remove.register
def _(resource: r.Daemon | r.Relay, host: Host) -> None:
    _end_named(resource, host)


def ask_relay(resource: r.Relay, host: Host, timeout_s: float = 2.0) -> str:
    """The account that a running relay prints now, a line of JSON. Raises DutError if it prints none."""
    pid = daemon_pid(resource, host)
    read = host.size(resource.account)
    if host.signal([pid], signal.SIGUSR1):  # it ended between being found and being asked
        raise _gone(resource, host)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        runs = _named_pid(resource, host) is not None  # before its account is read: it may print it and end
        told = host.read_bytes(resource.account, read)
        line = told.rpartition(b"\n")[0].rpartition(b"\n")[2]  # what follows the last end is not yet complete
        if line and line != _READY:  # it may become ready only now
            return line.decode(errors="replace")
        if not runs:  # it was about to end when it was asked
            raise _gone(resource, host)
        time.sleep(0.002)
    raise DutError(f"{resource.name} printed no account within {timeout_s:g} s\n{_tail(resource.log, host)}")


def daemon_pid(resource: r.Daemon | r.Relay, host: Host) -> int:
    """The process of a daemon that runs. Raises DutError if it does not."""
    pid = _named_pid(resource, host)
    if pid is None:
        raise _gone(resource, host)
    return pid


def _gone(resource: r.Daemon | r.Relay, host: Host) -> DutError:
    return DutError(f"{resource.name} is gone; the end of its log:\n{_tail(resource.log, host)}")


def _named_pid(resource: r.Daemon | r.Relay | r.GuestKernel, host: Host) -> int | None:
    """The process that the pid file names, if it carries the bench's mark."""
    try:
        pid = int(host.read(resource.pidfile))
    except (OSError, ValueError):
        return None  # never started, or gone; a nameless survivor falls to MarkedProcesses
    return pid if is_marked(host, pid, resource.bench_id) else None


def _end_named(resource: r.Daemon | r.Relay | r.GuestKernel, host: Host) -> None:
    if (pid := _named_pid(resource, host)) is not None:
        end_processes(host, [pid], resource.GRACE_S)
        host.ended(pid)  # so that nothing is left of one that `spawn` started


def _tail(log: str, host: Host) -> str:
    try:
        return "\n".join(f"  | {line}" for line in host.read(log).splitlines()[-12:])
    except OSError:
        return f"  (no log at {log})"


@create.register
def _(resource: r.NoIommu, host: Host) -> None:
    """Raises RequirementError on a kernel that was built without that mode."""
    host.run(["modprobe", "vfio"])
    if not unsafe_mode(host):
        hint = "boot a kernel with CONFIG_VFIO_NOIOMMU, or with an IOMMU"
        raise RequirementError("vfio of this kernel cannot do without an IOMMU", hint)
    host.write(UNSAFE, "1")


@remove.register
def _(resource: r.NoIommu, host: Host) -> None:
    """As it was before; a module that was loaded for the bench stays, with its default."""
    if resource.before != "Y" and unsafe_mode(host) == "Y":
        host.write(UNSAFE, "0")


@create.register
def _(resource: r.Nic, host: Host) -> None:
    """Bind its driver, or move its interface. Raises BenchError if another driver is bound in the end."""
    if not resource.driver:
        if resource.netns:
            host.run(["ip", "link", "set", "dev", resource.interface, "netns", resource.netns])
        return
    if driver(host, resource.address) == resource.driver:
        return
    if not host.exists(f"{PCI}/drivers/{resource.driver}"):
        host.run(["modprobe", resource.driver])
    _write(host, f"{DEVICES}/{resource.address}/driver_override", resource.driver)
    _unbind(resource.address, host)
    _write(host, f"{PCI}/drivers_probe", resource.address)
    if (driver_now := driver(host, resource.address)) != resource.driver:
        hint = "dmesg says why"
        if resource.driver == VFIO:
            hint = "dmesg says why; without an IOMMU, port.no_iommu = true lets vfio take the card all the same"
        raise BenchError(f"{resource.address}: asked for driver {resource.driver}, found {driver_now or 'none'}", hint)


@remove.register
def _(resource: r.Nic, host: Host) -> None:
    """As it was found. Raises BenchError or OSError; a card that has been pulled out is no error."""
    end_marked(host, resource.bench_id)  # the kernel waits for ever for whoever has it open
    if not has_device(host, resource.address):
        return
    if resource.driver:
        _rebind(resource, host)
    elif resource.netns and host.exists(f"{NAMESPACES}/{resource.netns}"):
        with suppress(CommandFailed):  # it never went, or is back
            interfaces.bring_home(host, resource.netns, resource.interface, resource.interface)
    if resource.interface:
        _restore(resource, host)


def _rebind(resource: r.Nic, host: Host) -> None:
    _write(host, f"{DEVICES}/{resource.address}/driver_override", resource.override_before or "\n")
    if driver(host, resource.address) == resource.driver_before:
        return
    _unbind(resource.address, host)
    if not resource.driver_before:
        return
    place = f"{PCI}/drivers/{resource.driver_before}"
    if not host.exists(place):
        with suppress(CommandFailed):  # the next error names what is missing
            host.run(["modprobe", resource.driver_before])
    _write(host, f"{place}/bind", resource.address)


def _restore(resource: r.Nic, host: Host) -> None:
    """The interface's name and settings; addresses and routes that it has already stay as they are."""
    if not soon(lambda: bool(interface_names(host, resource.address)), SETTLE_S, 0.05):
        told = f"{resource.driver_before} made no interface within {SETTLE_S:g} s; it was {resource.interface}"
        raise BenchError(f"{resource.address}: {told}", "dmesg says why")
    name = resource.interface
    if not soon(lambda: name in interface_names(host, resource.address), RENAME_S, 0.05):
        now = interface_names(host, resource.address)[0]
        host.run(["ip", "link", "set", "dev", now, "down"])
        host.run(["ip", "link", "set", "dev", now, "name", name])
    host.run(["ip", "link", "set", "dev", name, "mtu", str(resource.mtu)])
    host.run(["ip", "link", "set", "dev", name, "up" if resource.is_up else "down"])
    for address in resource.addresses:
        host.run(["ip", "address", "replace", *address.split(), "dev", name])
    # A gateway may be reached by a route that comes later in the list.
    left = [route for route in resource.routes if not _routed(route, name, host)]
    if lost := [route for route in left if not _routed(route, name, host)]:
        told = f"{name}: not restored: {'; '.join(lost)}"
        raise BenchError(told, f"add what is missing by hand: ip route replace ... dev {name}")


def _routed(route: str, name: str, host: Host) -> bool:
    family, *words = route.split()
    try:
        host.run(["ip", family, "route", "replace", *words, "dev", name])
    except CommandFailed:
        return False
    return True


def _unbind(address: str, host: Host) -> None:
    if driver(host, address):
        _write(host, f"{DEVICES}/{address}/driver/unbind", address)


def _write(host: Host, path: str, text: str) -> None:
    try:
        host.write(path, text)
    except OSError as error:
        raise BenchError(f"{path}: {text.strip() or 'empty'}: {error.strerror or error}", "dmesg says why") from error
