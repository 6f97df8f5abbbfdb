"""What a scenario may ask for is what can be done."""

from pinchpoint.bulk.making import VETH_METHODS
from pinchpoint.dut.device import made_by
from pinchpoint.dut.ovs import bulk
from pinchpoint.dut.registry import default, device

FOR_THE_BENCHMARK_ONLY = {"command"}  # one ovs-vsctl for all ports: its words outgrow a command line


def test_the_methods_of_a_scenario_are_those_of_its_builders():
    built = {"flows": bulk.FLOW_METHODS, "ports": bulk.PORT_METHODS, "veths": VETH_METHODS}
    offered = {
        what: [method for method in methods if method not in FOR_THE_BENCHMARK_ONLY] for what, methods in built.items()
    }
    assert offered == {what: list(builder.methods) for what, builder in made_by(device(default()).keys).items()}
