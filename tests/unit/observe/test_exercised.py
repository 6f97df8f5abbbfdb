"""Which datapath flows and masks carried traffic, from what ovs-vswitchd 3.1 prints."""

from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.dut.ovs.collectors import FlowDump
from pinchpoint.dut.ovs.flows import FlowListing, mask_of
from pinchpoint.dut.ovs.flows import datapath_flow_counts as flow_counts
from pinchpoint.observe.snapshot import difference

_KEY = (
    "skb_priority(0/0),recirc_id(0),in_port({port}),packet_type(ns=0,id=0),"
    "eth(src=22:c1:a0:b6:be:ac,dst={dst}),eth_type(0x0800),"
    "ipv4(src=192.168.7.1/0.0.0.0,dst={ip},proto=6/0,tos=0/0,ttl=64/0,frag=no),tcp(src=49744/0,dst=34099/0)"
)


def line(ufid, packets, port="hl", dst="ce:a5:54:4f:22:06", ip="192.168.7.2/0.0.0.0", tail=", dp:ovs, actions:hr"):
    key = _KEY.format(port=port, dst=dst, ip=ip)
    return (
        f"ufid:{ufid:08x}-6380-4334-9752-141a1d6584cf, {key}, packets:{packets}, bytes:9, used:0.064s, flags:P.{tail}"
    )


def listing(*lines, thread="the main thread"):
    return "\n".join((f"flow-dump from {thread}:", *lines)) + "\n"


def exercised(before, after):
    """(flows, masks) that carried traffic."""
    seen = FlowListing(after).since(FlowListing(before))
    return seen["ovs/exercised/flows"], seen["ovs/exercised/masks"]


def test_only_flows_whose_packets_grew_carried_traffic():
    before = flow_counts(listing(line(1, 10), line(2, 10, port="hr"), line(3, 5)))
    after = flow_counts(listing(line(1, 25), line(2, 11, port="hr"), line(3, 5)))
    assert exercised(before, after) == (2, 1)


def test_a_new_flow_counts_once_it_carried_something():
    after = flow_counts(listing(line(1, 0), line(2, 3)))
    assert exercised({}, after) == (1, 1)


def test_a_flow_that_was_made_anew_counts_from_zero():
    before, after = flow_counts(listing(line(1, 1000))), flow_counts(listing(line(1, 7)))
    assert exercised(before, after) == (1, 1)


def test_masks_are_told_apart_by_what_is_masked_not_by_values():
    mask = mask_of(_KEY.format(port="hl", dst="ce:a5:54:4f:22:06", ip="10.0.0.0/255.0.0.0"))
    same = mask_of(_KEY.format(port="hr", dst="ce:a5:54:4f:22:99", ip="11.0.0.0/255.0.0.0"))
    longer = mask_of(_KEY.format(port="hl", dst="ce:a5:54:4f:22:06", ip="10.1.0.0/255.255.0.0"))
    whole = mask_of(_KEY.format(port="hl", dst="ce:a5:54:4f:22:06", ip="10.1.0.0"))
    assert mask == same
    assert len({mask, longer, whole}) == 3


def test_the_same_flow_in_two_threads_is_two():
    text = listing(line(1, 4), thread="pmd on cpu core: 1") + listing(line(1, 4), thread="pmd on cpu core: 2")
    assert exercised({}, flow_counts(text)) == (2, 1)


def test_flows_without_ufid_are_known_by_their_key():
    text = "recirc_id(0),in_port(2),eth(),eth_type(0x0800),ipv4(frag=no), packets:3, bytes:294, used:1.2s, actions:3\n"
    assert exercised({}, flow_counts(text)) == (1, 1)


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    assert min(exercised({}, flow_counts(text))) >= 0


class Switch:
    """Answers of a control socket."""

    def __init__(self, flows, dump):
        self.answers = {"dpctl/show": f"netdev@ovs-netdev:\n  flows: {flows}\n", "dpctl/dump-flows": dump}

    def call(self, command, *_):
        return self.answers[command]


def dumped(*lines, flows=None, thread="pmd on cpu core: 1"):
    return FlowDump(Switch(len(lines) if flows is None else flows, listing(*lines, thread=thread))).snapshot()


def test_between_two_snapshots_only_what_carried_packets_counts():
    wider = "48.0.0.0/255.0.0.0"
    before = dumped(line(1, 10), line(2, 10, ip=wider), line(3, 7))
    seen = difference(before, dumped(line(1, 11), line(2, 10, ip=wider), line(3, 9))).flat()
    assert (seen["ovs/exercised/flows"], seen["ovs/exercised/masks"]) == (2, 1)
    assert (seen["ovs/flows/used"], seen["ovs/flows/masks"]) == (3, 2)


def test_so_many_flows_that_listing_would_stop_the_switch_are_not_listed():
    few, many = dumped(line(1, 1)), dumped(line(1, 2), flows=FlowDump.MOST_FLOWS + 1)
    assert many.listing is None
    assert difference(few, many).flat() == {}
    assert difference(many, few).flat().get("ovs/exercised/flows") is None


def test_a_flow_of_two_threads_is_two_and_one_listed_twice_is_one():
    twice = (line(1, 4), line(1, 4), line(2, 0))
    text = listing(*twice, thread="pmd on cpu core: 1") + listing(line(1, 9), thread="pmd on cpu core: 2")
    now = FlowDump(Switch(3, text)).snapshot()
    assert (now.gauges["ovs/flows/used"], now.gauges["ovs/flows/masks"]) == (2, 1)
    assert sum(now.gauges[f"ovs/offload/{word}"] for word in ("yes", "partial", "no")) == 3
    later = FlowDump(Switch(3, text.replace("packets:9", "packets:12"))).snapshot()
    assert difference(now, later).gauges["ovs/exercised/flows"] == 1, "the second thread's alone"


def test_frames_of_flows_that_drop_are_counted_since_the_listing_before():
    def dropping(packets):
        return line(1, packets, tail=", dp:ovs, actions:drop")

    seen = difference(dumped(dropping(10), line(2, 5)), dumped(dropping(25), line(2, 9)))
    assert seen.differences == {"ovs/flows/dropped": 15}
