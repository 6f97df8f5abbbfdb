"""The tables of a configuration and of requests (models of Open Traffic Generator, openapi.yaml)."""

from collections.abc import Mapping
from typing import Final

from pinchpoint.otg.patterns import CHECKSUM, IPV4, IPV6, MAC, TAGS, always, bits, constant, filled_in, varying
from pinchpoint.otg.shape import Choice, Kind, Leaf, Many, Only, Record, Refused, flag, one_of, real, whole, word

MODEL: Final = "1.62.0"  # of the models and of snappi, against which the tables were written
MOST_FLOWS: Final = 256  # streams of a trial
LONGEST_S: Final = 86_400.0  # of a trial
PROTOCOLS: Final = Refused("devices have addresses, no protocols")
HEADER: Final = Refused("no such header; supported are ethernet, vlan, ipv4, ipv6, udp, tcp, icmp and icmpv6")
NAME: Final = word()
_BIT: Final = constant(Only((0, 1), "one bit"))


def _address(leaf: Leaf, *, random: bool) -> Choice:
    return Choice(
        {**varying(leaf, random=random, top=(1 << 32) - 1).options, "auto": Refused("no DHCP")},
        "value",
        {"metric_tags": TAGS},
    )


def _names(*names: str, kind: Kind) -> dict[str, Kind]:
    return dict.fromkeys(names, kind)


ETHERNET: Final = Record({
    "dst": varying(MAC, auto=True),
    "src": varying(MAC),
    "ether_type": constant(bits(16), auto=True),
    "pfc_queue": always(0, "priority flow control is not sent"),
})  # fmt: skip
VLAN: Final = Record({
    "priority": varying(bits(3)), "cfi": _BIT, "id": varying(bits(12), default=0), "tpid": constant(bits(16)),
})  # fmt: skip
PRIORITY: Final = Choice(
    {
        "raw": constant(bits(8)),
        "tos": Refused("write dscp or raw"),
        "dscp": Record({"phb": varying(bits(6)), "ecn": constant(bits(2))}),
    },
    "dscp",
)
IP4: Final = Record({
    "version": always(4, "the header is that of IPv4"),
    "header_length": filled_in(),
    "priority": PRIORITY,
    "total_length": filled_in(),
    "identification": varying(bits(16)),
    "reserved": always(0, "the bit is reserved"),
    "dont_fragment": _BIT,
    "more_fragments": always(0, "no fragments are sent"),
    "fragment_offset": always(0, "no fragments are sent"),
    "time_to_live": varying(bits(8), default=64),
    "protocol": constant(bits(8), auto=True),
    "header_checksum": CHECKSUM,
    "src": _address(IPV4, random=True),
    "dst": _address(IPV4, random=True),
    "options": Refused("no options"),
})  # fmt: skip
IP6: Final = Record({
    "version": always(6, "the header is that of IPv6"),
    "traffic_class": varying(bits(8)),
    "flow_label": varying(bits(20), random=True, top=(1 << 20) - 1),
    "payload_length": filled_in(),
    "next_header": constant(bits(8), auto=True),
    "hop_limit": varying(bits(8), default=64),
    "src": _address(IPV6, random=False),
    "dst": _address(IPV6, random=False),
    "dst_usids": Refused("no segment routing"),
})  # fmt: skip
_PORT: Final = varying(bits(16), random=True)
UDP: Final = Record({
    "src_port": _PORT, "dst_port": _PORT, "length": filled_in(auto=False), "checksum": CHECKSUM,
})  # fmt: skip
TCP_FLAGS: Final[Mapping[str, str]] = {
    "ecn_cwr": "cwr", "ecn_echo": "ece", "ctl_urg": "urg", "ctl_ack": "ack", "ctl_psh": "psh", "ctl_rst": "rst",
    "ctl_syn": "syn", "ctl_fin": "fin",
}  # fmt: skip
TCP: Final = Record({
    "src_port": _PORT, "dst_port": _PORT,
    "seq_num": varying(bits(32)), "ack_num": varying(bits(32)),
    "data_offset": filled_in(auto=False),
    "ecn_ns": always(0, "the bit is obsolete (RFC 8311)"),
    **dict.fromkeys(TCP_FLAGS, _BIT),
    "window": constant(bits(16)),
    "checksum": CHECKSUM,
})  # fmt: skip


def _echo() -> Choice:
    echo = Record({
        "type": constant(bits(8)), "code": constant(bits(8)), "identifier": varying(bits(16)),
        "sequence_number": varying(bits(16)), "checksum": CHECKSUM,
    })  # fmt: skip
    return Choice({"echo": echo}, "echo")


PACKET: Final = Choice(
    {
        "ethernet": ETHERNET, "vlan": VLAN, "ipv4": IP4, "ipv6": IP6, "udp": UDP, "tcp": TCP,
        "icmp": _echo(), "icmpv6": _echo(),
        **_names("custom", "vxlan", "pfcpause", "ethernetpause", "gre", "gtpv1", "gtpv2", "arp", "ppp", "igmpv1",
                 "mpls",
                 "snmpv2c", "rsvp", "macsec", "lacp", "ipv6_extension_header", "cfm", kind=HEADER),
    },
    "ethernet",
)  # fmt: skip
BYTES: Final = whole(64, 9022, "with check sequence")
SIZE: Final = Choice(
    {
        "fixed": BYTES,
        "increment": Record(
            {"start": BYTES, "end": BYTES, "step": whole(1, 9022)}, (), {"start": 64, "end": 1518, "step": 1}
        ),
        "random": Record({"min": BYTES, "max": BYTES}, (), {"min": 64, "max": 1518}),
        "weight_pairs": Choice(
            {
                "predefined": Only(("imix", "ipsec_imix"), "the others have frames of less than 64 bytes"),
                "custom": Many(
                    Record({"size": BYTES, "weight": real(0.001, 65535)}, (), {"size": 64, "weight": 1.0}), 64
                ),
            },
            "predefined", {}, {"predefined": "imix"},
        ),
    },
    "fixed", {}, {"fixed": 64},
)  # fmt: skip
RATE: Final = Choice(
    {
        "pps": whole(1, 1_000_000_000), "bps": whole(672, 10**13, "at L1: with preamble and gap"),
        "kbps": whole(1, 10**10), "mbps": whole(1, 10**7), "gbps": whole(1, 10**4),
        "percentage": real(1e-6, 100.0, "of the port's speed, which must be known"),
    },
    "pps", {}, {"pps": 1000, "bps": 10**9, "kbps": 10**6, "mbps": 1000, "gbps": 1, "percentage": 100.0},
)  # fmt: skip
GAP: Final = Only((12,), "frames are spaced by the rate")
_NO_DELAY: Final = Only((0,), "flows start together")
DELAY: Final = Choice(
    _names("bytes", "nanoseconds", "microseconds", kind=_NO_DELAY), "bytes", {},
    {"bytes": 0, "nanoseconds": 0, "microseconds": 0},
)  # fmt: skip
DURATION: Final = Choice(
    {
        "fixed_packets": Record({"packets": whole(1, (1 << 32) - 1), "gap": GAP, "delay": DELAY}, (), {"packets": 1}),
        "fixed_seconds": Record({"seconds": real(0.001, LONGEST_S), "gap": GAP, "delay": DELAY}, (), {"seconds": 1.0}),
        "burst": Record(
            {
                "bursts": whole(0, (1 << 32) - 1),
                "packets": whole(1, 1 << 20, "back to back; with rate.percentage 100 only"),
                "gap": GAP,
                "inter_burst_gap": Choice(
                    _names("bytes", "nanoseconds", "microseconds", kind=real(0, 1e12)), "bytes", {},
                    {"bytes": 12.0, "nanoseconds": 96.0, "microseconds": 0.096},
                ),
            },
            (), {"bursts": 0, "packets": 1},
        ),
        "continuous": Record({"gap": GAP, "delay": DELAY}),
    },
    "continuous",
)  # fmt: skip
METRICS: Final = Record({
    "enable": flag("frames carry a signature of 18 bytes at their end"),
    "loss": flag(),
    "rx_tx_ratio": Refused("a frame is expected once"),
    "timestamps": Only((False,), "the times of the first and the last frame are not kept"),
    "latency": Record({"enable": flag(), "mode": Only(("store_forward", "cut_through"), "both are from just before "
                      "the burst is handed to the port to its reception")}),
    "predefined_metric_tags": Record({"rx_name": Only((False,), "frames are counted by flow, not by tags")}),
})  # fmt: skip
FLOW: Final = Record(
    {
        "tx_rx": Choice(
            {
                "port": Record({"tx_name": NAME, "rx_name": NAME, "rx_names": Many(NAME)}, ("tx_name",)),
                "device": Record(
                    {
                        "mode": one_of(("mesh", "one_to_one")),
                        "tx_names": Many(NAME, 1), "rx_names": Many(NAME, 1),
                        "bidirectional": Only((False,), "write a flow for each direction"),
                    },
                    ("tx_names", "rx_names"),
                ),
            },
            "port",
        ),
        "packet": Many(PACKET, 16),
        "egress_packet": Refused("received frames are matched by the engine's signature"),
        "size": SIZE, "rate": RATE, "duration": DURATION, "metrics": METRICS, "name": NAME,
        "payload": Choice(
            {
                "fixed": Record({"pattern": Only(("00",), "payloads are zeros"), "repeat": flag()}),
                **_names("increment_byte", "decrement_byte", "increment_word", "decrement_word",
                         kind=Refused("payloads are zeros")),
            },
            "fixed",
        ),
    },
    ("name", "tx_rx"),
)  # fmt: skip
GATEWAY_MAC: Final = Choice(
    {
        "auto": Leaf("a value that is not used", lambda _: True, "that of a device here, or asked for by ARP"),
        "value": MAC,
    },
    "auto",
)
DEVICE: Final = Record(
    {
        "name": NAME,
        "ethernets": Many(
            Record(
                {
                    "name": NAME,
                    "connection": Choice(
                        {"port_name": NAME, **_names("lag_name", "vxlan_name", "simulated_link",
                                                     kind=Refused("a device stands at a port"))},
                        None,
                    ),
                    "mac": MAC,
                    "mtu": whole(64, 65535, "not used"),
                    "vlans": Many(
                        Record({"name": NAME, "tpid": one_of(("x8100", "x88A8", "x9100", "x9200", "x9300")),
                                "priority": bits(3), "id": bits(12)},
                               ("name",), {"tpid": "x8100", "priority": 0, "id": 1}),
                        2,
                    ),
                    "ipv4_addresses": Many(Record(
                        {"name": NAME, "address": IPV4, "prefix": whole(1, 32), "gateway": IPV4,
                         "gateway_mac": GATEWAY_MAC},
                        ("name", "address", "gateway"), {"prefix": 24})),
                    "ipv6_addresses": Many(Record(
                        {"name": NAME, "address": IPV6, "prefix": whole(1, 128), "gateway": IPV6,
                         "gateway_mac": GATEWAY_MAC},
                        ("name", "address", "gateway"), {"prefix": 64})),
                    **_names("dhcpv4_interfaces", "dhcpv6_interfaces", kind=PROTOCOLS),
                },
                ("name", "connection", "mac"),
            )
        ),
        **_names("ipv4_loopbacks", "ipv6_loopbacks", "isis", "bgp", "vxlan", "rsvp", "dhcp_server", "ospfv2", "macsec",
                 "ospfv3", "rocev2", "bmp", kind=PROTOCOLS),
    },
    ("name",),
)  # fmt: skip
_LAYER1: Final = Refused("interfaces are used as they are")
CONFIG: Final = Record({
    "ports": Many(
        Record({"name": NAME, "location": word("a port that the command line allows")}, ("name", "location"))
    ),
    "devices": Many(DEVICE),
    "flows": Many(FLOW, MOST_FLOWS),
    "layer1": Many(Record({
        "name": NAME, "port_names": Many(NAME),
        "promiscuous": flag("not used: every frame is seen"), "mtu": whole(64, 14000, "not used"),
        **_names("speed", "media", "ieee_media_defaults", "auto_negotiate", "auto_negotiation", "flow_control",
                 kind=_LAYER1),
    })),
    "captures": Refused("use `pinchpoint-engine send --capture` or tcpdump"),
    "lags": Refused("no link aggregation"),
    "events": Refused("no events"),
    "options": Record({
        "port_options": Record({
            "location_preemption": Only((False,), "ports are this server's alone"),
            "data_integrity": Only((False,), "checksums are always verified"),
            "frame_ordering_mode": Refused("order is always checked by sequence numbers"),
        }),
        "flow_options": Record({"packet_loss_duration": Only((False,), "it is not reported")}),
        "protocol_options": Record({"auto_start_all": flag("not used: there are no protocols")}),
        "per_port_options": PROTOCOLS,
    }),
    "lldp": PROTOCOLS,
    "stateful_flows": Refused("flows have no state"),
    "egress_only_tracking": Refused("received frames are matched by the engine's signature"),
})  # fmt: skip
CONTROL: Final = Choice(
    {
        "traffic": Choice(
            {
                "flow_transmit": Record(
                    {"state": Only(("start", "stop"), "a trial cannot be interrupted"), "flow_names": Many(NAME)},
                    ("state",),
                )
            },
            None,
        ),
        "protocol": Choice(
            {
                "all": Record(
                    {"state": one_of(("start", "stop"), "changes nothing: there are no protocols")}, ("state",)
                ),
                **_names("route", "lacp", "bgp", "isis", "ospfv2", "ospfv3", "rocev2", kind=PROTOCOLS),
            },
            None,
        ),
        "port": Choice(
            {"link": Refused("interfaces are used as they are"),
             "capture": Refused("use `pinchpoint-engine send --capture` or tcpdump")},
            None,
        ),
    },
    None,
)  # fmt: skip
PORT_COLUMNS: Final = (
    "bytes_rx", "bytes_rx_rate", "bytes_tx", "bytes_tx_rate", "frames_rx", "frames_rx_rate", "frames_tx",
    "frames_tx_rate", "link", "location", "speed", "transmit",
)  # fmt: skip
FLOW_COLUMNS: Final = (
    "bytes_rx", "bytes_tx", "frames_rx", "frames_rx_rate", "frames_tx", "frames_tx_rate", "rx_l1_rate_bps",
    "rx_rate_bps", "rx_rate_bytes", "rx_rate_kbps", "rx_rate_mbps", "transmit", "tx_l1_rate_bps", "tx_rate_bps",
    "tx_rate_bytes", "tx_rate_kbps", "tx_rate_mbps",
)  # fmt: skip
REQUEST: Final = Choice(
    {
        "port": Record({"port_names": Many(NAME), "column_names": Many(one_of(PORT_COLUMNS))}),
        "flow": Record({
            "flow_names": Many(NAME), "metric_names": Many(one_of(FLOW_COLUMNS)),
            "tagged_metrics": Record({
                "include": flag("not used: nothing is tagged"), "include_empty_metrics": flag("not used"),
                "metric_names": Many(word("not used")), "filters": Refused("nothing is tagged"),
            }),
        }),
        **_names("bgpv4", "bgpv6", "isis", "lag", "lacp", "lldp", "rsvp", "dhcpv4_client", "dhcpv4_server",
                 "dhcpv6_client", "dhcpv6_server", "ospfv2", "convergence", "macsec", "mka", "ospfv3", "rocev2_ipv4",
                 "rocev2_ipv6", "rocev2_flow", "egress_only_tracking", "bmp_server", kind=PROTOCOLS),
    },
    "port",
)  # fmt: skip
