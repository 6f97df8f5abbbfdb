"""Which part of the load each engine core carries."""

from dataclasses import replace

import pytest
from trials import stream_counts, worker

from pinchpoint.account.validity import from_others_fps, receivers, sending_fps

FORTH = replace(stream_counts(offered=750), rx_port="right")
BACK = replace(stream_counts(offered=250), stream=1, tx_port="right", rx_port="left")
LEFT = replace(worker(), core=0, ports=("left",))
RIGHT = replace(worker(), core=2, ports=("right",))


def test_a_lone_worker_carries_everything():
    alone = [worker()]
    assert sending_fps(alone[0], alone, [FORTH, BACK], 1e6) == 1e6
    assert from_others_fps(alone[0], alone, [FORTH, BACK], 1e6) == 0.0


def test_a_stream_belongs_to_the_worker_of_its_port():
    workers = [LEFT, RIGHT]
    assert [sending_fps(worker, workers, [FORTH, BACK], 1000.0) for worker in workers] == [750.0, 250.0]
    assert [from_others_fps(worker, workers, [FORTH, BACK], 1000.0) for worker in workers] == [250.0, 750.0]


def test_a_port_of_several_workers_is_divided_among_them():
    other = replace(LEFT, core=4)
    workers = [LEFT, other, RIGHT]
    assert [sending_fps(worker, workers, [FORTH], 1000.0) for worker in workers] == [500.0, 500.0, 0.0]


def test_what_a_worker_sends_to_itself_stops_with_it():
    other = replace(LEFT, core=4, ports=("left", "right"))
    workers = [LEFT, other]
    assert [from_others_fps(worker, workers, [FORTH], 1000.0) for worker in workers] == [0.0, 500.0]


@pytest.mark.parametrize("intended", [None, 0])
def test_without_a_plan_the_load_is_divided_as_it_was_offered_or_evenly(intended):
    unpaced = [
        replace(stream, intended=intended, offered=stream.offered * (intended is None)) for stream in (FORTH, BACK)
    ]
    expected = [750.0, 250.0] if intended is None else [500.0, 500.0]
    assert [sending_fps(worker, [LEFT, RIGHT], unpaced, 1000.0) for worker in (LEFT, RIGHT)] == expected


def test_without_streams_nothing_is_carried():
    assert sending_fps(LEFT, [LEFT], [], 1e6) == 0.0


def test_a_stream_that_nobody_counts_has_no_receiver():
    assert receivers([LEFT, RIGHT], [FORTH]) == [RIGHT]
    assert receivers([LEFT, worker()], [replace(FORTH, rx_port=None)]) == []
