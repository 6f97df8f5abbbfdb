"""Queueing disciplines and neighbours, as the programs of iproute2 and the kernel print them."""

import pytest

from pinchpoint.observe.printed import neighbour_discards, queue_counts, unknown_neighbours

DISCIPLINES = """[
{"kind":"noqueue","handle":"0:","dev":"left","root":true,"refcnt":2,"options":{},"bytes":0,"packets":0,"drops":0},
{"kind":"tbf","handle":"8001:","dev":"right","root":true,"refcnt":3,"options":{"rate":6250000,"burst":10237},
 "bytes":606000,"packets":10100,"drops":4200,"overlimits":9000,"requeues":0,"backlog":0,"qlen":0},
{"kind":"bfifo","handle":"8002:","dev":"right","parent":"8001:1","options":{"limit":16487},"packets":10100,"drops":4200},
{"kind":"clsact","handle":"ffff:","dev":"left","parent":"ffff:fff1","options":{},"bytes":0,"packets":0,"drops":7},
{"kind":"fq_codel","handle":"0:","dev":"other","root":true,"options":{},"packets":50,"drops":3}]
"""


def test_a_discipline_tells_what_it_dropped_for_and_its_classes_are_not_counted_again():
    assert queue_counts(DISCIPLINES) == {
        ("right", "packets"): 10100,
        ("right", "shaped"): 4200,
        ("left", "filtered"): 7,
        ("other", "packets"): 50,
        ("other", "full"): 3,
    }


@pytest.mark.parametrize("text", ["", "[]"])
def test_a_namespace_without_disciplines_counts_nothing(text):
    assert queue_counts(text) == {}


def test_neighbours_that_nobody_answers_for_are_told_from_those_in_use():
    listed = """[{"dst":"10.77.0.1","dev":"hr","lladdr":"16:98:0e:df:b6:a6","state":["DELAY"]},
        {"dst":"169.254.0.1","dev":"left","lladdr":"02:00:00:00:00:02","state":["PERMANENT"]},
        {"dst":"10.78.0.9","dev":"hr2","state":["INCOMPLETE"]},{"dst":"10.78.0.8","dev":"hr2","state":["FAILED"]}]"""
    assert unknown_neighbours(listed) == 2
    assert unknown_neighbours("") == 0


def test_frames_that_found_no_room_to_wait_for_a_neighbour_are_added_up_over_the_cpus():
    table = """entries  allocs   destroys hash_grows lookups  hits     res_failed unresolved_discards table_fulls
00000009 00000007 00000000 00000000   0000002a 00000003 00000001   00000c69            00000000
00000009 00000043 00000041 00000003   000000c3 00000042 00000000   0000051f            00000000
"""
    assert neighbour_discards(table) == 0xC69 + 0x51F
    assert neighbour_discards("entries  allocs\n00000009 00000007\n") is None
