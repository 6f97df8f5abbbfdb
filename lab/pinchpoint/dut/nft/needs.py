"""What a machine must have for a namespace that routes."""

from collections.abc import Iterator

from pinchpoint.bench.requirements import Probe, command
from pinchpoint.dut import softirq
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Guest

_IPV4_TABLES = "CONFIG_NF_TABLES_IPV4"


def needs(host: Host, guest: Guest | None, has_rules: bool, balances: bool = False) -> Iterator[Probe]:
    """Its programs, receive packet steering, and nf_tables in the kernel on which it runs; a guest's only for rules."""
    yield command(host, "ip", "iproute2")
    yield command(host, "sysctl", "procps")
    if balances:
        yield command(host, "conntrack", "conntrack")
    yield softirq.steering(host, guest)
    yield (nft := command(host, "nft", "nftables"))
    if guest and has_rules:
        yield _nf_tables_of_guest(host, guest)
    elif nft.ok and not guest:
        yield _nf_tables(host)


def _nf_tables_of_guest(host: Host, guest: Guest) -> Probe:
    there = KERNELS[guest.kernel].is_configured(host, _IPV4_TABLES, guest.release)
    detail = "there" if there else f"the guest's kernel was built without {_IPV4_TABLES}"
    others = " or ".join(f'"{word}"' for word in KERNELS if word != guest.kernel)
    hint = f"leave out dut.rules, set guest.kernel = {others}, or run the device without a [guest]"
    return Probe("guest's kernel: nf_tables", there, detail, hint)


def _nf_tables(host: Host) -> Probe:
    name = "kernel: nf_tables"
    try:
        host.run(["nft", "list", "tables"])
    except (CommandFailed, RequirementError) as error:
        mend = "boot a kernel with CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4, CONFIG_NFT_NAT and CONFIG_NF_CONNTRACK"
        return Probe(name, False, error.message, f"{mend}, as apt-get install linux-image-amd64 provides")
    return Probe(name, True, "there")
