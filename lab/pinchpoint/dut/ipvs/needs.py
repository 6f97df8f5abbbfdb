"""What a machine must have for IPVS."""

from collections.abc import Iterator

from pinchpoint.bench.requirements import Probe, command, kernel_module
from pinchpoint.dut import softirq
from pinchpoint.dut.ipvs.balancing import MODULES, is_full, restore
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.interface import Host
from pinchpoint.model.scenario import Family, Guest, Mode, Scheduler, Service

_PROGRAMS = {"ip": "iproute2", "sysctl": "procps", "ipvsadm": "ipvsadm", "conntrack": "conntrack", "wc": "coreutils"}
_SOURCE_NAT = ("xt_ipvs", "xt_nat", "xt_statistic")
_TABLE = {Family.IPV4: "iptable_nat", Family.IPV6: "ip6table_nat"}


def needs(host: Host, service: Service | None, guest: Guest | None) -> Iterator[Probe]:
    """Its programs, and a kernel with IPVS, its schedulers and, for full-NAT, source NAT of what that sends."""
    family = service.family if service else Family.IPV4
    yield from (command(host, name, package) for name, package in _PROGRAMS.items())
    if service is None or is_full(service):
        yield command(host, restore(family), "iptables")
    yield softirq.steering(host, guest)
    schedulers = [service.scheduler] if service else list(Scheduler)
    for name in ("ip_vs", *(MODULES[scheduler] for scheduler in schedulers)):
        yield kernel_module(host, name, _other_kernels(name, guest), guest)
    if service is None or is_full(service):
        # A host's own may be built in; what fails then says so.
        for name in (*_SOURCE_NAT, _TABLE[family]) if guest else _SOURCE_NAT[:1]:
            yield kernel_module(host, name, f'{_other_kernels(name, guest)}, or service.mode = "{Mode.DNAT}"', guest)


def _other_kernels(module: str, guest: Guest | None) -> str:
    """Which guest's kernel has it, as what to set."""
    others = [word for word in KERNELS if not (guest and guest.kernel == word)]
    there = [word for word in others if KERNELS[word].has_module(module)] or others
    return "set guest.kernel = " + " or ".join(f'"{word}"' for word in there)
