"""`pinchpoint otg`: Open Traffic Generator on loopback."""

import tempfile
from pathlib import Path

import click

from pinchpoint.cli.run import stop_on_signals
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError, RequirementError

EXAMPLE = """\b
Example:
  pinchpoint otg veth0@ns1 veth1@ns2
  python -c 'import snappi; snappi.api(location="http://127.0.0.1:8443")'
"""


@click.command(short_help="Let snappi scripts (Open Traffic Generator) drive the engine.", epilog=EXAMPLE)
@click.argument("ports", nargs=-1, required=True, metavar="PORT...")
@click.option("--port", type=click.IntRange(1, 65535), default=8443, show_default=True, help="TCP port, on loopback.")
@click.option(
    "--host", type=click.Choice(["127.0.0.1", "::1"]), default="127.0.0.1", show_default=True, help="Loopback only."
)
@click.option("--core", type=click.IntRange(0), help="CPU that sends and receives.  [default: the last one allowed]")
def otg(ports: tuple[str, ...], port: int, host: str, core: int | None) -> int:
    """Serve the traffic part of the Open Traffic Generator model by REST, until Ctrl-C.

    A script may use each PORT by its location: veth0, veth1@ns2, af_xdp:eth0, mem:pair, or LOCATION=PORT, as in
    localhost:5555=veth0@ns1. Whoever reaches loopback may send on these ports, and on no others. docs/otg.md says which
    fields are supported; any other is refused by its name.
    """
    import uvicorn  # not to be imported by `pinchpoint --help`

    from pinchpoint.otg.app import application
    from pinchpoint.otg.generator import Generator
    from pinchpoint.otg.locations import allowed, require_devices

    places = allowed(ports)
    lab = Local()
    require_devices(places, lab)
    cpus = lab.cpus()
    if core is not None and core not in cpus:
        raise InputError(f"--core {core}: not allowed to this process", f"one of {', '.join(map(str, sorted(cpus)))}")
    # uvicorn raises a signal anew when it has ended: SIGTERM must not end the process before the folder is removed.
    with stop_on_signals(), tempfile.TemporaryDirectory(prefix="pinchpoint-otg-") as folder:
        generator = Generator(places, max(cpus) if core is None else core, Path(folder), lab)
        name = f"[{host}]" if ":" in host else host
        click.echo(f"http://{name}:{port}")
        try:
            uvicorn.run(
                application(generator, port), host=host, port=port, log_level="warning", lifespan="off",
                server_header=False, access_log=False,
            )  # fmt: skip
        except SystemExit as error:
            raise RequirementError(f"port {port} of {host} cannot be used", f"--port {port % 65535 + 1}") from error
        finally:
            generator.close()
    return 0
