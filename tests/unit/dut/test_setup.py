"""What a scenario asks of the engine: which ports, and which core drives each."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from msgspec import UNSET

from pinchpoint.bench.resource import Hugepages
from pinchpoint.dut.ovs.bench import hugepages_needed
from pinchpoint.dut.places import Places
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import engine_request, joint_request, prepare
from pinchpoint.host import hugepages
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.scenario import parse


def requested(wanted, name="b1"):
    """What the scenario asks of the engine on the bench of that name."""
    return engine_request(bench(wanted, name), wanted)


def bench(wanted, name):
    return device_of(wanted).bench(wanted, Places(name, PurePosixPath(f"/run/pinchpoint/{name}"), Local()))


def scenario(ports, cpus, datapath="dpdk"):
    tables = "".join(f'[[port]]\nname = "{name}"\n' for name in ports)
    return parse(
        f"""
[dut]
datapath = "{datapath}"
pmd_cpus = [9]
rules = "actions=drop"
{tables}
[engine]
cpus = {cpus}
[[stream]]
from = "{ports[0]}"
to = "{ports[1]}"
""",
        "x.toml",
    )


@pytest.mark.parametrize(
    ("ports", "cpus", "workers"),
    [
        (["left", "right"], [0], [(0, ("left", "right"))]),
        (["left", "right"], [0, 2], [(0, ("left",)), (2, ("right",))]),
        (["a", "b", "c", "d", "e"], [4, 0], [(4, ("a", "c", "e")), (0, ("b", "d"))]),
        (["a", "b", "c"], [1, 2, 3], [(1, ("a",)), (2, ("b",)), (3, ("c",))]),
    ],
)
def test_ports_are_dealt_to_the_engines_cpus_in_turn(ports, cpus, workers):
    request = requested(scenario(ports, cpus))
    assert [(worker.core, worker.ports) for worker in request.workers] == workers
    assert [port.name for port in request.ports] == ports


def test_over_veth_the_engine_opens_the_other_ends_in_their_namespace():
    (left, _) = requested(scenario(["left", "right"], [0], "af_packet")).ports
    assert (left.backend, left.device, left.netns, left.answers) == ("af_packet", "left", "pp-b1-gen", ())


@pytest.mark.parametrize(
    ("datapath", "asked", "backend"),
    [
        ("dpdk", "auto", "dpdk"),
        ("af_xdp", "auto", "af_xdp"),
        ("af_packet", "auto", "af_packet"),
        ("kernel", "auto", "af_packet"),
        ("af_packet", "xdp_live", "xdp_live"),
        ("af_xdp", "af_packet", "af_packet"),
    ],
)
def test_the_engines_backend_follows_the_datapath_unless_the_scenario_says_otherwise(datapath, asked, backend):
    plain = scenario(["left", "right"], [0], datapath)
    request = requested(replace(plain, engine=replace(plain.engine, backend=asked)))
    assert [port.backend for port in request.ports] == [backend, backend]
    assert [port.device.endswith(",rx=1") for port in request.ports] == [backend == "xdp_live"] * 2
    assert bool(request.eal_args) is (backend == "dpdk")


def test_a_backend_that_cannot_reach_the_ports_is_refused():
    plain = scenario(["left", "right"], [0])
    with pytest.raises(InputError, match=r"x.toml: engine.backend = 'af_xdp' does not reach ports of ovs dpdk"):
        requested(replace(plain, engine=replace(plain.engine, backend="af_xdp")))


def test_each_queue_of_a_port_has_a_core_of_the_engine():
    plain = scenario(["left", "right"], [0, 2])
    left, right = plain.ports
    request = requested(replace(plain, ports=(replace(left, queues=2), right)))
    assert [(worker.core, worker.ports) for worker in request.workers] == [(0, ("left",)), (2, ("left", "right"))]
    assert "queues=2," in request.ports[0].device
    with pytest.raises(RequirementError, match="port left has 3 queues, but the engine has 2 CPUs"):
        requested(replace(plain, ports=(replace(left, queues=3), right)))


def test_nics_are_named_to_the_engine_by_their_address():
    plain = scenario(["left", "right"], [0])
    left, right = plain.ports
    nic = replace(left, pci="0000:01:00.0", engine_pci="0000:02:00.0")
    request = requested(replace(plain, ports=(nic, right)))
    assert request.ports[0].device == "0000:02:00.0"
    assert request.eal_args[:2] == ("-a", "0000:02:00.0")


def test_the_engine_is_told_of_the_longest_frame_only_where_its_buffers_depend_on_it():
    plain = scenario(["left", "right"], [0])
    assert requested(plain).longest_frame_bytes == 1518
    jumbo = replace(plain, streams=tuple(replace(stream, frame_bytes=4000) for stream in plain.streams))
    both = {"A.": (plain, bench(plain, "b1")), "B.": (jumbo, bench(jumbo, "b2"))}
    assert joint_request(both).longest_frame_bytes == 4000
    assert requested(scenario(["left", "right"], [0], datapath="af_packet")).longest_frame_bytes is UNSET


def test_one_engine_opens_the_ports_of_two_benches_by_names_and_devices_of_their_own():
    plain = scenario(["left", "right"], [0])
    both = {"A.": (plain, bench(plain, "b1")), "B.": (plain, bench(plain, "b2"))}
    request = joint_request(both)
    assert [port.name for port in request.ports] == ["A.left", "A.right", "B.left", "B.right"]
    devices = [port.device.partition(",")[0] for port in request.ports]
    assert devices == [f"net_virtio_user{number}" for number in range(4)]
    assert "path=/run/pinchpoint/b2/vhost-left.sock" in request.ports[2].device
    assert [(worker.core, worker.ports) for worker in request.workers] == [
        (0, ("A.left", "A.right", "B.left", "B.right"))
    ]
    assert request.eal_args[-2:] == ("-m", "512")


@pytest.mark.parametrize("free", [0, 100, 600, 5000])
def test_two_benches_at_once_have_the_hugepages_of_both(monkeypatch, tmp_path, free):
    monkeypatch.setattr(hugepages, "pool", lambda _host: (1000, free))
    plain = scenario(["left", "right"], [0])
    first = prepare(plain, Machines(Local()), tmp_path)
    second = prepare(plain, Machines(Local()), tmp_path, beside=first)
    added = sum(hugepages.after - hugepages.before for bench in (first, second) for hugepages in pages(bench))
    assert free + added == max(free, 2 * hugepages_needed(plain))
    assert all(hugepages.before == first_one.after for hugepages in pages(second) for first_one in pages(first))
    assert first.places.directory != second.places.directory


def pages(bench):
    return [resource for resource in bench.resources if isinstance(resource, Hugepages)]


def test_a_device_says_how_small_its_smallest_ring_is():
    scenario = parse(
        """
        title = "reference"
        dut = {kind = "reference", cpus = [1], rate_fps = 1000, ring = 64}
        port = [{name = "left"}, {name = "right"}]
        engine = {cpus = [0]}
        stream = [{from = "left", to = "right"}]
        """,
        "reference.toml",
    )
    bench = device_of(scenario).bench(scenario, Places("", PurePosixPath("/"), Local()))
    assert [port.ring_behind for port in joint_request({"": (scenario, bench)}).ports] == [64, 64]
