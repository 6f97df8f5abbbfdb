"""`pinchpoint serve`: the workshop in the browser."""

import hashlib
import os
import secrets
import sys
from pathlib import Path

import click

from pinchpoint.cli.shelf import folders
from pinchpoint.model import units
from pinchpoint.model.errors import RequirementError
from pinchpoint.store.ceilings import default_path


@click.command(short_help="Look at runs, compare and start them, in the browser.")
@click.argument("folder", default="runs", type=click.Path(file_okay=False, path_type=Path), metavar="[FOLDER]")
@click.option("--port", type=click.IntRange(1, 65535), default=8642, show_default=True, help="TCP port, on loopback.")
@click.option(
    "--host",
    type=click.Choice(["127.0.0.1", "::1"]),
    default="127.0.0.1",
    show_default=True,
    help="Loopback only; from elsewhere by ssh -L 8642:127.0.0.1:8642 HOST.",
)
def serve(folder: Path, port: int, host: str) -> int:
    """Serve the runs below FOLDER (runs) to a browser on this machine, until Ctrl-C.

    Whoever reaches loopback may look. To stop, resume and start runs, open the printed address with its token; it
    holds until the server ends. What is started runs as this user: as root where this command does.
    """
    import uvicorn  # not to be imported by `pinchpoint --help`

    from pinchpoint.serve.acts import Acts
    from pinchpoint.serve.app import Workshop, application
    from pinchpoint.serve.guard import Guard
    from pinchpoint.serve.index import Index
    from pinchpoint.serve.pages import Pages
    from pinchpoint.serve.shelf import Shelf
    from pinchpoint.serve.shipped import Studies

    folder.mkdir(parents=True, exist_ok=True)
    shelf, token = Shelf(folder.resolve()), secrets.token_urlsafe(24)
    index = Index(shelf, index_path(shelf.root))
    click.echo(f"{folder}: {units.counted(index.refresh(), 'run')} indexed", err=True)
    guard = Guard(token, port)
    acts = Acts(shelf, (sys.executable, os.path.abspath(sys.argv[0])))  # noqa: PTH100
    app = application(Workshop(Pages(shelf, index), acts, guard, Studies(folders)))
    name = f"[{host}]" if ":" in host else host
    click.echo(f"http://{name}:{port}/?token={token}")
    try:
        uvicorn.run(
            app, host=host, port=port, log_level="warning", lifespan="off", server_header=False, access_log=False
        )
    except SystemExit as error:
        raise RequirementError(f"port {port} of {host} cannot be used", f"--port {port % 65535 + 1}") from error
    return 0


def index_path(root: Path) -> Path:
    """Where the index of a folder is kept: beside the ceilings, in a cache."""
    return default_path().parent / f"serve-{hashlib.sha256(str(root).encode()).hexdigest()[:16]}.sqlite3"
