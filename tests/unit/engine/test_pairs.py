"""Several engines at once, against engines of a few lines."""

import json
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest

from pinchpoint.engine.sockets import SocketsRequest
from pinchpoint.engine.workloads import Pairs, Workloads
from pinchpoint.host.local import Local
from pinchpoint.model.errors import EngineError, RequirementError

GOLDEN = Path(__file__).parents[3] / "protocol" / "golden"
SOCKETS = (GOLDEN / "sockets.jsonl").read_text().splitlines()
HELLO = (GOLDEN / "engine_to_lab.jsonl").read_text().splitlines()[0]
RR = msgspec.json.decode(SOCKETS[0], type=SocketsRequest)

# Takes `seconds` for a workload unless told to stop; the one whose trial ends in -2 does `second` instead.
ENGINE = """
import json, select, sys
hello, result, seconds, second = sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
for line in iter(sys.stdin.readline, ""):
    request = json.loads(line)
    if request["type"] == "hello":
        print(hello, flush=True)
    elif request["type"] == "stop":
        print('{"type":"error","code":"state","message":"nothing runs","hint":null}', flush=True)
    elif request["type"] == "sockets":
        mine = request["trial"].endswith("-2")
        if mine and second == "die":
            sys.exit(3)
        if mine and second == "refuse":
            print('{"type":"error","code":"port_open","message":"client.netns x: gone","hint":"build it"}', flush=True)
            continue
        status = "aborted" if mine and second == "abort" else "completed"
        if status == "completed" and select.select([sys.stdin], [], [], seconds)[0]:
            sys.stdin.readline()
            status = "stopped"
        print(json.dumps(result | {"trial": request["trial"], "status": status}), flush=True)
    else:
        break
"""


def pairs(seconds=0.2, second="run", count=2):
    command = [sys.executable, "-c", ENGINE, HELLO, SOCKETS[4], str(seconds), second]
    made = Pairs(count, partial(Workloads, Local(), command=command))
    made.open()
    return closing(made)


def requests(count=2):
    return [msgspec.structs.replace(RR, trial=f"rr-{number}") for number in range(1, count + 1)]


def test_all_run_at_the_same_time_and_answer_in_order():
    with pairs(seconds=4, count=3) as engines:
        began = time.monotonic()
        results = engines.run(requests(3))
        took = time.monotonic() - began
    assert [result.trial for result in results] == ["rr-1", "rr-2", "rr-3"]
    assert took < 11, "three of four seconds each, one after the other, take 12"


def test_stop_ends_all_and_what_they_counted_is_kept():
    with pairs(seconds=30) as engines:
        threading.Timer(0.3, engines.stop).start()
        began = time.monotonic()
        results = engines.run(requests())
        assert time.monotonic() - began < 15
    assert [result.status for result in results] == ["stopped", "stopped"]


def test_a_stop_that_comes_first_ends_the_next_workload_too():
    with pairs(seconds=30) as engines:
        engines.stop()
        assert {result.status for result in engines.run(requests())} == {"stopped"}


@pytest.mark.parametrize(
    ("second", "kind", "words"), [("die", EngineError, "exited with code 3"), ("refuse", RequirementError, "gone")]
)
def test_if_one_fails_the_others_do_not_run_on(second, kind, words):
    with pairs(seconds=30, second=second) as engines:
        began = time.monotonic()
        with pytest.raises(kind, match=words):
            engines.run(requests())
        assert time.monotonic() - began < 15


def test_if_one_is_aborted_the_others_are_stopped():
    with pairs(seconds=30, second="abort") as engines:
        assert [result.status for result in engines.run(requests())] == ["stopped", "aborted"]


def test_an_engine_that_does_not_start_leaves_none_of_the_others():
    engines = Pairs(2, partial(Workloads, Local(), command=["/no/such/engine"]))
    with pytest.raises(EngineError, match="/no/such/engine"):
        engines.open()


def test_the_golden_window_tells_when_it_began():
    assert json.loads(SOCKETS[4])["runs"][0]["began_ns"] > 0
