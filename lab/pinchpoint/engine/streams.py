"""What messages of the seam are made of (protocol/README.md, "Streams"), and how a scenario's stream becomes one's.

Where the seam offers a choice, it is an object with one key that names what was
chosen, e.g. `{"fps": 1e6}`. Here each is a Choice: one field set, the others absent.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from pinchpoint.model import frames
from pinchpoint.model.headers import FieldValues
from pinchpoint.model.scenario import Stream

Status = Literal["completed", "stopped", "aborted"]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parts of a message."""


class Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, kw_only=True):
    """Base of all messages; `type` tells them apart."""


class Latency(Part, frozen=True):
    """A distribution of times."""

    count: int
    min_ns: int
    mean_ns: float
    stddev_ns: float
    max_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    p9999_ns: int
    curve: tuple[tuple[float, int], ...]
    histogram: str


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all choices; every field of one is absent unless set."""

    def __post_init__(self) -> None:
        """Raises ValueError unless exactly one field is set."""
        chosen = [name for name in self.__struct_fields__ if getattr(self, name) is not UNSET]
        if len(chosen) != 1:
            known = ", ".join(self.__struct_fields__)
            raise ValueError(f"expected one key of {known}; found {', '.join(chosen) or 'none'}")


class Rate(Choice, frozen=True):
    """How fast; see the README for what counts as a bit."""

    fps: float | UnsetType = UNSET
    bps_l1: float | UnsetType = UNSET
    bps_l2: float | UnsetType = UNSET
    line_share: float | UnsetType = UNSET
    speed: float | UnsetType = UNSET


class Steady(Part, frozen=True):
    """One frame after the other at equal distances."""


class Bursts(Part, frozen=True):
    """Groups of this many frames fall due together."""

    frames: int


class Ramp(Part, frozen=True):
    """The rate grows linearly from this share of itself."""

    from_share: float


class Step(Part, frozen=True):
    """The rate falls to this share of itself after this time."""

    after_s: float
    to_share: float


class Poisson(Part, frozen=True):
    """At random times that do not depend on each other."""


class Captured(Part, frozen=True):
    """As far apart as in the capture that is replayed."""


class Shape(Choice, frozen=True):
    """How a rate is spread over time."""

    steady: Steady | UnsetType = UNSET
    bursts: Bursts | UnsetType = UNSET
    ramp: Ramp | UnsetType = UNSET
    step: Step | UnsetType = UNSET
    poisson: Poisson | UnsetType = UNSET
    captured: Captured | UnsetType = UNSET


class Size(Choice, frozen=True):
    """Frame sizes with check sequence."""

    fixed: int | UnsetType = UNSET
    list: tuple[tuple[int, int], ...] | UnsetType = UNSET  # (size, weight)
    imix: str | UnsetType = UNSET
    random: tuple[int, int] | UnsetType = UNSET  # (smallest, largest)


class Ethernet(Part, frozen=True):
    """Null ethertype: that of the next layer."""

    src: str
    dst: str
    ethertype: int | None = None


class Vlan(Part, frozen=True):
    """IEEE 802.1Q tag; `tpid` is its EtherType."""

    id: int
    pcp: int = 0
    dei: bool = False
    tpid: int = 0x8100


class Arp(Part, frozen=True):
    """RFC 826; operation 1 asks, 2 answers."""

    sender_mac: str
    sender_ip: str
    target_mac: str
    target_ip: str
    operation: int = 1


class Ipv4(Part, frozen=True):
    """RFC 791; options are hexadecimal."""

    src: str
    dst: str
    ttl: int = 64
    dscp: int = 0
    ecn: int = 0
    identification: int = 0
    dont_fragment: bool = True
    options: str = ""
    protocol: int | None = None


class Extension(Part, frozen=True):
    """An IPv6 extension header: its kind, and what follows its length, hexadecimal."""

    kind: int
    data: str


class Ipv6(Part, frozen=True):
    """RFC 8200; `next_header` is what the header claims to be followed by (None: the truth)."""

    src: str
    dst: str
    hop_limit: int = 64
    dscp: int = 0
    ecn: int = 0
    flow_label: int = 0
    extensions: tuple[Extension, ...] = ()
    next_header: int | None = None


class Udp(Part, frozen=True):
    """RFC 768; `src` and `dst` are ports."""

    src: int
    dst: int


TcpFlag = Literal["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"]


class Tcp(Part, frozen=True):
    """RFC 9293; options are hexadecimal."""

    src: int
    dst: int
    seq: int = 0
    ack: int = 0
    flags: tuple[TcpFlag, ...] = ("syn",)
    window: int = 65535
    options: str = ""


class Icmp(Part, frozen=True):
    """RFC 792 or RFC 4443 in the form of an echo, with what follows it, hexadecimal."""

    type: int
    code: int = 0
    identifier: int = 0
    sequence: int = 0
    body: str | UnsetType = UNSET


class Vxlan(Part, frozen=True):
    """RFC 7348; `vni` has 24 bits."""

    vni: int


class Geneve(Part, frozen=True):
    """RFC 8926; options are hexadecimal."""

    vni: int
    options: str = ""


class Gre(Part, frozen=True):
    """RFC 2784 and, with a key or a sequence number, RFC 2890."""

    key: int | None = None
    sequence: int | None = None


class Mpls(Part, frozen=True):
    """RFC 3032; the last label is marked as such."""

    label: int
    tc: int = 0
    ttl: int = 64


class Pppoe(Part, frozen=True):
    """A session of RFC 2516."""

    session_id: int


class Gtpu(Part, frozen=True):
    """3GPP TS 29.281; with `qfi` the PDU session container of TS 38.415."""

    teid: int
    qfi: int | None = None
    pdu_type: int = 0


class Nsh(Part, frozen=True):
    """RFC 8300; the context is hexadecimal, of 16 bytes or none."""

    spi: int
    si: int = 255
    ttl: int = 63
    context: str = "00" * 16


class Esp(Part, frozen=True):
    """RFC 4303; what follows stands for ciphertext."""

    spi: int
    sequence: int = 1


class Layer(Choice, frozen=True):
    """One header of a frame."""

    ethernet: Ethernet | UnsetType = UNSET
    vlan: Vlan | UnsetType = UNSET
    arp: Arp | UnsetType = UNSET
    ipv4: Ipv4 | UnsetType = UNSET
    ipv6: Ipv6 | UnsetType = UNSET
    udp: Udp | UnsetType = UNSET
    tcp: Tcp | UnsetType = UNSET
    icmp: Icmp | UnsetType = UNSET
    icmpv6: Icmp | UnsetType = UNSET
    vxlan: Vxlan | UnsetType = UNSET
    geneve: Geneve | UnsetType = UNSET
    gre: Gre | UnsetType = UNSET
    mpls: Mpls | UnsetType = UNSET
    pppoe: Pppoe | UnsetType = UNSET
    gtpu: Gtpu | UnsetType = UNSET
    nsh: Nsh | UnsetType = UNSET
    esp: Esp | UnsetType = UNSET


class Capture(Part, frozen=True):
    """The frames of a file on the engine's host that `source` sent, with `others` all but those (README, "Replays")."""

    file: str
    source: str | None = None
    others: bool = False


class Template(Choice, frozen=True):
    """What the frames are made from: headers, outermost first, bytes in base64, or a capture."""

    layers: tuple[Layer, ...] | UnsetType = UNSET
    frame: str | UnsetType = UNSET
    capture: Capture | UnsetType = UNSET


class Increment(Part, frozen=True):
    """Template + step x value number."""

    step: int
    count: int


class RandomValues(Part, frozen=True):
    """`count` numbers within these bounds, the same for the same seed."""

    min: int
    max: int
    count: int


class Zipf(Part, frozen=True):
    """Ranks drawn anew for every frame, the first ones most often."""

    count: int
    exponent: float
    step: int


class Op(Choice, frozen=True):
    """What a field program does; see the README, "The order of five-tuples"."""

    increment: Increment | UnsetType = UNSET
    list: tuple[int, ...] | UnsetType = UNSET
    random: RandomValues | UnsetType = UNSET
    zipf: Zipf | UnsetType = UNSET


class FieldProgram(Part, frozen=True):
    """One digit of the tuple index, the first one fastest."""

    field: str
    op: Op


class StreamRequest(Part, frozen=True, kw_only=True):
    """One stream to send."""

    id: int
    tx_port: str | None  # null: another engine sends it
    rx_port: str | None
    rate: Rate | None
    shape: Shape
    size: Size
    template: Template
    stamped: bool
    wrong_checksums: tuple[Literal["ipv4", "l4"], ...]
    seed: int
    flows: int
    fields: tuple[FieldProgram, ...]
    tracked_flows: int
    rx_ports: tuple[str, ...] = ()
    limit_frames: int | None = None
    together: bool = False


_LOW_HALF = (1 << 64) - 1  # of an IPv6 address: all that the engine varies


def stream_request(
    number: int, stream: Stream, rate_fps: float | None, burst_frames: int | None = None
) -> StreamRequest:
    """A stream of the scenario in the words of the seam; ranges of one value need no program.

    With `burst_frames`, this many frames always fall due together, whatever the stream says.
    """
    return StreamRequest(
        id=number,
        tx_port=stream.tx_port,
        rx_port=stream.rx_port,
        rate=None if rate_fps is None else Rate(fps=rate_fps),
        shape=Shape(bursts=Bursts(burst_frames)) if burst_frames else _shape(stream),
        size=_size(stream),
        template=_template(stream),
        stamped=True,
        wrong_checksums=stream.wrong_checksums,
        seed=stream.seed,
        flows=stream.flows,
        fields=tuple(FieldProgram(name, _op(values)) for name, values in frames.moving(stream).items()),
        tracked_flows=0,
        together=stream.together,
    )


def _shape(stream: Stream) -> Shape:
    if stream.burst_frames > 1:
        return Shape(bursts=Bursts(stream.burst_frames))
    if stream.arrivals == "captured":
        return Shape(captured=Captured())
    return Shape(poisson=Poisson()) if stream.arrivals == "poisson" else Shape(steady=Steady())


def _template(stream: Stream) -> Template:
    if stream.pcap is not None:
        return Template(capture=Capture(stream.pcap, stream.pcap_source, stream.pcap_others))
    return Template(layers=tuple(map(_layer, frames.headers(stream))))


def _layer(header: frames.Placed) -> Layer:
    return msgspec.convert({header.name: {key: values.template for key, values in header.fields.items()}}, Layer)


def _op(values: FieldValues) -> Op:
    if values.listed:
        return Op(list=tuple(number & _LOW_HALF for number in values.listed))
    if values.drawn is not None:
        low, high = (number & _LOW_HALF for number in values.drawn)
        return Op(random=RandomValues(low, high, values.count))
    if values.exponent is not None:
        return Op(zipf=Zipf(values.count, values.exponent, values.step))
    return Op(increment=Increment(values.step, values.count))


def _size(stream: Stream) -> Size:
    if (sizes := stream.sizes) is None:
        return Size(fixed=stream.frame_bytes)
    return Size(random=sizes.between) if sizes.between else Size(list=sizes.mix)
