"""The service's rules replaced while connections are opened: `nft -f` takes a file as one transaction (nft(8), -f)."""

from collections.abc import Iterable

from pinchpoint.dut.nft import balancing
from pinchpoint.dut.places import Places
from pinchpoint.model.scenario import Service


class Rebalancing:
    """Backends removed and added. Connections that are open keep theirs: only their first packet meets the rules."""

    def __init__(self, service: Service, places: Places) -> None:
        self._service, self._places = service, places
        self._removed = set[int]()

    def remove(self, backend: int) -> None:
        """Deal to the others. Raises BenchError."""
        self._removed.add(backend)
        self._deal()

    def add(self, backend: int) -> None:
        """Deal to it again. Raises BenchError."""
        self._removed.discard(backend)
        self._deal()

    def reload(self) -> None:
        """Delete the table and load it again. Raises BenchError."""
        self._load(balancing.again(self._service))

    def _deal(self) -> None:
        left = [backend for number, backend in enumerate(self._service.backends) if number not in self._removed]
        self._load(balancing.dealt_to(self._service, left))

    def _load(self, lines: Iterable[str]) -> None:
        path, host = f"{self._places.directory}/changed.nft", self._places.host
        host.write(path, "".join(f"{line}\n" for line in lines))
        host.run(["nft", "-f", path], self._places.dut_netns)
