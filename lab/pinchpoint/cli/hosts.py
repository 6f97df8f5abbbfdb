"""`--host`: a command that looks or tidies, on another machine."""

from typing import Final

import click

from pinchpoint.host.interface import Host
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Remote, is_destination

_LEASE_S: Final = 60.0  # of a connection that builds nothing
host_option = click.option(
    "--host", "address", metavar="HOST", help="On another machine, by the name that ssh(1) knows it by."
)


def host_at(address: str | None) -> Host:
    """That machine, connected; None: this one. Raises InputError if it is no destination, RequirementError."""
    if address is None:
        return Local()
    if not is_destination(address):
        raise InputError(
            f"--host: expected a destination of ssh(1), found {address!r}", "USER@HOST, or a Host of ssh_config"
        )
    return Machines(Local()).opened(Remote(address, address, sudo=True, lease_s=_LEASE_S))
