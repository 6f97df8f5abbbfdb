"""What `make bench-balancers` asks of balancers and reads of wrk."""

from pathlib import Path

import balancer_rows
import pytest

from pinchpoint.model.scenario import Backend
from pinchpoint.model.trial import ThreadLoad

SAID = """  3 requests in 1.00s, 450B read
  Socket errors: connect {connect}, read 5, write 0, timeout {timeout}
Requests/sec:  {rate}
"""


def test_of_wrk_the_rate_counts() -> None:
    assert balancer_rows.told(SAID.format(connect=0, timeout=0, rate="12345.67")) == 12_345.67
    assert balancer_rows.told("Requests/sec:      3.00\n") == 3.0


@pytest.mark.parametrize(
    "said", [SAID.format(connect=1, timeout=0, rate="9.0"), SAID.format(connect=0, timeout=2, rate="9.0")]
)
def test_connections_that_fail_are_no_rate(said: str) -> None:
    with pytest.raises(RuntimeError, match="wrk says Socket errors"):
        balancer_rows.told(said)


def test_answers_that_refuse_are_no_rate() -> None:
    with pytest.raises(RuntimeError, match="wrk says Non-2xx or 3xx responses: 7"):
        balancer_rows.told("  Non-2xx or 3xx responses: 7\nRequests/sec:  9.0\n")


@pytest.mark.parametrize("said", ["unable to connect", "Requests/sec:  0.00"])
def test_without_an_answer_there_is_no_rate(said: str) -> None:
    with pytest.raises(RuntimeError, match="wrk was not answered"):
        balancer_rows.told(said)


@pytest.mark.parametrize("kind", balancer_rows.KINDS)
def test_each_balancer_has_a_scenario_that_is_read(kind: str) -> None:
    scenario = balancer_rows.scenario(kind, 4.0)
    assert (scenario.dut.kind, len(scenario.service.backends if scenario.service else ())) == (kind, 3)


def test_a_server_listens_for_every_backend_of_its_address() -> None:
    text = balancer_rows.server(Path("/x/s"), [Backend("10.1.0.1", 80), Backend("10.1.0.1", 81)])
    assert "listen 10.1.0.1:80 backlog=4096; listen 10.1.0.1:81 backlog=4096; location" in text


def test_the_busiest_thread_is_noted_where_its_share_is_known() -> None:
    threads = [ThreadLoad("a", 1, 0, busy_share=0.2), ThreadLoad("b", 2, 0, busy_share=0.9), ThreadLoad("c", 3, 0)]
    assert balancer_rows.busiest(threads) == {"balancer busy %": 90.0}
    assert balancer_rows.busiest([ThreadLoad("c", 3, 0)]) == {}
