"""`--host`: a command that looks or tidies, on another machine."""

from contextlib import AbstractContextManager
from typing import Final

import click

from pinchpoint.host.machines import standing_on
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Remote, is_destination

_LEASE_S: Final = 60.0  # of a connection that builds nothing
host_option = click.option(
    "--host", "address", metavar="HOST", help="On another machine, by the name that ssh(1) knows it by."
)


def at(address: str | None) -> AbstractContextManager[None]:
    """Inside, that machine is at hand; None: this one. Raises InputError if it is no destination."""
    if address is None:
        return standing_on(None)
    if not is_destination(address):
        raise InputError(
            f"--host: expected a destination of ssh(1), found {address!r}", "USER@HOST, or a Host of ssh_config"
        )
    return standing_on(Remote(address, address, sudo=True, lease_s=_LEASE_S))
