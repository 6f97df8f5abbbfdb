"""The tables of a configuration and of requests (models of Open Traffic Generator, openapi.yaml)."""

import re
from typing import Any, Final

from pinchpoint.otg.captures import LARGEST, MOST_FRAMES
from pinchpoint.otg.headers import HEADERS, TAGS
from pinchpoint.otg.patterns import IPV4, IPV6, MAC, bits, unused
from pinchpoint.otg.shape import (
    Choice,
    Ignored,
    Kind,
    Leaf,
    Many,
    Record,
    Refused,
    flag,
    one_of,
    only,
    real,
    whole,
    word,
)

MODEL: Final = "1.62.0"  # of the models and of snappi, against which the tables were written
MOST_FLOWS: Final = 256  # streams of a trial
LONGEST_S: Final = 86_400.0  # of a trial
PROTOCOLS: Final = Refused("devices have addresses, no protocols")
HEADER: Final = Refused(f"no such header; supported are {', '.join(HEADERS)}")
NAME: Final = word()


def _all(names: str, kind: Kind) -> dict[str, Kind]:
    """Fields of one kind; `names` are words."""
    return dict.fromkeys(names.split(), kind)


def _bytes(value: Any) -> str | None:
    return value if isinstance(value, str) and re.fullmatch("(?:[0-9A-Fa-f]{2})+", value) else None


CUSTOM: Final = Record(
    {
        "bytes": Leaf("hexadecimal digits of whole bytes", _bytes, "not sent, with a warning: payloads are zeros"),
        "metric_tags": TAGS,
    },
    ("bytes",),
)
PACKET: Final = Choice({
    **{name: header.kind for name, header in HEADERS.items()},
    "custom": CUSTOM,
    **_all("pfcpause ethernetpause gtpv1 gtpv2 ppp igmpv1 snmpv2c rsvp macsec lacp ipv6_extension_header "
           "cfm", HEADER),
}, "ethernet")  # fmt: skip
BYTES: Final = whole(64, 9022, "with check sequence")
SIZE: Final = Choice({
    "fixed": BYTES,
    "increment": Record({"start": BYTES, "end": BYTES, "step": whole(1, 9022)}, (),
                        {"start": 64, "end": 1518, "step": 1}),
    "random": Record({"min": BYTES, "max": BYTES}, (), {"min": 64, "max": 1518}),
    "weight_pairs": Choice({
        "predefined": only(("imix", "ipsec_imix"), "the others have frames of less than 64 bytes"),
        "custom": Many(Record({"size": BYTES, "weight": real(0.001, 65535)}, (), {"size": 64, "weight": 1.0}), 64),
    }, "predefined", {}, {"predefined": "imix"}),
}, "fixed", {}, {"fixed": 64})  # fmt: skip
RATE: Final = Choice({
    "pps": whole(1, 1_000_000_000), "bps": whole(672, 10**13, "at L1: with preamble and gap"),
    "kbps": whole(1, 10**10), "mbps": whole(1, 10**7), "gbps": whole(1, 10**4),
    "percentage": real(1e-6, 100.0, "of the port's speed, which must be known"),
}, "pps", {}, {"pps": 1000, "bps": 10**9, "kbps": 10**6, "mbps": 1000, "gbps": 1, "percentage": 100.0})  # fmt: skip
GAP: Final = only((12,), "frames are spaced by the rate")
_UNITS: Final = "bytes nanoseconds microseconds"
DELAY: Final = Choice(_all(_UNITS, Ignored("flows start together")), "bytes", {}, dict.fromkeys(_UNITS.split(), 0))
DURATION: Final = Choice({
    "fixed_packets": Record({"packets": whole(1, (1 << 32) - 1), "gap": GAP, "delay": DELAY}, (), {"packets": 1}),
    "fixed_seconds": Record({"seconds": real(0.001, LONGEST_S), "gap": GAP, "delay": DELAY}, (), {"seconds": 1.0}),
    "burst": Record({
        "bursts": whole(0, (1 << 32) - 1),
        "packets": whole(1, 1 << 20, "back to back, if inter_burst_gap is more than 12 bytes"),
        "gap": only((12,), "as on the wire"),
        "inter_burst_gap": Choice(_all(_UNITS, real(0, 1e12)), "bytes", {},
                                  {"bytes": 12.0, "nanoseconds": 96.0, "microseconds": 0.096}),
    }, (), {"bursts": 0, "packets": 1}),
    "continuous": Record({"gap": GAP, "delay": DELAY}),
}, "continuous")  # fmt: skip
METRICS: Final = Record({
    "enable": flag("frames carry a signature of 18 bytes at their end"),
    "loss": flag(),
    "rx_tx_ratio": Refused("a frame is expected once"),
    "timestamps": Ignored("the times of the first and the last frame are not kept"),
    "latency": Record({"enable": flag(), "mode": only(("store_forward", "cut_through"), "both are from just before "
                      "the burst is handed to the port to its reception")}),
    "predefined_metric_tags": Record({"rx_name": Ignored("frames are counted by flow, not by tags")}),
})  # fmt: skip
FLOW: Final = Record({
    "tx_rx": Choice({
        "port": Record({"tx_name": NAME, "rx_name": NAME, "rx_names": Many(NAME)}, ("tx_name",)),
        "device": Record({
            "mode": one_of(("mesh", "one_to_one")), "tx_names": Many(NAME, 1), "rx_names": Many(NAME, 1),
            "bidirectional": only((False,), "write a flow for each direction"),
        }, ("tx_names", "rx_names")),
    }, "port"),
    "packet": Many(PACKET, 16),
    "egress_packet": Refused("received frames are matched by the engine's signature"),
    "size": SIZE, "rate": RATE, "duration": DURATION, "metrics": METRICS, "name": NAME,
    "payload": Choice({
        "fixed": Record({"pattern": only(("00",), "payloads are zeros"), "repeat": flag()}),
        **_all("increment_byte decrement_byte increment_word decrement_word", Refused("payloads are zeros")),
    }, "fixed"),
}, ("name", "tx_rx"))  # fmt: skip
GATEWAY_MAC: Final = Choice({"auto": unused("that of a device here, or asked for by ARP"), "value": MAC}, "auto")


def _addresses(leaf: Leaf, prefix: int, longest: int) -> Many:
    fields: dict[str, Kind] = {"name": NAME, "address": leaf, "prefix": whole(1, longest)}
    fields |= {"gateway": leaf, "gateway_mac": GATEWAY_MAC}
    return Many(Record(fields, ("name", "address", "gateway"), {"prefix": prefix}))


VLAN: Final = Record({
    "name": NAME, "tpid": one_of(("x8100", "x88A8", "x9100", "x9200", "x9300")), "priority": bits(3), "id": bits(12),
}, ("name",), {"tpid": "x8100", "priority": 0, "id": 1})  # fmt: skip
ETHERNET: Final = Record({
    "name": NAME,
    "connection": Choice({
        "port_name": NAME, **_all("lag_name vxlan_name simulated_link", Refused("a device stands at a port")),
    }, None),
    "mac": MAC,
    "mtu": whole(64, 65535, "not used"),
    "vlans": Many(VLAN, 2),
    "ipv4_addresses": _addresses(IPV4, 24, 32),
    "ipv6_addresses": _addresses(IPV6, 64, 128),
    **_all("dhcpv4_interfaces dhcpv6_interfaces", PROTOCOLS),
}, ("name", "connection", "mac"))  # fmt: skip
DEVICE: Final = Record({
    "name": NAME,
    "ethernets": Many(ETHERNET),
    **_all("ipv4_loopbacks ipv6_loopbacks isis bgp vxlan rsvp dhcp_server ospfv2 macsec ospfv3 rocev2 bmp", PROTOCOLS),
}, ("name",))  # fmt: skip
AS_THEY_ARE: Final = "interfaces are used as they are"
SPEEDS: Final = {
    **{f"speed_{mbps}_{duplex}_mbps": mbps * 10**6 for mbps in (10, 100) for duplex in ("fd", "hd")},
    **{f"speed_{gbps}_gbps": gbps * 10**9 for gbps in (1, 10, 25, 40, 50, 100, 200, 400, 800)},
}
CAPTURE: Final = Record({
    "name": NAME, "port_names": Many(NAME), "filters": Ignored("all received frames are kept"),
    "overwrite": flag(f"not used: the first {MOST_FRAMES:,} received frames of a trial are kept, of all ports"),
    "packet_size": whole(1, LARGEST), "format": one_of(("pcap", "pcapng")),
}, ("name", "port_names"), {"format": "pcap", "packet_size": LARGEST})  # fmt: skip
PORT: Final = Record({"name": NAME, "location": word("a port that the command line allows")}, ("name", "location"))
CONFIG: Final = Record({
    "ports": Many(PORT),
    "devices": Many(DEVICE),
    "flows": Many(FLOW, MOST_FLOWS),
    "layer1": Many(Record({
        "name": NAME, "port_names": Many(NAME),
        "promiscuous": flag("not used: every frame is seen"), "mtu": whole(64, 14000, "not used"),
        "speed": one_of(tuple(SPEEDS), "that of a port that does not know its own"),
        **_all("media ieee_media_defaults auto_negotiate auto_negotiation flow_control", Ignored(AS_THEY_ARE)),
    })),
    "captures": Many(CAPTURE),
    "lags": Refused("no link aggregation"),
    "events": Refused("no events"),
    "options": Record({
        "port_options": Record({
            "location_preemption": flag("not used: ports are this server's alone"),
            "data_integrity": flag("not used: checksums are always verified"),
            "frame_ordering_mode": Ignored("order is always checked by sequence numbers"),
        }),
        "flow_options": Record({"packet_loss_duration": Ignored("it is not reported")}),
        "protocol_options": Record({"auto_start_all": flag("not used: there are no protocols")}),
        "per_port_options": PROTOCOLS,
    }),
    "lldp": PROTOCOLS,
    "stateful_flows": Refused("flows have no state"),
    "egress_only_tracking": Refused("received frames are matched by the engine's signature"),
})  # fmt: skip
_STATES: Final = ("start", "stop")
CONTROL: Final = Choice({
    "traffic": Choice({"flow_transmit": Record(
        {"state": only(_STATES, "a trial cannot be paused"), "flow_names": Many(NAME)}, ("state",)
    )}, None),
    "protocol": Choice({
        "all": Record({"state": one_of(_STATES, "changes nothing: there are no protocols")}, ("state",)),
        **_all("route lacp bgp isis ospfv2 ospfv3 rocev2", PROTOCOLS),
    }, None),
    "port": Choice({
        "link": Refused(AS_THEY_ARE),
        "capture": Record({"port_names": Many(NAME), "state": one_of(_STATES)}, ("state",)),
    }, None),
}, None)  # fmt: skip
CAPTURED: Final = Record({
    "port_name": NAME,
    "packets": Choice({"all": unused("every frame that was kept"), "slice": Refused("all are handed out")}, "all"),
}, ("port_name",))  # fmt: skip
PORT_COLUMNS: Final = (
    "bytes_rx", "bytes_rx_rate", "bytes_tx", "bytes_tx_rate", "frames_rx", "frames_rx_rate", "frames_tx",
    "frames_tx_rate", "link", "location", "speed", "transmit",
)  # fmt: skip
FLOW_COLUMNS: Final = (
    "bytes_rx", "bytes_tx", "frames_rx", "frames_rx_rate", "frames_tx", "frames_tx_rate", "rx_l1_rate_bps",
    "rx_rate_bps", "rx_rate_bytes", "rx_rate_kbps", "rx_rate_mbps", "transmit", "tx_l1_rate_bps", "tx_rate_bps",
    "tx_rate_bytes", "tx_rate_kbps", "tx_rate_mbps",
)  # fmt: skip
REQUEST: Final = Choice({
    "port": Record({"port_names": Many(NAME), "column_names": Many(one_of(PORT_COLUMNS))}),
    "flow": Record({
        "flow_names": Many(NAME), "metric_names": Many(one_of(FLOW_COLUMNS)),
        "tagged_metrics": Record({
            "include": flag("not used: nothing is tagged"), "include_empty_metrics": flag("not used"),
            "metric_names": Many(word("not used")), "filters": Refused("nothing is tagged"),
        }),
    }),
    **_all("bgpv4 bgpv6 isis lag lacp lldp rsvp dhcpv4_client dhcpv4_server dhcpv6_client dhcpv6_server ospfv2 "
           "convergence macsec mka ospfv3 rocev2_ipv4 rocev2_ipv6 rocev2_flow egress_only_tracking bmp_server",
           PROTOCOLS),
}, "port")  # fmt: skip
