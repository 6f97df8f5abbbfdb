"""The scenario keys of the kind `nft`."""

from ipaddress import IPv4Network
from typing import Any, Final

from pinchpoint.dut import softirq
from pinchpoint.dut.device import Keys
from pinchpoint.dut.services import Option, Reconfiguration, Services
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.kinds import Kind, MismatchError
from pinchpoint.model.scenario import NAT, Family, Scheduler


def _prefix() -> Kind:
    """A key's kind: an IPv4 prefix without host bits, as text."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise MismatchError
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
        Key(
            "rules",
            kinds.lines(),
            "What `nft -f` loads: tables, chains, rules, as in nft(8). `{left}` stands for the interface of the port "
            "left, in quotes. What rules drop is accounted for by their named counters whose names begin with drop. "
            "The limit of tracked connections is the host's (net.netfilter.nf_conntrack_max): it is recorded.",
            "",
        ),
        Key(
            "syn_proxy",
            kinds.boolean(),
            "With a [service]: the kernel answers SYNs itself, by cookies, and opens a connection to a backend once "
            "the client has completed the handshake (nft(8), SYNPROXY STATEMENT).",
            False,
        ),
    ),
    arrays=(
        Table(
            "route",
            "Addresses behind a port, those that rules translate to among them. Without any, each stream's "
            "destinations are behind its receiving port.",
            (
                Key("to", _prefix(), "Where to."),
                Key("port", kinds.port_name(), "The port that leads there."),
            ),
            at_most=1024,
        ),
    ),
    services=Services(
        tuple(Scheduler), NAT, _OPTIONS, changes=tuple(Reconfiguration), families=(Family.IPV4, Family.IPV6)
    ),
)
