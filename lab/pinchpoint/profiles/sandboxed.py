"""Runs a profile without privileges and prints what it declares as one JSON object. Python's standard library alone.

Arguments: the profile's file, the direction (0 or 1), and its tunables as NAME=VALUE. The kernel keeps the profile from
everything (`host/confinement.py`); the audit hook (PEP 578) only lets it fail with the name of what it tried.
"""

import inspect
import io
import json
import os
import re
import sys
import traceback
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from pinchpoint.host.confinement import MEMORY_BYTES, enter
from pinchpoint.profiles.hlt import STLHltStream
from pinchpoint.profiles.stl import (
    LAYERS,
    MARK,
    NAMES,
    PACKETS,
    ProfileLineError,
    STLProfile,
    STLStream,
    UnsupportedError,
)

MOST_BYTES: Final = 1 << 20
# What profiles import; loaded before the interpreter's files may be out of reach.
_LIBRARY: Final = (
    "argparse", "base64", "collections", "copy", "datetime", "encodings.idna", "functools", "gettext", "ipaddress",
    "itertools", "locale", "math", "random", "shutil", "socket", "string", "struct", "textwrap", "time",
)  # fmt: skip
_API: Final = ("trex_stl_lib.api", "trex.stl.api", "trex.stl.trex_stl_streams",
               "trex.stl.trex_stl_packet_builder_scapy")  # fmt: skip
_HLT: Final = ("trex_stl_lib.trex_stl_hltapi", "trex.stl.trex_stl_hltapi")
_PACKETS: Final = ("scapy.all", "scapy.contrib.mpls", "scapy.layers.dns", "scapy.layers.l2", "scapy.layers.inet",
                   "scapy.layers.inet6", "scapy.layers.vxlan", "scapy.packet")  # fmt: skip
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_FORBIDDEN: Final = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.remove", "os.rename",
    "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.kill", "os.putenv",
    "shutil.", "ctypes.", "signal.", "pty.", "tempfile.",
)  # fmt: skip


def main() -> None:
    """Read the profile, give up every privilege, run it, print."""
    path, direction, *tunables = sys.argv[1:]
    with open(path, "rb") as file:
        source = file.read(MOST_BYTES + 1)
    for name in _LIBRARY:
        import_module(name)
    _stand_in()
    del sys.path[0]
    enter()
    printed, sys.stdout = sys.stdout, io.StringIO()
    declared = _declared(source, path, int(direction), tunables)
    printed.write(json.dumps(declared, allow_nan=False))
    printed.flush()
    os._exit(0)


def _stand_in() -> None:
    api: dict[str, Any] = {**NAMES, "os": os, "sys": sys}
    api |= {name: sys.modules[name] for name in ("binascii", "random", "socket", "string", "struct", "time")}
    hlt = {**api, "STLHltStream": STLHltStream}
    for names, held in ((_API, api), (_HLT, hlt), (_PACKETS, PACKETS)):
        for name in names:
            for count in range(1, name.count(".") + 2):
                word = ".".join(name.split(".")[:count])
                sys.modules.setdefault(word, ModuleType(word)).__dict__.setdefault("__path__", [])
            sys.modules[name].__dict__.update(held)


def _declared(source: bytes, path: str, direction: int, tunables: list[str]) -> dict[str, Any]:
    sys.addaudithook(_hook)
    errors, sys.stderr = sys.stderr, io.StringIO()
    try:
        if len(source) > MOST_BYTES:
            raise UnsupportedError(f"longer than {MOST_BYTES} bytes")
        scope: dict[str, Any] = {"__name__": "profile", "__file__": path, MARK: True}
        exec(compile(source, path, "exec"), scope)
        streams = _streams(scope, direction, tunables)
        return {"streams": [_out(stream) for stream in streams], "error": None}
    except BaseException as error:  # whatever a profile raises, SystemExit of its argument parser as well
        return {"streams": [], "error": {"line": _line(error, path), "message": _message(error)}}
    finally:
        sys.stderr = errors


def _streams(scope: dict[str, Any], direction: int, tunables: list[str]) -> list[Any]:
    register = scope.get("register")
    if register is None:
        raise UnsupportedError("register: missing; expected a function that returns the object with get_streams")
    get = getattr(register(), "get_streams", None)
    if get is None:
        raise UnsupportedError("register: expected an object with get_streams")
    return _flat(get(**_arguments(get, direction, tunables)))


def _flat(streams: Any) -> list[Any]:
    """The streams of profiles and of calls that make several, in their order."""
    streams = streams.get_streams() if isinstance(streams, STLProfile) else streams
    return [inner for stream in streams for inner in _flat(stream)] if isinstance(streams, list | tuple) else [streams]


def _arguments(get: Any, direction: int, tunables: list[str]) -> dict[str, Any]:
    """Of get_streams: tunables as words of a command line, or, where it takes none, by their names."""
    pairs = [tunable.split("=", 1) for tunable in tunables]
    taken = inspect.signature(get).parameters
    arguments: dict[str, Any] = {"direction": direction, "port_id": direction}
    if "tunables" in taken:
        arguments["tunables"] = [word for name, value in pairs for word in (f"--{name}", value)]
    else:
        arguments |= {name: _value(value) for name, value in pairs}
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values()):
        return arguments
    unknown = [name for name, _ in pairs if name not in taken and "tunables" not in taken]
    if unknown:
        raise UnsupportedError(f"tunable {unknown[0]}: get_streams has no such argument")
    return {name: value for name, value in arguments.items() if name in taken}


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _out(stream: Any) -> dict[str, Any]:
    if not isinstance(stream, STLStream):
        raise UnsupportedError(f"get_streams: expected a list of STLStream, found {type(stream).__name__}")
    try:
        return stream.out()
    except UnsupportedError as error:
        raise ProfileLineError(stream.line, str(error)) from error


def _line(error: BaseException, path: str) -> int:
    if isinstance(error, ProfileLineError):
        return error.line
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 1
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return (lines[-1] if lines else None) or 1


def _message(error: BaseException) -> str:
    if isinstance(error, UnsupportedError | ProfileLineError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"it needs more than {MEMORY_BYTES >> 20} MiB of memory"
    if isinstance(error, SystemExit):
        last = sys.stderr.getvalue().strip().splitlines()[-1:] if isinstance(sys.stderr, io.StringIO) else []
        return f"its argument parser ends it: {last[0] if last else error.code}"
    if isinstance(error, NameError) and error.name:
        layers = ", ".join(layer.__name__ for layer in LAYERS)
        return f"{error.name}: not supported: no layer of {layers}, and no name of the API that a scenario can follow"
    if isinstance(error, ImportError):
        return f"import {error.name}: not supported; it has the standard library, trex_stl_lib.api and scapy.all"
    return f"{type(error).__name__}: {error}"[:500]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = re.search("[wax+]", mode) if isinstance(mode, str) else isinstance(flags, int) and flags & _WRITES
        if writes:
            raise UnsupportedError(f"open({str(arguments[0])[:100]!r}): a profile may not write files")
    elif event.startswith(_FORBIDDEN):
        raise UnsupportedError(f"{event}: a profile may not do this")
