"""What a scenario says of the measure `verify`.

Whether a balancer does what its service says.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.model.limits import Wanted


@dataclass(frozen=True)
class Verify:
    """How many connections are looked at, and how fast they are opened."""

    kind: ClassVar[str] = "verify"
    connections: int
    rate_cps: float
    requests: int
    timeout_s: float
    hold_s: float
    programs: bool = False  # real ones, too


VERIFY: Final = Table("verify",
    "Connections that are opened one by one, each with requests that say which backend answered, from which address it "
    "was reached, and what arrived there.", (
    Key("connections", kinds.integer(1, 1_000_000), "How many.", 300),
    Key("rate_cps", kinds.number(1, 100_000), "Connections per second.", 200.0),
    Key("requests", kinds.integer(1, 100), "Requests of each, which one backend has to answer.", 2),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that takes longer has failed, seconds.", 2.0),
    Key("hold_s", kinds.number(0, 60),
        "How long each stays open between its first request and its second, so that backends tell whether two open "
        "ones come from the same address and port, seconds.", 0.5),
    Key("programs", kinds.boolean(),
        "Whether the same is done once more with real programs: an HTTP server for each backend and `curl` as the "
        "client, each in a namespace; what the client got and what the servers' logs saw. Needs a device whose ports "
        "are interfaces of a kernel.", False),
), measures=("verify",))  # fmt: skip


def wanted(values: Values) -> Wanted | None:
    """The connections, none of which may find its pool exhausted; None where a key is wrong."""
    cps, connections = values.get("rate_cps"), values.get("connections")
    return None if cps is None or connections is None else Wanted(cps, connections)
