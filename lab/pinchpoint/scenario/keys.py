"""Every key of a scenario file, once: parsing, errors and docs/scenario.md are driven by this table."""

from typing import Final

from pinchpoint.model.scenario import MeasureKind
from pinchpoint.scenario import kinds, sweep_keys
from pinchpoint.scenario.bench_keys import (
    ARP_RESPONDER,
    BRIDGE,
    BRIDGE_SERIES,
    DUT,
    ENGINE,
    HOST,
    PATCH,
    PORT,
    RULE_SERIES,
    TUNNEL,
)
from pinchpoint.scenario.key import Computed, Key, Table
from pinchpoint.scenario.measure_keys import BUILD, LATENCY, LOAD, SEARCH, SOCKETS, STREAM, VALIDITY
from pinchpoint.scenario.over_time_keys import BLOCKED, RECOVERY, SOAK
from pinchpoint.scenario.rfc2544_keys import BURST, LOSS_CURVE

TOP = Table(
    "",
    "",
    (
        Key("title", kinds.text(), "What the scenario shows, in a few words.", Computed("the file's name")),
        Key(
            "measure",
            kinds.word(*MeasureKind),
            '"rates": NDR and PDRs, then latency; "load": CPU load of the DUT at given rates; "bandwidth": TCP goodput '
            'between two hosts; "rr": requests over standing connections; "crr": a connection for each request; '
            '"build": time to make rules, ports or links; "soak": loss over a long time; "recovery": how long '
            'frames are lost after an overload; "blocked": how long forwarding stands still while the DUT is changed; '
            '"burst": the longest burst without loss; "loss_curve": frame loss rate against offered load.',
            "rates",
        ),
        Key(
            "numa",
            kinds.word("any", "same", "different"),
            'Where the two ends of the traffic run: "any": on the CPUs named here; "same": both on one NUMA node; '
            '"different": on two. Between hosts, the switch and the relay are on the server\'s node.',
            "any",
        ),
    ),
)

SINGLE: Final = (
    *(TOP, DUT, ENGINE, SEARCH, VALIDITY, LATENCY, LOAD, SOCKETS, BUILD),
    *(SOAK, RECOVERY, BLOCKED, BURST, LOSS_CURVE),
)
ARRAYS: Final = (RULE_SERIES, BRIDGE, BRIDGE_SERIES, PATCH, TUNNEL, ARP_RESPONDER, PORT, HOST, STREAM)
TABLES: Final = (
    TOP,
    DUT,
    RULE_SERIES,
    BRIDGE,
    BRIDGE_SERIES,
    PATCH,
    TUNNEL,
    ARP_RESPONDER,
    PORT,
    HOST,
    ENGINE,
    STREAM,
    SEARCH,
    VALIDITY,
    LATENCY,
    LOAD,
    SOCKETS,
    BUILD,
    SOAK,
    RECOVERY,
    BLOCKED,
    BURST,
    LOSS_CURVE,
    *sweep_keys.TABLES,
)
"""In the order of docs/scenario.md."""
