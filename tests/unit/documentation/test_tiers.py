"""Which behaviour is tested where: docs/testing.md is what the tests' marks say, and `make test` leaves nothing out."""

from collections.abc import Iterator

import click
import tiers

from pinchpoint.cli.main import cli
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.dut.registry import kinds
from pinchpoint.host.guest_kernels import AUTO, KERNELS
from pinchpoint.measure.registry import measures

LATER = {  # behaviours that cannot be shown within 30 s, or on most machines
    "device:dpvs": "needs a build of DPVS",
    "guest:qemu": "is emulated where KVM cannot be used, and boots for half a minute",
    "datapath:tc": "stands in a guest under qemu",
    "backend:xdp_live": "the engine's own tests try it",
}


def commands(group: click.Group, path: str = "") -> Iterator[str]:
    """The words of every command."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name


def test_the_page_is_what_the_marks_say() -> None:
    assert tiers.PAGE.read_text() == tiers.page(), "run: python tests/unit/tiers.py"


def test_every_file_of_tests_with_real_daemons_has_a_tier() -> None:
    assert tiers.without() == []


def test_make_test_shows_every_command_measure_device_and_way_to_attach_it() -> None:
    wanted = {
        *(f"command:{name}" for name in commands(cli)),
        *(f"measure:{measure.name}" for measure in measures()),
        *(f"device:{kind}" for kind in kinds()),
        *(f"datapath:{datapath}" for datapath in Datapath),
        *(f"guest:{kernel}" for kernel in (AUTO, *KERNELS)),
        *(f"backend:{name}" for name in ("dpdk", "af_xdp", "xdp_live", "af_packet")),
        "host:ssh",
    }
    shown = {behaviour for behaviour, tier in tiers.collected() if tier == 1}
    assert wanted - shown == LATER.keys()
