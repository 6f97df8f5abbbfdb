"""What a scenario asks of the engine: which ports, and which core drives each."""

from pathlib import PurePosixPath

import pytest

from pinchpoint.dut.ovs import OvsPlaces
from pinchpoint.scenario import parse
from pinchpoint.sweep.setup import engine_request

PLACES = OvsPlaces("b1", PurePosixPath("/run/pinchpoint/b1"))


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
    request = engine_request(scenario(ports, cpus), PLACES)
    assert [(worker.core, worker.ports) for worker in request.workers] == workers
    assert [port.name for port in request.ports] == ports


def test_over_veth_the_engine_opens_the_other_ends_in_their_namespace():
    (left, _) = engine_request(scenario(["left", "right"], [0], "af_packet"), PLACES).ports
    assert (left.backend, left.device, left.netns, left.answers) == ("af_packet", "left", "pp-b1-gen", ())
