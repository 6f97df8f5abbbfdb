"""What `make bench-balancers` asks of balancers and reads of wrk."""

from functools import partial
from pathlib import Path

import balancer_rows
import pytest

from pinchpoint.model.scenario import Backend
from pinchpoint.model.trial import ThreadLoad

SAID = """Running 4s test @ http://10.0.0.100:80/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     4.21ms    1.07ms  21.86ms   88.12%
    Req/Sec    12.41k   310.11    13.02k    75.00%
  Latency Distribution
     50%    4.02ms
     99%    8.90ms
  {requests} requests in 4.00s, 6.95MB read
{errors}Requests/sec: {rate:>9}
Transfer/sec:      1.74MB
"""
ERRORS = "  Socket errors: connect {connect}, read {read}, write 0, timeout {timeout}\n"


def said(errors: str = "", rate: str = "12345.67", requests: int = 49_383) -> str:
    return SAID.format(errors=errors, rate=rate, requests=requests)


def test_of_wrk_the_rate_counts() -> None:
    assert balancer_rows.told(said()) == 12_345.67
    assert balancer_rows.told(said(rate="3.00", requests=12)) == 3.0
    assert balancer_rows.told(said(rate="1234567.89", requests=4_938_272)) == 1_234_567.89


@pytest.mark.parametrize("failed", ["connect", "read", "timeout"])
def test_more_connections_that_fail_than_of_ours_may_are_no_rate(failed: str) -> None:
    none = {"connect": 0, "read": 0, "timeout": 0}
    assert balancer_rows.told(said(ERRORS.format(**{**none, failed: 49}))) == 12_345.67
    with pytest.raises(RuntimeError, match=r"wrk says Socket errors: .*, of 49383 requests"):
        balancer_rows.told(said(ERRORS.format(**{**none, failed: 50})))


def test_answers_that_refuse_are_no_rate() -> None:
    with pytest.raises(RuntimeError, match="wrk says Non-2xx or 3xx responses: 7"):
        balancer_rows.told(said("  Non-2xx or 3xx responses: 7\n"))


@pytest.mark.parametrize(
    "words", ["unable to connect to 10.0.0.100:80 Connection refused\n", said(rate="0.00", requests=0)]
)
def test_without_an_answer_there_is_no_rate(words: str) -> None:
    with pytest.raises(RuntimeError, match="wrk was not answered"):
        balancer_rows.told(words)


def test_wrk_is_asked_for_one_thread_whole_seconds_and_a_connection_a_request() -> None:
    wanted = ["wrk", "-t1", "-c64", "-d4s", "-H", "Connection: close", "http://10.0.0.100:80/"]
    assert balancer_rows.asking("10.0.0.100", 80, balancer_rows.STEADY_S) == wanted
    assert "-d1s" in balancer_rows.asking("10.0.0.100", 80, balancer_rows.SMOKE_S)


def test_the_smoke_round_searches_no_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancer_rows, "absent", lambda *_: None)
    for is_short, run in ((True, balancer_rows.one_load), (False, balancer_rows.ours)):
        for contest in balancer_rows.contests(tmp_path, is_short):
            assert isinstance(contender := contest.contenders[0].run, partial) and contender.func is run


@pytest.mark.parametrize("kind", balancer_rows.KINDS)
def test_each_balancer_has_a_scenario_that_is_read(kind: str) -> None:
    scenario = balancer_rows.scenario(kind, 4.0)
    assert (scenario.dut.kind, len(scenario.service.backends if scenario.service else ())) == (kind, 3)


def test_the_server_listens_for_every_backend() -> None:
    text = balancer_rows.server(Path("/x/s"), [Backend("10.1.0.1", 80), Backend("10.1.0.1", 81)])
    assert "listen 10.1.0.1:80 backlog=4096; listen 10.1.0.1:81 backlog=4096; location" in text


def test_the_busiest_thread_is_noted_where_its_share_is_known() -> None:
    threads = [ThreadLoad("a", 1, 0, busy_share=0.2), ThreadLoad("b", 2, 0, busy_share=0.9), ThreadLoad("c", 3, 0)]
    assert balancer_rows.busiest(threads) == {"balancer busy %": 90.0}
    assert balancer_rows.busiest([ThreadLoad("c", 3, 0)]) == {}
