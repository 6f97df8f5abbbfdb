"""What collectors have in common that read what a command prints."""

from collections.abc import Sequence

from pinchpoint.host.interface import CommandFailed, Host


class Printed:
    """The reading of one command; it can be made where the command runs."""

    def __init__(self, host: Host, argv: Sequence[str], netns: str | None = None) -> None:
        self._host, self._argv, self._netns = host, list(argv), netns

    def can_run(self) -> str | None:
        """Needs the command, and a kernel that answers it."""
        try:
            self._read()
        except CommandFailed as error:
            return error.message
        return None

    def _read(self) -> str:
        """What it prints. Raises CommandFailed or RequirementError."""
        return self._host.run(self._argv, self._netns)
