"""The steps by which `pinchpoint doctor --fix` provides what is missing: the commands, as they are run."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pinchpoint.bench.requirements import Probe, Remedy
from pinchpoint.cli.run import stop_on_signals
from pinchpoint.host.hugepages import NR_HUGEPAGES
from pinchpoint.host.interface import CommandFailed, Host, shell_line
from pinchpoint.model.errors import RequirementError

STEP_TIMEOUT_S = 1800.0  # packages come over the network
_POLICY: Final = "/usr/sbin/policy-rc.d"
_MARK: Final = "# Written by pinchpoint doctor --fix, which removes it again."
_QUIET: Final = (("DEBIAN_FRONTEND", "noninteractive"),)


@dataclass(frozen=True)
class Step:
    """One command as root; `items` of what was asked for come with it."""

    argv: tuple[str, ...]
    items: int = 0
    installs: bool = False  # Debian packages, whose services Debian would start

    def __str__(self) -> str:
        return shell_line(self.argv, None, None)


def steps(probes: Iterable[Probe], everything: bool = False, hugepages: int | None = None, pool: int = 0) -> list[Step]:
    """What to run for all that is missing and has a remedy; `everything`: also for what no common scenario needs.

    The pool of hugepages is never made smaller: others may count on it.
    """
    remedies = [one.remedy for one in probes if one.remedy and not one.ok and (one.needed or everything)]
    found = []
    if packages := _every(remedies, "packages"):
        found.append(Step(("apt-get", "update")))
        words = ("apt-get", "install", "--yes", "--no-remove", "--no-install-recommends", *packages)
        found.append(Step(words, len(packages), installs=True))
    if distributions := _every(remedies, "distributions"):
        found.append(Step((sys.executable, "-m", "pip", "install", *distributions), len(distributions)))
    found += [Step(("modprobe", name), 1) for name in _every(remedies, "modules")]
    if hugepages is not None and hugepages > pool:
        found.append(Step(("sysctl", "-w", f"vm.nr_hugepages={hugepages}"), 1))
    return found


def _every(remedies: Sequence[Remedy], what: str) -> list[str]:
    """Each once, in the order of the probes."""
    return list(dict.fromkeys(name for one in remedies for name in getattr(one, what)))


def services_stay(host: Host, wanted: Sequence[Step]) -> str:
    """What is also done while packages are installed; empty: nothing."""
    if any(step.installs for step in wanted) and (not host.exists(_POLICY) or _is_left(host)):
        return f"Meanwhile {_POLICY} keeps the new packages' services from starting; it is removed afterwards."
    return ""


def remove_left(host: Host) -> str:
    """Remove what a `doctor --fix` that was killed has left; returns what that was, empty: nothing."""
    if not _is_left(host):
        return ""
    host.run(["rm", "-f", _POLICY])
    return f"removed {_POLICY}, which kept services from starting: an earlier doctor --fix was killed"


def _is_left(host: Host) -> bool:
    return host.exists(_POLICY) and _MARK in host.read(_POLICY).splitlines()


def carry_out(host: Host, wanted: Sequence[Step], begins: Callable[[Step], None]) -> None:
    """Run them in order. Raises RequirementError at the first that fails; what was done before it stays."""
    _require_what_it_takes(host, wanted)
    with _services_stopped(host, wanted):
        for step in wanted:
            begins(step)
            try:
                host.run(step.argv, environment=_QUIET, timeout_s=STEP_TIMEOUT_S)
            except CommandFailed as error:
                raise RequirementError(
                    error.message, f"mend that, then again: pinchpoint doctor --fix ({step})"
                ) from error
    _require_reserved(host, wanted)


def _require_what_it_takes(host: Host, wanted: Sequence[Step]) -> None:
    for program in dict.fromkeys(step.argv[0] for step in wanted):
        if host.which(program) is None:
            hint = "the names are those of Debian: install the same programs by your system's own means"
            raise RequirementError(f"{program}: not installed, so that --fix cannot work here", hint)


@contextmanager
def _services_stopped(host: Host, wanted: Sequence[Step]) -> Iterator[None]:
    """The system's own switch is not ours to start (policy-rc.d, /usr/share/doc/init-system-helpers)."""
    if not services_stay(host, wanted):
        remove_left(host)
        yield
        return
    with stop_on_signals():
        try:
            host.write(_POLICY, f"#!/bin/sh\n{_MARK}\nexit 101\n")
            host.run(["chmod", "755", _POLICY])
            yield
        finally:
            host.run(["rm", "-f", _POLICY])


def _require_reserved(host: Host, wanted: Sequence[Step]) -> None:
    """The kernel may reserve fewer pages than it was asked for, and says nothing."""
    for step in wanted:
        if step.argv[0] == "sysctl":
            asked, found = int(step.argv[-1].partition("=")[2]), int(host.read(NR_HUGEPAGES))
            if found < asked:
                hint = "free memory, or boot with hugepages=N on the kernel's command line"
                raise RequirementError(f"the kernel reserved {found} of {asked} hugepages of 2 MiB", hint)
