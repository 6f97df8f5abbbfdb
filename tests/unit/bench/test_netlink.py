"""rtnetlink messages as bytes, checked against what the manual says."""

import struct
from collections import deque

import pytest

from pinchpoint.host.netlink import Links, attribute, attributes, messages, new_veth
from pinchpoint.model.errors import BenchError


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
    reply = struct.pack("=IHHIIi", 20, 2, 0, 7, 0, -17)
    assert list(messages(reply + reply)) == [(2, 0, 7, struct.pack("=i", -17))] * 2


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


class Kernel:
    """Answers dumps of links with what it is told to, and every other request with a number."""

    def __init__(self, dumps, refusals):
        self.dumps, self.refusals = deque(dumps), refusals
        self.asked, self.answers = [], deque()

    def send(self, data):
        for kind, flags, sequence, body in messages(data):
            if kind == 18:
                links, interrupted = self.dumps.popleft()
                self.answers.append(b"".join(answer(16, interrupted, sequence, link(*device)) for device in links))
                self.answers.append(answer(3, 2, sequence, bytes(4)))
                continue
            self.asked.append((kind, struct.unpack_from("=i", body, 4)[0]))
            if (number := self.refusals.get(self.asked[-1], 0)) or flags & 4:
                self.answers.append(answer(2, 0, sequence, struct.pack("=i", -number)))

    def recv(self, _):
        return self.answers.popleft()

    def close(self):
        pass


def answer(kind, flags, sequence, body):
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def link(index, name, kind):
    return struct.pack("=BBHiII", 0, 0, 0, index, 0, 0) + attribute(3, name) + attribute(18, attribute(1, kind))


def speaking_to(kernel):
    links = Links(None)
    links._socket.close()
    links._socket = kernel
    return links


ONE, TWO = (7, b"t7\0", b"tun\0"), (8, b"t8\0", b"tun\0")


def test_a_list_interrupted_by_links_that_came_or_went_is_asked_for_again():
    kernel = Kernel([([ONE], 0x12), ([ONE, TWO], 0x2)], {})
    assert speaking_to(kernel).list() == [(7, "t7", "tun"), (8, "t8", "tun")]


def test_a_namespace_that_never_keeps_still_is_told():
    with pytest.raises(BenchError, match="interrupted 100 times"):
        speaking_to(Kernel([([ONE], 0x12)] * 100, {})).list()


def test_links_that_go_by_themselves_do_not_keep_the_others():
    many = [(index, b"t%d\0" % index, b"tun\0") for index in range(1, 121)]
    kernel = Kernel([(many, 2)], {(16, 3): 19})
    assert speaking_to(kernel).remove_kind("tun") == 120
    assert kernel.asked == [(16, index) for index in range(1, 121)] + [(17, 0)]


def test_a_link_that_may_not_be_removed_is_told_though_another_has_gone():
    with pytest.raises(BenchError, match=r"link 8 in .*: Operation not permitted"):
        speaking_to(Kernel([([ONE, TWO], 2)], {(16, 7): 19, (16, 8): 1})).remove_kind("tun")
