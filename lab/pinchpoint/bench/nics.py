"""Taking a network card and giving it back: its driver, and the interface that the driver makes.

Sources: Documentation/ABI/testing/sysfs-bus-pci (driver_override, bind, unbind), Documentation/driver-api/vfio.rst.
"""

from contextlib import suppress

from pinchpoint.bench import resource as r
from pinchpoint.host.interface import NAMESPACES, CommandFailed, Host
from pinchpoint.host.interfaces import bring_home
from pinchpoint.host.nics import DEVICES, PCI, UNSAFE, VFIO, driver, has_device, interface_names, unsafe_mode
from pinchpoint.host.processes import end_marked, soon
from pinchpoint.model.errors import BenchError, RequirementError

SETTLE_S = 10.0  # for a driver to make its interface
RENAME_S = 2.0  # for udev(7) to give it its name


def do_without_iommu(resource: r.NoIommu, host: Host) -> None:
    """Raises RequirementError on a kernel that was built without that mode."""
    host.run(["modprobe", "vfio"])
    if not unsafe_mode(host):
        hint = "boot a kernel with CONFIG_VFIO_NOIOMMU, or with an IOMMU"
        raise RequirementError("vfio of this kernel cannot do without an IOMMU", hint)
    host.write(UNSAFE, "1")


def want_iommu_again(resource: r.NoIommu, host: Host) -> None:
    """As it was before; a module that was loaded for the bench stays, with its default."""
    if resource.before != "Y" and unsafe_mode(host) == "Y":
        host.write(UNSAFE, "0")


def take(resource: r.Nic, host: Host) -> None:
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


def give_back(resource: r.Nic, host: Host) -> None:
    """As it was found. Raises BenchError or OSError; a card that has been pulled out is no error."""
    end_marked(host, resource.bench_id)  # the kernel waits for ever for whoever has it open
    if not has_device(host, resource.address):
        return
    if resource.driver:
        _rebind(resource, host)
    elif resource.netns and host.exists(f"{NAMESPACES}/{resource.netns}"):
        _fetch(resource, host)
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


def _fetch(resource: r.Nic, host: Host) -> None:
    """Back from the namespace."""
    with suppress(CommandFailed):  # it never went, or is back
        bring_home(host, resource.netns, resource.interface, resource.interface)


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
