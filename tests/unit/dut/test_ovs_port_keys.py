"""How ports of Open vSwitch are driven: the mode of AF_XDP, arguments of a NIC's driver."""

from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest

from pinchpoint.dut.ovs import DEVICE, bench, settings
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import switch_ports
from pinchpoint.dut.ovs.spec import cards
from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.scenario import parse

PLACES = OvsPlaces("b1", PurePosixPath("/run/pinchpoint/b1"), Local())
SCENARIO = """
[dut]
datapath = "{datapath}"
pmd_cpus = [1]
rules = "in_port={{left}},actions=output:{{right}}"
{dut}
[[port]]
name = "left"
{port}
[[port]]
name = "right"
[[stream]]
from = "left"
to = "right"
"""
NICS = 'pci = "0000:06:00.0"\nengine_pci = "0000:06:00.1"\n'


def scenario(datapath="af_xdp", dut="", port=""):
    return parse(SCENARIO.format(datapath=datapath, dut=dut, port=port), "x.toml")


@pytest.mark.parametrize("mode", ["native-with-zerocopy", "native", "generic", "best-effort"])
def test_every_port_has_the_mode_of_af_xdp_that_the_file_asks_for(mode):
    made = switch_ports(scenario(dut=f'xdp_mode = "{mode}"'), PLACES)
    assert [port.columns["options:xdp-mode"] for port in made] == [mode, mode]


def test_without_the_key_the_switch_chooses():
    assert all("options:xdp-mode" not in port.columns for port in switch_ports(scenario(), PLACES))


def told(mode, in_use):
    shown = "".join(
        f"  port {n}: {name} (afxdp: xdp-mode-in-use={in_use})\n" for n, name in enumerate(("left", "right"), 1)
    )
    places = SimpleNamespace(ask_vsctl=lambda *_: '{"data":[],"headings":["name","status"]}')
    control = SimpleNamespace(call=lambda *_: shown)
    return settings._port_modes(scenario(dut=f'xdp_mode = "{mode}"'), places, control)


def test_another_mode_than_was_asked_for_is_an_error():
    assert told("native", "native") == {"xdp mode of left": "native", "xdp mode of right": "native"}
    assert told("best-effort", "generic")["xdp mode of left"] == "generic"
    with pytest.raises(BenchError, match="xdp mode of left"):
        told("native", "generic")


def test_a_nic_has_the_arguments_of_its_driver_wherever_it_is_named():
    wanted = scenario("dpdk", port=f'{NICS}devargs = "dv_flow_en=1,mprq_en=0"')
    left = next(port for port in switch_ports(wanted, PLACES) if port.name == "left")
    assert left.columns["options:dpdk-devargs"] == '"0000:06:00.0,dv_flow_en=1,mprq_en=0"'
    assert bench._nics(wanted) == ("0000:06:00.0,dv_flow_en=1,mprq_en=0",)
    assert bench._nics(scenario("dpdk", port=NICS)) == ("0000:06:00.0",)


LOOP = """
[[bridge]]
name = "inner"
rules = "in_port={near},actions=output:{to-br0}"
[[nic]]
name = "far"
pci = "0000:05:00.0"
[[nic]]
name = "near"
bridge = "inner"
pci = "0000:05:00.1"
queues = 2
devargs = "dv_flow_en=1"
[[patch]]
from = "br0"
to = "inner"
"""


def looped(datapath="dpdk", more=LOOP):
    text = SCENARIO.format(datapath=datapath, dut="", port="").replace("output:{right}", "output:{far}")
    return parse(f"{text}\n{more}", "x.toml")


def test_two_nics_of_the_switch_are_a_loop_between_two_of_its_bridges():
    wanted = looped()
    made = {port.name: port for port in switch_ports(wanted, PLACES)}
    assert (made["far"].bridge, made["near"].bridge) == ("br0", "inner")
    assert made["near"].columns == {
        "type": "dpdk",
        "options:dpdk-devargs": '"0000:05:00.1,dv_flow_en=1"',
        "options:n_rxq": "2",
    }
    assert bench._nics(wanted) == ("0000:05:00.0", "0000:05:00.1,dv_flow_en=1")
    assert cards(wanted).of_device == {"far": "0000:05:00.0", "near": "0000:05:00.1"}
    assert (made["left"].number, made["right"].number, made["far"].number) == (1, 2, 4), "the others keep theirs"
    assert DEVICE.freezing(wanted).why_not == "both benches would need the NICs"


@pytest.mark.parametrize(
    ("datapath", "more", "problem"),
    [
        ("af_packet", LOOP, 'nic[1]: expected dut.datapath = "dpdk" with [[nic]], found "af_packet"'),
        ("dpdk", LOOP.replace("05:00.1", "05:00.0"), "nic[2].pci: expected one that nothing else has"),
        (
            "dpdk",
            LOOP.replace('name = "near"', 'name = "left"'),
            'nic[2].name: expected a unique name, found "left" again',
        ),
        ("dpdk", LOOP.replace('bridge = "inner"', 'bridge = "outer"'), "nic[2].bridge: expected the name of a bridge"),
    ],
)
def test_a_nic_that_does_not_fit_is_told_with_its_key(datapath, more, problem):
    with pytest.raises(InputError) as error:
        looped(datapath, more)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"datapath": "dpdk", "dut": 'xdp_mode = "native"'}, 'dut.xdp_mode: expected dut.datapath = "af_xdp" with it'),
        ({"dut": 'xdp_mode = "fast"'}, 'dut.xdp_mode: expected "native-with-zerocopy" or "native" or "generic"'),
        ({"datapath": "dpdk", "port": 'devargs = "a=1"'}, "port[1].devargs: expected none where the port is no NIC"),
        (
            {"datapath": "dpdk", "port": f'{NICS}devargs = "a=1 -a 0000:07:00.0"'},
            "port[1].devargs: expected driver arguments such as",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_key(changes, problem):
    with pytest.raises(InputError) as error:
        scenario(**changes)
    assert problem in str(error.value)
