"""The scenario keys of the kind `nft`, and what a machine must have for it."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any, Final

from pinchpoint.bench.requirements import Probe, command
from pinchpoint.dut import softirq
from pinchpoint.dut.device import Keys, programs
from pinchpoint.dut.services import Option, Reconfiguration, Services
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.kinds import Kind, MismatchError
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import NAT, Family, Guest, Scheduler

_IPV4_TABLES = "CONFIG_NF_TABLES_IPV4"


def _prefix() -> Kind:
    """A key's kind: an IPv4 prefix without host bits, as text."""

    def read(value: Any) -> str:
        kinds.check(isinstance(value, str))
        try:
            return str(IPv4Network(value))
        except ValueError:
            raise MismatchError from None

    return Kind('an IPv4 prefix like "10.0.0.0/24"', read)


_OPTIONS = (Option.LOCAL_PORTS, Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S)
KEYS: Final = Keys(
    cabled=lambda _: True,
    dut=(
        softirq.CPUS,
        Key("rules", kinds.lines(),
            "What `nft -f` loads: tables, chains, rules, as in nft(8). `{left}` stands for the interface of the port "
            "left, in quotes. What rules drop is accounted for by their named counters whose names begin with drop. "
            "The limit of tracked connections is the host's (net.netfilter.nf_conntrack_max): it is recorded.", ""),
        Key("syn_proxy", kinds.boolean(),
            "With a [service]: the kernel answers SYNs itself, by cookies, and opens a connection to a backend once "
            "the client has completed the handshake (nft(8), SYNPROXY STATEMENT).", False),
    ),
    arrays=(
        Table("route",
            "Addresses behind a port, those that rules translate to among them. Without any, each stream's "
            "destinations are behind its receiving port.",
            (Key("to", _prefix(), "Where to."), Key("port", kinds.port_name(), "The port that leads there.")),
            at_most=1024),
    ),
    services=Services(tuple(Scheduler), NAT, _OPTIONS, changes=tuple(Reconfiguration),
        families=(Family.IPV4, Family.IPV6)),
)  # fmt: skip


def needs(host: Host, guest: Guest | None, has_rules: bool, balances: bool = False) -> Iterator[Probe]:
    """Its programs, receive packet steering, and nf_tables in the kernel on which it runs; a guest's only for rules."""
    balancing = {"conntrack": "conntrack"} if balances else {}
    yield from programs(host, {"ip": "iproute2", "sysctl": "procps", **balancing})
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
