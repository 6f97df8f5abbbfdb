"""The scenario of a service, a balancer that stands inside a test, and what verifies its service."""

import time
from contextlib import closing, contextmanager

from pinchpoint.dut import registry
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.connections import Load
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.served import ends_of
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench

FULL_NAT = 'local = "10.1.0.240-10.1.0.243"\n'
_BACKENDS = (("10.1.0.1", 8080), ("10.1.0.2", 8080), ("10.1.0.3", 8081))


def served(kind, service=FULL_NAT, *, measure="verify", dut="", tables="", backends=3, clients="10.0.1.1-10.0.1.50"):
    """A scenario of one service before a device of that kind: `service` and `dut` are lines of these tables."""
    ends = "".join(f'[[backend]]\naddress = "{address}"\nport = {port}\n' for address, port in _BACKENDS[:backends])
    return f"""
measure = "{measure}"
[dut]
kind = "{kind}"
{dut}
[service]
address = "10.0.0.100"
port = 80
clients = "{clients}"
{service}
{ends}
[[port]]
name = "clients"
[[port]]
name = "servers"
[engine]
cpus = [0]
{tables}
"""


@contextmanager
def standing(wanted):
    """The bench of `wanted` stands inside the block."""
    setup = prepare(wanted, Machines(Local()))
    missing = [probe for probe in registry.device_of(wanted).needs(wanted, Local()) if not probe.ok]
    assert not missing, missing
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        yield Standing(setup, live, [find_engine(Local())], Task(), time.monotonic())


@contextmanager
def serving(wanted):
    """The same; hands out the device and what takes the scenario's measure."""
    with standing(wanted) as bench:
        yield bench.live, lambda: measure_of(wanted).run(bench)


def overloaded(wanted, connections, timeout_s=2.0):
    """The device of `wanted` as more connections than it has places are opened: counters before, after, its limits."""
    with standing(wanted) as bench:
        live = bench.live
        before = counted(live)
        with ends_of(bench) as ends:
            client = ends.connect(Load(connections, 200.0, 2, timeout_s)).client
        return before, counted(live), {limit.resource: limit for limit in live.balancer().limits()}, client


def counted(live):
    """Every counter and gauge of the device."""
    counts = {}
    for collector in live.collectors():
        assert (why := collector.can_run()) is None, why
        snapshot = collector.snapshot()
        counts |= {**snapshot.counters, **snapshot.gauges}
    return counts
