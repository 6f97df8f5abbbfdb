"""Which datapath flows and masks carried traffic, from what ovs-vswitchd 3.1 prints."""

from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.dut.unixctl import UnixctlError
from pinchpoint.observe.exercised import MOST_LISTED, Exercised, FlowListing, exercised, flow_counts, mask_of

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


def test_only_flows_whose_packets_grew_carried_traffic():
    before = flow_counts(listing(line(1, 10), line(2, 10, port="hr"), line(3, 5)))
    after = flow_counts(listing(line(1, 25), line(2, 11, port="hr"), line(3, 5)))
    assert exercised(before, after) == Exercised(flows=2, masks=1)


def test_a_new_flow_counts_once_it_carried_something():
    after = flow_counts(listing(line(1, 0), line(2, 3)))
    assert exercised({}, after) == Exercised(1, 1)


def test_a_flow_that_was_made_anew_counts_from_zero():
    before, after = flow_counts(listing(line(1, 1000))), flow_counts(listing(line(1, 7)))
    assert exercised(before, after) == Exercised(1, 1)


def test_masks_are_told_apart_by_what_is_masked_not_by_values():
    one = mask_of(_KEY.format(port="hl", dst="ce:a5:54:4f:22:06", ip="10.0.0.0/255.0.0.0"))
    same = mask_of(_KEY.format(port="hr", dst="ce:a5:54:4f:22:99", ip="11.0.0.0/255.0.0.0"))
    longer = mask_of(_KEY.format(port="hl", dst="ce:a5:54:4f:22:06", ip="10.1.0.0/255.255.0.0"))
    whole = mask_of(_KEY.format(port="hl", dst="ce:a5:54:4f:22:06", ip="10.1.0.0"))
    assert one == same
    assert len({one, longer, whole}) == 3


def test_the_same_flow_in_two_threads_is_two():
    text = listing(line(1, 4), thread="pmd on cpu core: 1") + listing(line(1, 4), thread="pmd on cpu core: 2")
    assert exercised({}, flow_counts(text)) == Exercised(2, 1)


def test_flows_without_ufid_are_known_by_their_key():
    text = "recirc_id(0),in_port(2),eth(),eth_type(0x0800),ipv4(frag=no), packets:3, bytes:294, used:1.2s, actions:3\n"
    assert exercised({}, flow_counts(text)) == Exercised(1, 1)


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    assert exercised({}, flow_counts(text)).flows >= 0


class Switch:
    """Answers of a control socket."""

    def __init__(self, flows, dump):
        self.answers = {"dpctl/show": f"netdev@ovs-netdev:\n  flows: {flows}\n", "dpctl/dump-flows": dump}

    def call(self, command, *_):
        if self.answers[command] is None:
            raise UnixctlError(f"{command}: unknown")
        return self.answers[command]


def test_so_many_flows_that_listing_would_stop_the_switch_are_not_listed():
    assert FlowListing(Switch(MOST_LISTED + 1, listing(line(1, 1)))).read() is None
    assert len(FlowListing(Switch(1, listing(line(1, 1)))).read()) == 1


def test_a_switch_that_cannot_list_is_no_error():
    assert FlowListing(Switch(1, None)).read() is None
