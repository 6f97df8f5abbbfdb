"""What keeps a datapath flow in software, from its match and actions; its flag is a claim that does not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.causes.signs import offload_truth
from pinchpoint.dut.ovs.flows import FlowListing, datapath_flow_counts, limits_of
from pinchpoint.dut.registry import device
from pinchpoint.model.causes import Sign
from pinchpoint.model.offload import Offload, OffloadLimit

UFID = "ufid:79fc7cac-d6e1-4ffb-ba35-0dae827910"
LAN, NO_STATE = "recirc_id(0),in_port(rep0),eth_type(0x0800)", "ct_state(0/0)"


def key(proto=17, ttl="64/0", frag="no", state=NO_STATE, lead=LAN):
    ip = f"ipv4(src=10.0.0.1,dst=10.0.0.2/0.0.0.0,proto={proto},tos=0/0x3,ttl={ttl},frag={frag})"
    return f"{state},{lead},{ip},udp(src=1/0,dst=2/0)"


@pytest.mark.parametrize(
    ("flow", "actions", "limits"),
    [
        (key(), "uplink", ()),
        (key(state="ct_state(0x21/0x23)"), "uplink", (OffloadLimit.ONE_WAY,)),
        (key(state="ct_state(+new-est+trk)"), "uplink", (OffloadLimit.ONE_WAY,)),
        (key(state="ct_state(0x22/0x22)"), "uplink", ()),
        (key(state="ct_state(0/0x23)"), "uplink", ()),  # not tracked at all, as every flow of a first table may match
        (key(state="ct_state(-new-est-trk)"), "uplink", ()),
        (key(proto=1, state="ct_state(0/0x21)"), "uplink", ()),
        (key(proto=1, state="ct_state(0x20/0x21)"), "uplink", (OffloadLimit.TRACKED_ICMP,)),
        (key(state="ct_state(0x20/0x21)"), "uplink", ()),  # established or invalid: it does not say
        (key(state="ct_state(+est+trk)"), "uplink", ()),
        (key(state="ct_state(0x20/0x22)"), "uplink", (OffloadLimit.ONE_WAY,)),
        (key(proto=6, state="ct_state(0x21/0x23)"), "uplink", (OffloadLimit.NOT_ESTABLISHED,)),
        (key(proto="6/0", state="ct_state(0x21/0x23)"), "uplink", ()),
        (key(proto=1), "ct(commit),recirc(0x2)", (OffloadLimit.TRACKED_ICMP,)),
        (key(proto=1), "uplink", ()),
        (key(frag="first"), "uplink", (OffloadLimit.FRAGMENTS,)),
        (key(ttl="1"), "uplink", (OffloadLimit.TTL,)),
        (key(ttl="1/0"), "uplink", ()),
        (key(), "userspace(pid=1,controller(reason=1))", (OffloadLimit.USERSPACE,)),
        (key(), "sample(sample=1.0%,actions(userspace(pid=1))),uplink", (OffloadLimit.USERSPACE,)),
        (key(), "ct(zone=1),recirc(0x5)", ()),
    ],
)
def test_the_kernels_known_limits(flow, actions, limits):
    assert limits_of(flow, actions, is_userspace_datapath=False) == limits


def test_the_userspace_datapath_offloads_no_tracking_and_no_further_pass():
    tracked = limits_of(key(), "ct(zone=1),recirc(0x5)", is_userspace_datapath=True)
    assert tracked == (OffloadLimit.TRACKING,)
    further = key(state="ct_state(+est+trk)", lead=LAN.replace("recirc_id(0)", "recirc_id(0x5)"))
    assert limits_of(further, "2", is_userspace_datapath=True) == (OffloadLimit.RECIRCULATED,)
    assert limits_of(further, "2", is_userspace_datapath=False) == ()


@pytest.mark.parametrize(
    ("flow", "actions"),
    [
        (key(), "tnl_push(tnl_port(3),header(size=50,type=4)),2"),
        (key(), "clone(tnl_push(tnl_port(3),header(size=50,type=4)),out_port(2)),1"),
        (key(), "tnl_pop(3)"),
        (key(lead="recirc_id(0),tunnel(tun_id=0x7,src=10.0.0.1,dst=10.0.0.2),in_port(3)"), "2"),
    ],
)
def test_the_userspace_datapath_offloads_tunnels_only_in_part(flow, actions):
    assert limits_of(flow, actions, is_userspace_datapath=True) == (OffloadLimit.TUNNEL,)
    assert limits_of(flow, actions, is_userspace_datapath=False) == ()


def test_normal_in_table_0_is_told_by_the_frames_that_took_it():
    limits = device("ovs").offload_limits({"ovs/rules/first": 1000.0, "ovs/rules/normal": 750.0})
    assert limits == {OffloadLimit.NORMAL: 0.75}
    assert device("ovs").offload_limits({"ovs/rules/first": 1000.0, "ovs/rules/normal": 0.0}) == {}


def dump(packets, claim="offloaded:yes, "):
    flows = [(f"{UFID}{number:02d}", *flow) for number, flow in enumerate(packets)]
    return datapath_flow_counts(
        "".join(
            f"{ufid}, {match}, packets:{count}, bytes:1, used:0.1s, {claim}dp:tc, actions:uplink\n"
            for ufid, match, count in flows
        )
    )


def test_a_limit_weighs_by_the_frames_that_it_kept_meanwhile():
    one_way, plain = key(state="ct_state(0x21/0x23)"), key(proto=6)
    before, after = dump([(one_way, 1000), (plain, 0)]), dump([(one_way, 1300), (plain, 100)])
    seen = FlowListing(after).since(FlowListing(before))
    limits = device("ovs").offload_limits(seen)
    assert limits == {OffloadLimit.ONE_WAY: 0.75}
    offload = offload_truth({Sign.CLAIMED: 1.0, Sign.SOFTWARE: 1.0}, limits)
    assert offload.word is Offload.CLAIMED
    kept = "known to stay in software: UDP whose connection saw no reply (75.0 % of the frames)"
    assert kept in offload.sentence
    assert kept not in offload_truth({Sign.CLAIMED: 1.0, Sign.SOFTWARE: 0.0}, limits).sentence, "hardware forwards them"


def test_without_frames_no_limit_is_named():
    flows = FlowListing(dump([(key(state="ct_state(0x21/0x23)"), 7)]))
    assert device("ovs").offload_limits(flows.since(flows)) == {}


@given(st.text(max_size=200), st.text(max_size=80), st.booleans())
def test_any_text_has_limits_or_none(match, actions, is_userspace_datapath):
    assert set(limits_of(match, actions, is_userspace_datapath)) <= set(OffloadLimit)
