"""Workloads over kernel sockets: the lab's client against an engine of a few lines, and against the real one."""

import json
import os
import sys
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pinchpoint.engine import process
from pinchpoint.engine.process import EngineProcess, find_engine
from pinchpoint.engine.sockets import Place, SocketsRequest, SocketsSample
from pinchpoint.engine.workloads import Workloads, longest_s
from pinchpoint.host.local import Local
from pinchpoint.model.errors import EngineError, RequirementError

GOLDEN = Path(__file__).parents[3] / "protocol" / "golden"
SOCKETS = (GOLDEN / "sockets.jsonl").read_text().splitlines()
HELLO = (GOLDEN / "engine_to_lab.jsonl").read_text().splitlines()[0]
RR, CRR, STREAM = (msgspec.json.decode(line, type=SocketsRequest) for line in SOCKETS[:3])
SAMPLE = SOCKETS[3]

# Speaks the golden lines: of a workload, those that carry its trial's name.
FAKE_ENGINE = f"""
import json, os, sys
known = [(json.loads(line), line) for line in {SOCKETS[3:]!r}]
heard = open(sys.argv[1], "a")
for line in sys.stdin:
    heard.write(line)
    heard.flush()
    request = json.loads(line)
    if request["type"] == "hello":
        print({HELLO!r}, flush=True)
    elif request["type"] == "bye":
        print('{{"type":"bye"}}', flush=True)
        break
    else:
        for message, answer in known:
            if message["trial"] == request["trial"]:
                print(answer, flush=True)
"""


@pytest.fixture
def fake(tmp_path):
    """(the command of a fake engine, what reads the requests that it heard)."""
    heard = tmp_path / "heard"
    return (
        [sys.executable, "-c", FAKE_ENGINE, str(heard)],
        lambda: [json.loads(line) for line in heard.read_text().splitlines()],
    )


def scripted(*replies, then="sys.stdin.read()"):
    """An engine that greets, then answers the first request with `replies`, then does `then`."""
    program = f"import sys\nfor reply in {[HELLO, chr(10).join(replies)]!r}:\n    sys.stdin.readline()\n"
    program += f"    if reply:\n        print(reply, flush=True)\n{then}\n"
    return [sys.executable, "-c", program]


def run_workload(request, host, command=None, listener=None):
    """Start an engine, run one workload, end the engine."""
    with closing(Workloads(host, command=command)) as engine:
        engine.open()
        return engine.run(request, listener)


def error(code, message, hint=None):
    return json.dumps({"type": "error", "code": code, "message": message, "hint": hint})


def test_a_workload_is_asked_for_once_and_the_engine_is_ended(fake):
    command, heard = fake
    result = run_workload(RR, Local(), command=command)
    assert json.loads(msgspec.json.encode(result)) == json.loads(SOCKETS[4])
    assert heard() == [{"type": "hello", "protocol": 9}, json.loads(SOCKETS[0]), {"type": "bye"}]


def test_samples_reach_the_listener_before_the_result(fake):
    samples = []
    run_workload(RR, Local(), command=fake[0], listener=samples.append)
    assert [json.loads(msgspec.json.encode(sample)) for sample in samples] == [json.loads(SAMPLE)]


def test_an_aborted_workload_is_a_result_with_its_reason_and_what_mends_it(fake):
    result = run_workload(CRR, Local(), command=fake[0])
    assert (result.status, result.runs[0].failures.address_unavailable) == ("aborted", 98)
    assert result.reason is not None and "EADDRNOTAVAIL" in result.reason
    assert result.hint is not None and "give more sources" in result.hint


def test_what_a_stream_does_not_have_is_none_and_not_zero(fake):
    result = run_workload(STREAM, Local(), command=fake[0])
    run = result.runs[0]
    assert (run.transactions, run.latency, run.intended, result.transactions_per_s) == (None, None, None, None)
    assert result.goodput_bps is not None and result.goodput_bps.n == len(result.runs) == 2


def test_one_engine_runs_several_workloads(fake):
    command, heard = fake
    with closing(Workloads(Local(), command=command)) as engine:
        engine.open()
        trials = [engine.run(request).trial for request in (RR, STREAM, RR)]
    assert trials == ["rr-0001", "stream-0001", "rr-0001"]
    assert [request["type"] for request in heard()] == ["hello", "sockets", "sockets", "sockets", "bye"]


def test_a_listener_that_raises_ends_the_engine(fake):
    command, heard = fake

    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_workload(RR, Local(), command=command, listener=interrupted)
    assert heard()[-1] == {"type": "bye"}


def test_stop_ends_a_workload_with_its_result():
    stopped = SOCKETS[4].replace('"completed"', '"stopped"')
    wait = f"import json\nwhile json.loads(sys.stdin.readline())['type'] != 'stop':\n    pass\nprint({stopped!r})\n"
    engine = Workloads(Local(), command=scripted(SAMPLE, then=wait + "sys.stdout.flush()\nsys.stdin.read()"))
    with closing(engine):
        engine.open()
        result = engine.run(RR, listener=lambda _: threading.Thread(target=engine.stop).start())
    assert result.status == "stopped"


@pytest.mark.parametrize(
    ("replies", "then", "words"),
    [
        ((error("invalid", "sources[0]: ::1 cannot reach 10.0.0.2"),), "sys.stdin.read()", r"sources\[0\]"),
        ((error("port_open", "client.core 1023: EINVAL"),), "sys.stdin.read()", "core 1023"),
        ((error("internal", "the server's thread failed"),), "sys.stdin.read()", "thread failed"),
        ((error("malformed", "client.core: invalid type"),), "sys.stdin.read()", "invalid type"),
        ((SOCKETS[5],), "sys.stdin.read()", "crr-0001 instead of rr-0001"),
        ((SAMPLE.replace("rr-0001", "other"),), "sys.stdin.read()", "sample of other while rr-0001 ran"),
        ((SAMPLE.replace("}", ',"colour":"red"}'),), "sys.stdin.read()", "colour"),
        ((SAMPLE.replace(',"failed":0', ""),), "sys.stdin.read()", "missing required field `failed`"),
        (
            (
                '{"type":"sample","trial":"rr-0001","elapsed_s":1.0,"offered":1,"sent":1,"received":1,"lost":0,"gaps_ns":0,"gap_max_ns":0,"streams":[]}',
            ),
            "",
            "a sample of",
        ),
        (('{"type":"bye"}',), "sys.stdin.read()", "Bye where SocketsResult was expected"),
        ((SAMPLE,), "import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ((SAMPLE,), "sys.exit(3)", "exited with code 3"),
    ],
    ids=[
        "value",
        "core",
        "internal",
        "malformed",
        "another result",
        "another sample",
        "unknown key",
        "missing key",
        "a trial's sample",
        "wrong message",
        "kill",
        "exit",
    ],
)
def test_whatever_the_engine_does_wrong_is_an_engine_error(replies, then, words):
    with pytest.raises(EngineError, match=words):
        run_workload(RR, Local(), command=scripted(*replies, then=then))


def test_what_the_machine_lacks_is_a_requirement_with_its_remedy():
    reply = error("port_open", "client.netns 'lab-a': No such file or directory", "`ip netns list` shows what exists")
    with pytest.raises(RequirementError, match="lab-a") as caught:
        run_workload(RR, Local(), command=scripted(reply))
    assert caught.value.hint == "`ip netns list` shows what exists"


def test_an_engine_of_another_protocol_is_asked_for_nothing(tmp_path):
    asked = tmp_path / "asked"
    then = f"open({str(asked)!r}, 'w').write(sys.stdin.readline())"
    hello = HELLO.replace('"protocol":9', '"protocol":10')
    program = f"import sys\nsys.stdin.readline()\nprint({hello!r}, flush=True)\n{then}"
    with pytest.raises(EngineError, match="protocol 10"):
        run_workload(RR, Local(), command=[sys.executable, "-c", program])
    assert asked.read_text() == '{"type":"bye"}\n'


def test_an_engine_that_falls_silent_is_given_up_and_ended(monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    monkeypatch.setattr("pinchpoint.engine.workloads.OVERHEAD_S", 0.0)
    request = msgspec.structs.replace(RR, warm_up_s=0.0, duration_s=0.001, timeout_s=0.001)
    engine = Workloads(Local(), command=scripted(then="import time; time.sleep(600)"))
    engine.open()
    pid = engine.pid
    assert pid is not None
    with pytest.raises(EngineError, match="did not answer in time"):
        engine.run(request)
    engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_workload_may_take_its_time_and_every_timeout_in_every_repeat():
    request = msgspec.structs.replace(
        RR, warm_up_s=1.0, duration_s=2.0, timeout_s=10.0, connections=4, repeats=5, kind="rr"
    )
    assert longest_s(request) == 5 * (1.0 + 2.0 + 7 * 10.0 + 1.0)
    assert longest_s(msgspec.structs.replace(request, kind="crr")) == 5 * (1.0 + 2.0 + 3 * 10.0 + 1.0)


def cores():
    """The cores of the installed engine; skips the test where none is installed."""
    try:
        engine = EngineProcess(Local(), command=[find_engine(Local())])
    except RequirementError as error:
        pytest.skip(str(error))
    try:
        return engine.greet().cores
    finally:
        engine.close()


@pytest.mark.parametrize(("kind", "transport"), [("rr", "tcp"), ("crr", "tcp"), ("rr", "udp"), ("stream", "tcp")])
def test_the_real_engine_answers_with_an_account_that_closes(kind, transport):
    core = Place(netns=None, core=cores()[0])
    stream = kind == "stream"
    request = msgspec.structs.replace(
        STREAM,
        trial=f"real-{kind}",
        kind=kind,
        transport=transport,
        client=core,
        server=core,
        close="reset",
        wait="block",
        request_bytes=64,
        response_bytes=0 if stream else 64,
        warm_up_s=0.0,
        duration_s=0.2,
        sample_interval_s=0.05,
    )
    samples = []
    result = run_workload(request, Local(), listener=samples.append)
    assert (result.status, result.trial, len(result.runs)) == ("completed", f"real-{kind}", 2)
    assert samples and all(isinstance(sample, SocketsSample) for sample in samples)
    for run in result.runs:
        assert run.received_bytes > 0
        assert (run.transactions is None) is stream
        if run.transactions is not None:
            assert run.received_bytes == run.transactions * request.request_bytes
            assert run.latency is not None and run.latency.count == run.transactions
