"""What stands while it is measured: in which order its host is read."""

from types import SimpleNamespace

from pinchpoint.host.local import Local
from pinchpoint.measure.standing import Standing
from pinchpoint.observe.cpu import BenchProcesses, CpuTime


def test_the_time_of_cpus_holds_no_reading_of_processes() -> None:
    """A bracket reads its last collector last before the traffic and first after it."""
    bench = SimpleNamespace(host=Local(), setup=SimpleNamespace(places=SimpleNamespace(bench_id="0")))
    before, nearest = Standing.host_time(bench, (0,))  # type: ignore[arg-type]
    assert isinstance(before, BenchProcesses)
    assert isinstance(nearest, CpuTime)
