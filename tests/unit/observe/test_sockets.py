"""Drops of packet sockets, from what ss (iproute2 6.1) prints of real ones."""

import pytest

from pinchpoint.observe.printed import packet_socket_drops

PLAIN = (
    "p_raw UNCONN 8320   0        *:left * ino:546974 sk:1004 ver:0 cpy_thresh:0 flags( running ) "
    "skmem:(r8320,rb8192,t0,tb212992,f0,w0,o0,bl0,d390)"
)
FANOUT = (
    "p_raw UNCONN 0      0        *:left * ino:546975 sk:1005 ver:0 cpy_thresh:0 flags( running ) "
    "fanout(id:5,type:hash) skmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d7)"
)
RECEIVE_RING = (
    "p_raw UNCONN 0      0        *:left * ino:546912 sk:1002 ver:1 cpy_thresh:0 flags( running ) "
    "ring_rx(blk_size:4096,blk_nr:4,frm_size:2048,frm_nr:8,tmo:0,features:0x0) "
    "skmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d0)"
)
SENDS_ONLY = (
    "p_raw UNCONN 0      0      [0]:right * ino:546956 sk:1003 ver:1 cpy_thresh:0 flags( 0 ) "
    "ring_tx(blk_size:4096,blk_nr:4,frm_size:2048,frm_nr:8,tmo:0,features:0x0) "
    "skmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d0)      "
)


@pytest.mark.parametrize(
    ("lines", "drops"),
    [
        ([PLAIN], {"left": 390}),
        ([PLAIN, FANOUT], {"left": 397}),
        ([PLAIN, SENDS_ONLY], {"left": 390, "right": 0}),
        ([PLAIN, RECEIVE_RING], {"left": 390}),
        ([], {}),
    ],
    ids=["one", "queues add up", "each at its own port", "a capture beside", "none"],
)
def test_drops_are_those_of_the_sockets_of_each_interface(lines, drops):
    assert packet_socket_drops("\n".join(lines)) == drops


def test_a_receive_ring_is_unknown_and_not_zero():
    assert packet_socket_drops(RECEIVE_RING) == {}
