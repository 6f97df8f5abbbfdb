"""Commands that serve: `otg` a traffic generator and `serve` the workshop, on loopback; `mcp` on standard input."""

import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinchpoint.cli.options import FOLDER, RUNS, study_folders
from pinchpoint.cli.run import stop_on_signals
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model import units
from pinchpoint.model.errors import InputError, RequirementError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

EXAMPLE = """\b
Example:
  pinchpoint otg veth0@ns1 veth1@ns2
  python -c 'import snappi; snappi.api(location="http://127.0.0.1:8443")'
"""
_AGAIN = (sys.executable, "-P", "-m", "pinchpoint")
"""How this command calls the others."""
_LOOPBACK = click.Choice(["127.0.0.1", "::1"])


@click.command(short_help="Let snappi scripts (Open Traffic Generator) drive the engine.", epilog=EXAMPLE)
@click.argument("ports", nargs=-1, required=True, metavar="PORT...")
@click.option("--port", type=click.IntRange(1, 65535), default=8443, show_default=True, help="TCP port, on loopback.")
@click.option("--host", type=_LOOPBACK, default="127.0.0.1", show_default=True, help="Loopback only.")
@click.option("--core", type=click.IntRange(0), help="CPU that sends and receives.  [default: the last one allowed]")
def otg(ports: tuple[str, ...], port: int, host: str, core: int | None) -> int:
    """Serve the traffic part of the Open Traffic Generator model by REST, until Ctrl-C.

    A script may use each PORT by its location: veth0, veth1@ns2, af_xdp:eth0, mem:pair, or LOCATION=PORT, as in
    localhost:5555=veth0@ns1. Whoever reaches loopback may send on these ports, and on no others. docs/otg.md says which
    fields are supported; any other is refused by its name.
    """
    from pinchpoint.otg.app import application
    from pinchpoint.otg.generator import Generator, allowed, require_devices

    places = allowed(ports)
    lab = Local()
    require_devices(places, lab)
    cpus = lab.cpus()
    if core is not None and core not in cpus:
        raise InputError(f"--core {core}: not allowed to this process", f"one of {', '.join(map(str, sorted(cpus)))}")
    # uvicorn raises a signal anew when it has ended: SIGTERM must not end the process before the folder is removed.
    with stop_on_signals(), tempfile.TemporaryDirectory(prefix="pinchpoint-otg-") as folder:
        generator = Generator(places, max(cpus) if core is None else core, Path(folder), lab)
        try:
            _listen(application(generator, port), host, port)
        finally:
            generator.close()
    return 0


@click.command(short_help="Look at runs, compare and start them, in the browser.")
@click.argument("folder", default=str(RUNS), type=FOLDER, metavar="[FOLDER]")
@click.option("--port", type=click.IntRange(1, 65535), default=8642, show_default=True, help="TCP port, on loopback.")
@click.option("--host", type=_LOOPBACK, default="127.0.0.1", show_default=True,
              help="Loopback only; from elsewhere by ssh -L 8642:127.0.0.1:8642 HOST.")  # fmt: skip
def serve(folder: Path, port: int, host: str) -> int:
    """Serve the runs below FOLDER (runs) to a browser on this machine, until Ctrl-C.

    Whoever reaches loopback may look. To stop, resume and start runs, open the printed address with its token; it
    holds until the server ends. What is started runs as this user: as root where this command does.
    """
    from pinchpoint.serve.acts import Acts
    from pinchpoint.serve.app import Workshop, application
    from pinchpoint.serve.guard import Guard
    from pinchpoint.serve.index import index_of
    from pinchpoint.serve.pages import Pages
    from pinchpoint.serve.shelf import Studies

    index, token = index_of(_runs_below(folder, "serve")), secrets.token_urlsafe(24)
    click.echo(f"{folder}: {units.counted(index.refresh(), 'new run')} indexed", err=True)
    guard = Guard(token, port)
    acts, pages = Acts(index.shelf, _AGAIN), Pages(index.shelf, index)
    app = application(Workshop(pages, acts, guard, Studies(study_folders, Machines(Local()))))
    _listen(app, host, port, f"/?token={token}")
    return 0


@click.command(short_help="Let an MCP client read runs and check scenarios.")
@click.argument("folder", default=str(RUNS), type=FOLDER, metavar="[FOLDER]")
@click.option("--allow-run", is_flag=True, help="Also let the client start runs, as this user.")
def mcp(folder: Path, allow_run: bool) -> int:
    """Answer a client of the Model Context Protocol on standard input and output, about the runs below FOLDER (runs).

    It can check scenarios, print their plans, and list, show, explain and compare stored runs; nothing else without
    --allow-run. The client starts this command; it ends when its input does. Needs pip install 'pinchpoint[mcp]'.
    """
    try:
        from pinchpoint.mcp.server import McpTools, server_of
    except ModuleNotFoundError as error:
        raise RequirementError(f"{error.name}: not installed", "pip install 'pinchpoint[mcp]'") from None
    from pinchpoint.serve.acts import Acts
    from pinchpoint.serve.index import index_of

    index = index_of(_runs_below(folder, "mcp"))
    tools = McpTools(Acts(index.shelf, _AGAIN), index, Local())
    server_of(tools, allow_run).run("stdio")
    return 0


def _runs_below(folder: Path, command: str) -> Path:
    """The folder of runs; the default one is made where it is missing. Raises InputError."""
    if folder != RUNS and not folder.is_dir():
        hint = f"pinchpoint {command} FOLDER, with runs in it; {RUNS} is the default"
        raise InputError(f"{folder}: no such folder", hint)
    folder.mkdir(exist_ok=True)
    return folder.resolve()


def _listen(app: "ASGIApp", host: str, port: int, path: str = "") -> None:
    """Print the address and answer until a signal. Raises RequirementError if the port is taken."""
    import uvicorn  # not to be imported by `pinchpoint --help`

    click.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}{path}")
    try:
        uvicorn.run(
            app, host=host, port=port, log_level="warning", lifespan="off", server_header=False, access_log=False
        )
    except SystemExit as error:
        raise RequirementError(f"port {port} of {host} cannot be used", f"--port {port % 65535 + 1}") from error
