"""rtnetlink messages as bytes, checked against what the manual says."""

import struct

import pytest

from pinchpoint.bench.netlink import attribute, attributes, messages, new_veth


def test_attributes_are_padded_to_four_bytes_and_read_back():
    data = attribute(3, b"v0\0") + attribute(0x8012, b"1234")
    assert len(data) == 8 + 8
    assert list(attributes(data)) == [(3, b"v0\0"), (0x12, b"1234")]


def test_a_torn_attribute_or_message_is_refused():
    with pytest.raises(ValueError, match="attribute of 0 bytes"):
        list(attributes(bytes(8)))
    with pytest.raises(ValueError, match="message of 0 bytes"):
        list(messages(bytes(32)))


def test_several_messages_in_one_read_are_told_apart():
    one = struct.pack("=IHHIIi", 20, 2, 0, 7, 0, -17)
    assert list(messages(one + one)) == [(2, 7, struct.pack("=i", -17))] * 2


def test_a_pair_names_both_ends_its_group_and_the_other_namespace():
    body = new_veth("v0", "p0", 5, 77)
    parts = dict(attributes(body[16:]))
    assert parts[3] == b"v0\0"
    assert parts[27] == struct.pack("=I", 77)
    info = dict(attributes(parts[18]))
    assert info[1] == b"veth\0"
    (peer,) = dict(attributes(info[2])).values()
    far = dict(attributes(peer[16:]))
    assert far == {3: b"p0\0", 28: struct.pack("=I", 5)}
