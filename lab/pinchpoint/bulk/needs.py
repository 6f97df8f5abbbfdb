"""What a build needs of the bench beside the switch, as resources: so it is planned, journalled and undone with it."""

from pinchpoint.bench.resource import AnyResource, Namespace, TapLinks
from pinchpoint.dut.ovs.bench import OvsPlaces
from pinchpoint.model.scenario import Build


def veth_namespaces(places: OvsPlaces) -> tuple[str, str]:
    """The two that veth pairs are made between; they hold nothing else."""
    return f"pp-{places.bench_id}-near", f"pp-{places.bench_id}-far"


def resources(build: Build | None, places: OvsPlaces) -> tuple[AnyResource, ...]:
    """To be built after the switch, hence removed before it; nothing for a scenario that builds nothing."""
    if build is None:
        return ()
    if build.what == "veths":
        return tuple(Namespace(name) for name in veth_namespaces(places))
    return (TapLinks(places.dut_netns),) if build.what == "ports" else ()
