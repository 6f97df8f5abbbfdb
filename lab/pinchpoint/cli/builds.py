"""Builds of a device's program: the program itself, a folder that it was built or installed into, or a package."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError

PACKAGE: Final = ".deb"


def program_of(build: Path, name: str, stack: ExitStack) -> Path:
    """The program called `name`, or `name-VARIANT`, of a build. A package is unpacked until `stack` is closed.

    A link of a package that leads out of it is refused: it would lead to a program of this machine, not of the build.

    Raises InputError if there is none or more than one, RequirementError if a package cannot be unpacked here.
    """
    if build.is_file() and build.suffix != PACKAGE:
        return build.resolve()
    folder, is_package = build, False
    if build.suffix == PACKAGE and build.is_file():
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="pinchpoint-package-")))
        Local().run(("dpkg-deb", "--extract", str(build), str(folder)))
        is_package = True
    programs = sorted(dict.fromkeys(_programs(folder.resolve(), name)))
    for path in programs if is_package else ():
        if not path.resolve().is_relative_to(folder.resolve()):
            link = f"/{path.relative_to(folder.resolve())} leads out of the package, to {path.resolve()}"
            raise InputError(f"{build}: {link}", "give the package that holds the program, or the program's own path")
    if len(programs) != 1:
        names = ", ".join(map(str, programs)) or f"no program called {name}"
        raise InputError(f"{build}: expected one program called {name}, found {names}", "give the program's own path")
    return programs[0]


def _programs(folder: Path, name: str) -> Iterator[Path]:
    for path in folder.rglob(f"{name}*"):
        is_called_so = path.name == name or path.name.startswith(f"{name}-")
        if is_called_so and not path.suffix and path.is_file() and os.access(path, os.X_OK):
            resolved = path.resolve()
            yield resolved if resolved.is_relative_to(folder) and resolved.name.startswith(name) else path
