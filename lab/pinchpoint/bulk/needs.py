"""What a build needs of the bench beside the switch, as resources: so it is planned, journalled and undone with it."""

from pinchpoint.bench.resource import AnyResource, Namespace
from pinchpoint.model.scenario import Batch, Measure


def veth_namespaces(bench_id: str) -> tuple[str, str]:
    """The two that veth pairs are made between; they hold nothing else."""
    return f"pp-{bench_id}-near", f"pp-{bench_id}-far"


def resources(measure: Measure, bench_id: str) -> tuple[AnyResource, ...]:
    """To be built after the device, hence removed before it; nothing for a scenario that makes no pairs."""
    if not isinstance(measure, Batch) or measure.what != "veths":
        return ()
    return tuple(Namespace(name) for name in veth_namespaces(bench_id))
