"""Real proxies as balancers: what they do with a service, what bounds them, what they count."""

import signal
import time
from contextlib import closing, contextmanager

import pytest
from bench_tools import wait_for
from serving_tools import served

from pinchpoint.dut import registry
from pinchpoint.dut.proxy_live import REUSED_S
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.connections import Load
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.processes import alive
from pinchpoint.measure.served import ends_of
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.measure.verify.judged import checks
from pinchpoint.model.limits import Resource
from pinchpoint.model.scenario import Change
from pinchpoint.observe.snapshot import Bracket
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("proxies as balancers")]
BACKENDS = 3
PORTS = 4  # of the local address towards each backend
PLACES = BACKENDS * PORTS
FOUR = "10.1.0.240-10.1.0.243"
NO_PORT = {  # the counter that rises where no local port is free
    "haproxy": "haproxy/no_free_port",
    "nginx": "nginx/connect/no_local_port",
    "envoy": "envoy/without_syn",
}


class Proxy:
    """A proxy that stands, with what opens connections through it."""

    def __init__(self, bench, ends, pids):
        self.wanted, self.live, self.pids, self._ends = bench.scenario, bench.live, pids, ends

    def opens(self, count, timeout_s=20.0):
        """What became of `count` connections, and what was counted meanwhile."""
        bracket = Bracket(self.live.collectors())
        assert bracket.cannot == {}
        bracket.open()
        account = self._ends.connect(Load(count, 100.0, 1, timeout_s))
        return account.client, bracket.close().flat()


@contextmanager
def standing(kind, scheduler="round-robin", local="10.1.0.240", more="", dut=""):
    service = f'scheduler = "{scheduler}"\nlocal = "{local}"\n{more}'
    wanted = parse(served(kind, service, dut=dut), "proxy.toml")
    setup = prepare(wanted, Machines(Local()))
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        pids = [live.pid, *(int(task.split("/")[2]) for task in live.tasks())]
        bench = Standing(setup, live, [find_engine(Local())], Task(), time.monotonic())
        with ends_of(bench) as ends:
            yield Proxy(bench, ends, pids)
    assert alive(Local(), pids) == [], "also those without the mark of the bench in their environment"


@pytest.mark.parametrize("kind", NO_PORT)
def test_a_proxy_deals_in_turn_until_its_local_ports_wait_and_forgets_them_when_flushed(kind):
    with standing(kind, more='local_ports = "2000-2003"') as bench:
        balancer = bench.live.balancer()
        ports = next(limit for limit in balancer.limits() if limit.resource is Resource.LOCAL_PORTS)
        assert (ports.size, ports.sustained_cps) == (PLACES, PLACES / 60)
        client, seen = bench.opens(PLACES)
        assert [check for check in checks(bench.wanted.service, client) if not check.is_right] == []
        assert ports.used in seen
        wait_for(lambda: balancer.tracked() == PLACES, "one socket of each connection in TIME_WAIT", 20.0)
        with balancer.doubled(Resource.LOCAL_PORTS) as what:
            assert "2000 2007 instead of 2000 2003" in what
            client, _ = bench.opens(PLACES)
            assert client.completed == PLACES
        client, seen = bench.opens(2, timeout_s=1.0)
        assert client.answered == 0
        assert seen[NO_PORT[kind]] >= 2
        assert ports.refused[0] == NO_PORT[kind]
        assert seen["host/tcp/AttemptFails"] == 0, "no backend refused"
        balancer.flush()
        assert balancer.tracked() == 0
        client, _ = bench.opens(PLACES)
        assert client.completed == PLACES


@pytest.mark.parametrize("kind", NO_PORT)
def test_a_proxy_uses_ports_in_time_wait_again_where_both_ends_send_time_stamps(kind):
    ports = 'local_ports = "2000-2003"'
    with standing(kind, more=f"{ports}\ntimestamps = true", dut="tcp_tw_reuse = 1") as bench:
        limit = next(limit for limit in bench.live.balancer().limits() if limit.resource is Resource.LOCAL_PORTS)
        assert (limit.size, limit.held_s, limit.used) == (PLACES, REUSED_S, "")
        for _ in range(3):
            client, _ = bench.opens(PLACES)
            assert (client.completed, client.stamped) == (PLACES, PLACES)
            time.sleep(REUSED_S)
    with standing(kind, more=ports, dut="tcp_tw_reuse = 1") as bench:
        client, _ = bench.opens(PLACES)
        assert (client.completed, client.stamped) == (PLACES, 0)
        time.sleep(REUSED_S)
        client, _ = bench.opens(2, timeout_s=1.0)
        assert client.answered == 0, "without time stamps a port waits for a minute"


@pytest.mark.parametrize(
    ("kind", "local"),
    [
        pytest.param("haproxy", FOUR, marks=pytest.mark.tier1("device:haproxy")),
        pytest.param("nginx", FOUR, marks=pytest.mark.tier1("device:nginx")),
        pytest.param("envoy", "10.1.0.240", marks=pytest.mark.tier1("device:envoy")),
    ],
)
def test_a_proxy_deals_by_a_hash_and_says_with_which_settings_it_runs(kind, local):
    with standing(kind, "hash", local, "max_connections = 2000\nestablished_s = 30") as bench:
        settings, limits = (
            bench.live.settings(),
            {limit.resource: limit.size for limit in bench.live.balancer().limits()},
        )
        client, seen = bench.opens(120)
    assert [check for check in checks(bench.wanted.service, client) if not check.is_right] == []
    assert limits[Resource.TABLE] == 2000
    assert limits[Resource.DESCRIPTORS] == int(settings["descriptors"]) // 2 == 8192
    assert settings["backlog"] == settings["net.core.somaxconn"] == "4096"
    assert settings["CPUs of worker-1"] == "1"
    (load,) = registry.device(kind).loads(seen, 1.2)
    assert load.cpu == 1 and load.busy_share > 0


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_a_reload_has_new_workers_and_keeps_dealing(kind):
    with standing(kind) as bench:
        before = bench.live.tasks()
        action = bench.live.action(Change("reload", 1, {}), ())
        action.act(lambda: None)
        assert set(bench.live.tasks()) - set(before)
        client, _ = bench.opens(BACKENDS)
    assert client.completed == BACKENDS


def test_a_worker_whose_master_was_killed_ends_with_the_bench():
    with standing("nginx") as bench:
        Local().signal([bench.live.pid], signal.SIGKILL)
        wait_for(lambda: not alive(Local(), [bench.pids[0]]), "the end of the master", 20.0)
        assert alive(Local(), bench.pids), "its worker still runs"
