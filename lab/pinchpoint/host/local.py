"""The machine on which the lab runs."""

import os
import socket

from pinchpoint.host.interface import Host

Local = Host
"""Made where a command begins, and handed down; benches and scenarios call something else a host."""


def exit_code(pid: int) -> int | None:
    """The exit code of a process that `spawn` started, once; of a killed one the signal, negative. None: it runs."""
    ended_pid, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended_pid else None


def reach(address: str, timeout_s: float) -> None:
    """Connect to HOST:PORT and hang up. Raises OSError where nothing answers."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
