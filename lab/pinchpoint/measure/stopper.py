"""How a signal ends what is not a trial."""

from pinchpoint.measure.trial import Interrupted


class Stopper:
    """Turns a signal into Interrupted at the next place where building may stop, a fraction of a second on."""

    def __init__(self) -> None:
        self._stopping = False

    def stop(self) -> None:
        """Lets the next `check` raise; signal handlers call it."""
        self._stopping = True

    def check(self) -> None:
        """Raises Interrupted once it was asked to stop."""
        if self._stopping:
            raise Interrupted("interrupted", "pinchpoint run --resume RUN makes this build again")
