"""What a real client got through a balancer, and what the logs of real servers say of it. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.measure.verify.judged import Check
from pinchpoint.model import addresses
from pinchpoint.model.scenario import Mode, Scheduler, Service

REQUESTS = 3
_SAID = re.compile(r"server (\d+)\s*")


@dataclass(frozen=True)
class Got:
    """What the client has of one request."""

    said: str  # the answer; empty where there is none
    failed: str = ""  # what the client said instead


def path(number: int) -> str:
    """What request `number` asks for, so that logs name it."""
    return f"/request-{number}"


def label(backend: int) -> str:
    """What the server of a backend, numbered from 0, calls itself."""
    return f"{backend + 1:02d}"


def seen(logs: Sequence[str], number: int) -> Mapping[int, tuple[str, ...]]:
    """Backend -> the addresses from which it saw request `number`, one for each line of its log."""
    by_backend = {}
    for backend, log in enumerate(logs):
        lines = (line.split() for line in log.splitlines())
        if addresses := tuple(words[0] for words in lines if words[1:] == [path(number)]):
            by_backend[backend] = addresses
    return by_backend


def checks(service: Service, got: Sequence[Got], logs: Sequence[str], turns: int = 1) -> Iterator[Check]:
    """One for each request, and whether they were dealt in turn; `logs` by backend.

    `turns` workers each deal in a turn of their own.
    """
    answered = []
    for number, reply in enumerate(got, start=1):
        answering, checked = _request(service, reply, seen(logs, number))
        answered += [] if answering is None else [answering]
        yield Check(f"request {number}", float(not checked.wrong), not checked.wrong, checked.words)
    if service.scheduler is Scheduler.ROUND_ROBIN and answered:
        counts = [answered.count(number) for number in range(len(service.backends))]
        in_turn = max(counts) - min(counts) <= turns  # each is at most one request ahead with each server
        shown = " / ".join(map(str, counts))
        words = f"{shown}, {'' if in_turn else 'not '}in turn"
        yield Check("busiest server", max(counts) / sum(counts), in_turn, words)


@dataclass(frozen=True)
class _RequestCheck:
    wrong: bool
    words: str


def _request(service: Service, got: Got, where: Mapping[int, tuple[str, ...]]) -> tuple[int | None, _RequestCheck]:
    """The backend that answered, and what to say of it."""
    logged = "; ".join(f"{_name(service, number)} saw {', '.join(who)}" for number, who in where.items())
    said = _SAID.fullmatch(got.said)
    number = int(said[1]) - 1 if said else -1
    if not 0 <= number < len(service.backends):
        answer = got.failed.strip() or f"an answer that no server gives: {got.said.strip()[:60]!r}"
        return None, _RequestCheck(True, f"{answer}; {logged or 'no server saw it'}")
    name = _name(service, number)
    if list(where) != [number] or len(where[number]) != 1:
        return number, _RequestCheck(True, f"{name} answered; {logged or 'no server saw it'}")
    (address,) = where[number]
    if not _is_expected(service, address):
        return number, _RequestCheck(True, f"{name} answered and saw {address}, which is not {_wanted(service)}")
    return number, _RequestCheck(False, f"{name} answered and saw {address}, {_wanted(service)}")


def _name(service: Service, backend: int) -> str:
    server = service.backends[backend]
    return f"server {label(backend)} ({server.end})"


def _wanted(service: Service) -> str:
    return "a local address" if service.mode is Mode.FULL_NAT else "the client"


def _is_expected(service: Service, address: str) -> bool:
    wanted = service.local if service.mode is Mode.FULL_NAT else service.clients
    assert wanted is not None, "full-NAT has local addresses"
    try:
        return wanted.first <= addresses.number(address) <= wanted.last
    except ValueError:
        return False
