"""What the tools of DPVS 1.10 print, and its log. A build of another release, or a damaged one, may print anything."""

import re
from dataclasses import dataclass
from typing import Final

from pinchpoint.model.errors import DutError

_LINK: Final = re.compile(r"^\d+: (\S+): socket ")
_CPU: Final = re.compile(r"^\d+: cpu(\d{1,4}): socket ")
_NAMES: Final = re.compile(r"^\s+((?:[a-z][a-z0-9_-]*\s+)+)$")
_NUMBERS: Final = re.compile(r"^\s+((?:\d{1,20}\s+)+)$")
_POOL: Final = re.compile(r"sa_used (\d{1,20}) sa_free (\d{1,20}) sa_miss (\d{1,20})")
_SERVER: Final = re.compile(r"^\s+-> (\S+)\s+(\d{1,20})\s")
_SETTING: Final = re.compile(r"^[A-Z_]+: (\w+) = (\d{1,12})\b", re.MULTILINE)


@dataclass(frozen=True)
class Pool:
    """Local addresses and ports, of all local addresses together."""

    used: int
    free: int
    misses: int  # connections for which none was free


def links(text: str) -> dict[str, dict[str, int]]:
    """`dpip -s link show`: port -> counter -> value. Raises DutError where no port is named."""
    return _blocks(text, _LINK, "dpip -s link show")


def cpus(text: str) -> dict[str, dict[str, int]]:
    """`dpip -s link show cpu`: number of a worker -> counter -> value. Raises DutError where none is named.

    pktburst: polls; zpktburst: those that brought nothing.
    """
    return _blocks(text, _CPU, "dpip -s link show cpu")


def _blocks(text: str, head: re.Pattern[str], command: str) -> dict[str, dict[str, int]]:
    """Lines of names, each followed by one of values, below a head."""
    blocks: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    names: list[str] = []
    for line in text.splitlines():
        if named := head.match(line):
            current, names = blocks.setdefault(named[1], {}), []
        elif words := _NAMES.match(f"{line} "):
            names = words[1].split()
        elif current is not None and names and (values := _NUMBERS.match(f"{line} ")):
            numbers = values[1].split()
            if len(numbers) == len(names):
                current |= dict(zip(names, map(int, numbers), strict=True))
            names = []
    if not blocks:
        raise DutError(f"{command} prints {text[:100]!r}")
    return blocks


def pool(text: str) -> Pool:
    """`dpip -s addr show`: an address without a pool of ports is left out. Raises DutError where none has one."""
    each = [tuple(map(int, row)) for row in _POOL.findall(text)]
    if not each:
        raise DutError(f"dpip -s addr show names no local port: {text[:100]!r}")
    used, free, misses = (sum(column) for column in zip(*each, strict=True))
    return Pool(used, free, misses)


def dealt(text: str) -> dict[str, int]:
    """`ipvsadm -ln --stats --exact`: connections dealt to each backend, by ADDRESS:PORT."""
    return {match[1]: int(match[2]) for line in text.splitlines() if (match := _SERVER.match(line))}


def settings(log: str) -> dict[str, int]:
    """What it took from its configuration file, as it says while it starts; the last line of a name counts."""
    return {name: int(value) for name, value in _SETTING.findall(log)}
