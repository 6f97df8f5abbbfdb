"""The engine's client against scripted children: what the seam may do wrong, and how it is told."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as changed
from support import stream

from pinchpoint.engine import process, protocol
from pinchpoint.engine.connections import ConnectionsRequest
from pinchpoint.engine.instrument import Slices, TrialRequest
from pinchpoint.engine.multi_engine import Reflector
from pinchpoint.engine.process import EXPLAIN_MEMORY, ProcessInstrument
from pinchpoint.engine.trials import run_message
from pinchpoint.host import priority
from pinchpoint.host.local import Local
from pinchpoint.host.priority import HIGHEST, preferred, session_nice
from pinchpoint.model.errors import EngineError, NoHugepagesError, NoLibrariesError, RequirementError
from pinchpoint.model.trial import Jump, Loopback, Sample

GOLDEN_FOLDER = Path(__file__).parents[3] / "protocol" / "golden"
GOLDEN = (GOLDEN_FOLDER / "engine_to_lab.jsonl").read_text().splitlines()
HELLO, OPENED, SAMPLE, RESULT, ABORTED = GOLDEN[:5]
ERROR = next(line for line in GOLDEN if '"type":"error"' in line)
PORT = protocol.PortRequest("left", "dpdk", "net_null0", None, 1024, 1024, ())
WORKER = protocol.WorkerRequest(0, ("left",))
OPEN = protocol.Open(workers=(WORKER,), eal_args=(), ports=(PORT,), link_timeout_s=1.0)
REQUEST = TrialRequest("forward-0001", 1, 0.1, 0.0, 1e6, (), ())


def scripted(*replies, then="sys.stdin.read()"):
    """A child that prints one reply for each line it reads, then does `then`."""
    program = (
        f"import sys\nfor reply in {list(replies)!r}:\n    sys.stdin.readline()\n    print(reply, flush=True)\n{then}\n"
    )
    return [sys.executable, "-c", program]


def instrument(command, **options):
    return ProcessInstrument(OPEN, Local(), command=command, **options)


def test_a_trial_goes_through_and_samples_are_passed_over():
    engine = instrument(scripted(HELLO, OPENED, f"{SAMPLE}\n{RESULT}"))
    facts = engine.open()
    result = engine.run(REQUEST)
    engine.close()
    assert facts["backend dpdk"] == "DPDK 22.11.11"
    assert result.streams[0].sent == 1499990
    assert result.workers[0].gap_max_ns == 30100
    assert result.cache_line_before_ns == 32.5, "of both cores of the device"
    assert result.cache_line_after_ns is None, "one of both was not measured"
    assert result.probe_occupied_ns == {0: 620000, 1: 305000, 2: 305000}
    assert result.ipc == {0: (3.4, 3.4), 1: (3.41, 2.12), 2: (3.42, None)}
    assert (result.completed, result.reason) == (True, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a session")
def test_the_labs_session_comes_first_while_a_trial_runs_and_not_after(monkeypatch):
    monkeypatch.setattr(priority, "busy_beside", lambda *_: False)
    before, during = session_nice(), []
    if before is None:
        pytest.skip("this kernel does not weigh sessions (sched_autogroup_enabled)")
    engine = instrument(scripted(HELLO, OPENED, f"{SAMPLE}\n{RESULT}"))
    engine.open()
    with preferred():
        engine.run(REQUEST, lambda sample: during.append(session_nice()))
    engine.close()
    assert during == [HIGHEST]
    assert session_nice() == before


def test_samples_reach_whoever_listens():
    engine, heard = instrument(scripted(HELLO, OPENED, f"{SAMPLE}\n{RESULT}")), []
    engine.open()
    engine.run(REQUEST, heard.append)
    engine.close()
    assert heard == [Sample(0.5, 750_000, 90, gaps_s=66e-6, gap_max_s=30.1e-6, received=749_000)]


def test_samples_that_nobody_awaits_are_read_once_the_trial_is_over():
    engine, heard_s = instrument(scripted(HELLO, OPENED, f"{SAMPLE}\n{SAMPLE}\n{RESULT}")), []
    engine.open()
    before_s = time.monotonic()
    request = replace(REQUEST, duration_s=0.2, drain_s=0.1, sample_s=0.1, live=False)
    engine.run(request, lambda _: heard_s.append(time.monotonic() - before_s))
    engine.close()
    assert len(heard_s) == 2 and min(heard_s) >= 0.29


def test_more_samples_than_a_pipe_holds_do_not_stop_the_engine():
    """Of a trial of many streams: the script waits until there is room for all of them."""
    told = json.loads(SAMPLE) | {"streams": [{"id": number, "sent": 1, "received": 1} for number in range(100)]}
    prints = f"sys.stdin.readline()\nprint(({json.dumps(told)!r} + chr(10)) * 200 + {RESULT!r}, flush=True)"
    engine, heard = instrument(scripted(HELLO, OPENED, then=f"{prints}\nsys.stdin.read()")), []
    engine.open()
    streams = tuple(stream() for _ in range(100))
    engine.run(replace(REQUEST, streams=streams, duration_s=0.3, sample_s=0.01, live=False), heard.append)
    engine.close()
    assert len(heard) == 200


def test_an_engine_that_dies_while_nobody_awaits_its_samples_ends_the_trial_at_once():
    engine = instrument(scripted(HELLO, OPENED, then="sys.stdin.readline()\nsys.exit(9)"))
    engine.open()
    before_s = time.monotonic()
    with pytest.raises(EngineError, match="exited with code 9"):
        engine.run(replace(REQUEST, duration_s=3600.0, live=False))
    assert time.monotonic() - before_s < 600.0
    engine.close()


def test_a_stop_ends_a_trial_whose_samples_nobody_awaits():
    """The script answers only once it is told to stop."""
    ends = f"sys.stdin.readline()\nsys.stdin.readline()\nprint({RESULT!r}, flush=True)\nsys.stdin.read()"
    engine = instrument(scripted(HELLO, OPENED, then=ends))
    engine.open()
    timer = threading.Timer(0.2, engine.stop)
    timer.start()
    engine.run(replace(REQUEST, duration_s=3600.0, live=False))
    timer.join()
    engine.close()


def test_what_the_engine_tells_of_itself_and_of_lateness_reaches_the_lab():
    engine = instrument(scripted(HELLO, OPENED, RESULT))
    facts = engine.open()
    result = engine.run(REQUEST)
    engine.close()
    assert facts["port left"] == "net_virtio_user, rings 1024/1024"
    assert facts["port right"] == "net_virtio_user, rings 1024/1024, 2 queues, 25 Gbit/s"
    assert result.loopback == Loopback(frames=5000, min_ns=90, p50_ns=210, p99_ns=480, max_ns=2100)
    (worker,), (counts,) = result.workers, result.streams
    assert worker.ports == ("left",), "those that its core was opened with"
    assert worker.gaps_longest == ((0.4012, 30100), (0.1, 20900))
    assert worker.frequency_hz == 2_600_000_000
    assert (counts.late, counts.reorder_distance_max, counts.largest_jump) == (0, 31, Jump(64, 0.4012))
    assert counts.jitter is not None and counts.jitter.p99_ns == 400


def test_an_aborted_trial_says_why_and_what_it_could_not_count_is_none():
    engine = instrument(scripted(HELLO, OPENED, ABORTED))
    engine.open()
    result = engine.run(replace(REQUEST, trial_id="ceiling"))
    engine.close()
    assert (result.completed, result.reason) == (False, "left: its link went down")
    assert (result.streams[0].sent, result.streams[0].received, result.streams[0].rx_port) == (100, None, None)
    assert (result.loopback, result.cache_line_before_ns, result.workers) == (None, None, ())


def test_a_run_asks_for_full_bursts_every_latency_the_engines_own_share_and_no_capture(tmp_path):
    heard = tmp_path / "heard"
    program = f"import sys\nfor reply in {[HELLO, OPENED, RESULT]!r}:\n    line = sys.stdin.readline()\n"
    program += f"    open({str(heard)!r}, 'a').write(line)\n    print(reply, flush=True)\nsys.stdin.read()\n"
    engine = instrument([sys.executable, "-c", program])
    engine.open()
    streams = (stream(share=3), stream(share=1, tx_port="right", rx_port="left"))
    engine.run(replace(REQUEST, streams=streams))
    engine.close()
    hello, opened, run = (json.loads(line) for line in heard.read_text().splitlines())
    assert (hello, opened["workers"]) == ({"type": "hello", "protocol": 9}, [{"core": 0, "ports": ["left"]}])
    asked = {key: run[key] for key in ("tx_burst", "latency_every", "loopback", "capture")}
    assert asked == {"tx_burst": 64, "latency_every": 1, "loopback": True, "capture": None}
    assert [stream["rate"] for stream in run["streams"]] == [{"fps": 750_000.0}, {"fps": 250_000.0}]


def test_a_backend_that_cannot_is_a_requirement_with_its_remedy():
    port = protocol.PortRequest("left", "af_packet", "x", None, 1, 1, ())
    request = protocol.Open(workers=(WORKER,), eal_args=(), ports=(port,), link_timeout_s=1.0)
    engine = ProcessInstrument(request, Local(), command=scripted(HELLO))
    with pytest.raises(RequirementError, match="run as root"):
        engine.open()
    engine.close()


@pytest.mark.parametrize(
    ("replies", "then", "words"),
    [
        ((HELLO, ERROR), "sys.stdin.read()", "No such device"),
        ((HELLO, "not json"), "sys.stdin.read()", "invalid message"),
        ((HELLO, '{"type":"open","ports":[],"extra":1}'), "sys.stdin.read()", "extra"),
        ((HELLO, '{"type":"bye"}'), "sys.stdin.read()", "Bye where Opened was expected"),
        ((HELLO.replace('"protocol":9', '"protocol":10'),), "sys.stdin.read()", "protocol 10"),
        ((HELLO,), "sys.exit(7)", "exited with code 7"),
        ((HELLO,), "import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
    ],
    ids=["error", "no JSON", "unknown key", "wrong message", "version", "exit", "kill"],
)
def test_whatever_the_engine_does_wrong_is_an_engine_error(replies, then, words):
    engine = instrument(scripted(*replies, then=then))
    with pytest.raises(EngineError, match=words):
        engine.open()
    engine.close()


def test_an_engine_whose_libraries_are_missing_says_which_and_what_provides_them(tmp_path):
    program = tmp_path / "engine"
    said = "engine: error while loading shared libraries: librte_eal.so.23: cannot open shared object file"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 127\n")
    program.chmod(0o755)
    engine = instrument([str(program)])
    with pytest.raises(
        NoLibrariesError, match=r"librte_eal\.so\.23: cannot open(.|\n)*apt-get install librte-meta-net"
    ):
        engine.open()
    engine.close()


def test_a_port_that_cannot_be_opened_comes_with_the_drivers_own_words(tmp_path):
    refusal = json.dumps({"type": "error", "code": "port_open", "message": "left: EPERM", "hint": None})
    command = scripted(HELLO, refusal)
    command[-1] = "import sys\nprint('vhost: not enough pages', file=sys.stderr, flush=True)\n" + command[-1]
    engine = instrument(command, log=tmp_path / "engine.log")
    with pytest.raises(EngineError, match=r"left: EPERM\n  \| vhost: not enough pages"):
        engine.open()
    engine.close()


NO_MEMORY = json.dumps({"type": "error", "code": "no_memory", "message": "rte_eal_init: no memory", "hint": None})


def no_memory(tmp_path, times):
    """An engine that lacks memory in its first starts; each start adds what it was asked to open to a file."""
    opens = tmp_path / "opens"
    program = f"""import sys
from pathlib import Path
opens = Path({str(opens)!r})
sys.stdin.readline()
print({HELLO!r}, flush=True)
with opens.open("a") as file: file.write(sys.stdin.readline())
print({NO_MEMORY!r} if len(opens.read_text().splitlines()) <= {times} else {OPENED!r}, flush=True)
sys.stdin.read()
"""
    return opens, instrument([sys.executable, "-c", program])


def test_an_engine_that_did_not_get_free_hugepages_is_started_once_more_and_explains_itself(tmp_path):
    opens, engine = no_memory(tmp_path, times=1)
    facts = engine.open()
    engine.close()
    asked = [json.loads(line)["eal_args"] for line in opens.read_text().splitlines()]
    assert asked == [[], [EXPLAIN_MEMORY]]
    assert facts["backend dpdk"] == "DPDK 22.11.11"


def test_an_engine_without_hugepages_is_not_started_a_third_time(tmp_path):
    opens, engine = no_memory(tmp_path, times=9)
    with pytest.raises(NoHugepagesError, match="no memory"):
        engine.open()
    engine.close()
    assert len(opens.read_text().splitlines()) == 2


def test_a_device_is_continued_if_the_engine_dies_while_it_is_stopped():
    device = subprocess.Popen(["sleep", "600"])
    try:
        state = f"open('/proc/{device.pid}/stat').read().split()[2]"
        stop = "sys.stdin.readline(); import os\n"
        stop += f"os.kill({device.pid}, 19)\nwhile {state} != 'T': pass\nos.kill(os.getpid(), 9)"
        engine = instrument(scripted(HELLO, OPENED, then=stop))
        engine.open()
        slices = Slices(((0,), (1,)), (0, 1), 0.02, 0.002, 0.006, ((), (device.pid,)))
        with pytest.raises(EngineError, match="killed by signal 9"):
            engine.run(replace(REQUEST, streams=(stream(), stream()), slices=slices))
        engine.close()
        deadline = time.monotonic() + 10.0
        while os.waitid(os.P_PID, device.pid, os.WCONTINUED | os.WNOHANG) is None:
            assert time.monotonic() < deadline, "still stopped"
            time.sleep(0.01)
    finally:
        device.kill()
        device.wait()


def test_a_stop_that_came_too_early_or_too_late_is_no_error():
    state = '{"type":"error","code":"state","message":"stop: no trial is running","hint":null}'
    engine = instrument(scripted(HELLO, OPENED, f"{state}\n{RESULT}"))
    engine.open()
    engine.stop()
    assert engine.run(REQUEST).completed
    engine.close()


def test_an_engine_that_ended_by_itself_before_its_go_and_its_stop_goes_on_with_the_next_trial():
    """Its answers to them come after the account, before it begins the next trial."""
    state = '{"type":"error","code":"state","message":"stop: no trial is running","hint":null}'
    begun, sent = (f'{{"type":"{word}","trial":"forward-0002"}}' for word in ("begun", "sent"))
    late = f"{state}\n{state}\n{begun}"
    engine = instrument(scripted(HELLO, OPENED, begun, sent, RESULT, late, sent, RESULT))
    message = changed(run_message(replace(REQUEST, streams=(stream(),))), on_go=True)
    engine.open()
    for _ in range(2):
        engine.begin(message)
        engine.go()
        engine.await_sent(message)
        engine.stop()
        assert engine.finish(message).completed
    engine.close()


def late_load(monkeypatch, client):
    """A load that ends only once it is asked to stop; `client` is what its account says."""
    monkeypatch.setattr(process, "GRACE_S", 0.3)
    monkeypatch.setattr(process, "SPARE_S", 0.0)
    told = [json.loads(line) for line in (GOLDEN_FOLDER / "connections.jsonl").read_text().splitlines()]
    asked, sample, result = (
        next(message for message in told if message["type"] == kind)
        for kind in ("connections", "connections_sample", "connections_result")
    )
    result = {**result, "status": "stopped", "client": client and {**result["client"], **client}}
    lines = "\n".join(json.dumps(message) for message in (sample, result))
    then = f"sys.stdin.readline()\nsys.stdin.readline()\nprint({lines!r}, flush=True)\nsys.stdin.read()"
    engine = instrument(scripted(HELLO, OPENED, then=then))
    engine.open()
    try:
        request = msgspec.json.decode(json.dumps(asked), type=ConnectionsRequest)
        return engine.connect(request, 0.1, lambda _: None)
    finally:
        engine.close()


def test_a_load_that_does_not_end_in_time_is_an_error_with_its_counts(monkeypatch):
    with pytest.raises(EngineError, match=r"did not end in time: 60 of 100 connections were opened, 7 had not ended"):
        late_load(monkeypatch, {"opened": 60, "unfinished": 7})


def test_a_load_whose_service_nobody_answers_for_is_stopped_and_has_an_account_without_a_client(monkeypatch):
    assert late_load(monkeypatch, None).client is None


def test_an_answer_for_another_trial_is_refused():
    engine = instrument(scripted(HELLO, OPENED, RESULT))
    engine.open()
    with pytest.raises(EngineError, match="instead of other"):
        engine.run(TrialRequest("other", 1, 0.1, 0.0, 1e6, (), ()))
    engine.close()


def test_a_missing_engine_is_told_with_what_to_do():
    with pytest.raises(EngineError, match="doctor"):
        instrument(["/no/such/engine"]).open()


def test_closing_ends_the_process_even_if_it_will_not(monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    engine = instrument(scripted(HELLO, OPENED, then="import time; time.sleep(600)"))
    engine.open()
    pid = engine.pid
    assert pid is not None
    engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    engine.close()


def test_a_reflector_takes_the_nics_and_the_memory_of_its_own_ports():
    ports = [protocol.PortRequest(name, "dpdk", f"0000:01:00.{k}", None, 256, 256, ()) for k, name in enumerate("ab")]
    workers = [protocol.WorkerRequest(core, (name,)) for core, name in enumerate("ab")]
    eal = ("-a", "0000:01:00.0", "-a", "0000:01:00.1", "--in-memory", "-m", "256")
    asked = protocol.Open(workers=tuple(workers), eal_args=eal, ports=tuple(ports), link_timeout_s=20.0)
    reflector = Reflector(asked, workers[1], Local(), command=["engine"])
    assert "--eal=-a 0000:01:00.1 --in-memory -m 128" in reflector._command
