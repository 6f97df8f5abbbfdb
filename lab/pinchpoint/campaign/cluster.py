"""Attempts on the nodes of a Ray cluster that somebody runs: each node's bench is a resource, held by one actor.

A node that measures is started with the resource `bench`, and with the label `machine` where its address shall not be
its name: `ray start --address HEAD --resources '{"bench": 1}' --labels machine=dut1`. The actor that holds the bench is
on that node and on no other (hard node affinity). It starts attempts as the lab does on its own machine, and answers
with what their files have grown by. Ray repeats nothing (no restarts, no retries): what is lost gets a new attempt from
the campaign, since only the campaign's log says what counts.

The lab starts no Ray of its own and no dashboard, and usage statistics are off.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pinchpoint import __version__
from pinchpoint.campaign.executor import Attempt, Ended, Event, Gone, Grown, Joined, Order
from pinchpoint.host import facts
from pinchpoint.host.local import Local, reach
from pinchpoint.model.campaign import Bench, Campaign
from pinchpoint.model.errors import RequirementError
from pinchpoint.store.bundle import files_of
from pinchpoint.store.folder import RunFolder

RESOURCE: Final = "bench"
LABEL: Final = "machine"
SCAN_S: Final = 2.0  # between two looks at the nodes
HEAD_S: Final = 15.0  # for the head to answer; a minute after it did last, Ray ends the process of the lab
MOST_DEATHS: Final = 3  # of actors on one node, in a row, before one was ready: then it is the node
POLL_S: Final = 0.5  # that a node waits for an attempt to end, before it says how far it is
_POLL_S: Final = 0.05
_PREFIX: Final = "pinchpoint-attempt"
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def require_ray() -> Any:
    """The module. Raises RequirementError where it is not installed."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return import_module("ray")
    except ImportError:
        raise RequirementError("ray: not installed", "pip install 'pinchpoint[campaign]'") from None


def _joined(address: str) -> Any:
    """Ray, as a driver of the cluster. Raises RequirementError if there is none."""
    ray = require_ray()
    try:
        ray.init(address=address, namespace="pinchpoint", log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        told = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        hint = "this machine must be one of its nodes: ray start --address HEAD:6379, or ray start --head"
        raise RequirementError(f"no Ray cluster at {address}: {told[0]}", hint) from error
    return ray


def _gone(address: str, why: str) -> RequirementError:
    hint = f"restart the cluster, then pinchpoint campaign --resume CAMPAIGN --cluster {address}"
    return RequirementError(f"the Ray cluster at {address} is gone: {why}", hint)


@contextmanager
def _told(ray: Any, address: str) -> Iterator[None]:
    """Raises RequirementError for an error of Ray that is about no single node."""
    try:
        yield
    except ray.exceptions.RayError as error:
        raise _gone(address, _end_of(error)) from error


def _end_of(error: Exception) -> str:
    """The last line, which names the reason; Ray's messages begin with stack traces."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1].strip()}" if lines else type(error).__name__


class NodeBench:
    """On a node: one attempt at a time."""

    def __init__(self) -> None:
        self._host = Local()
        self._running: tuple[Order, Attempt] | None = None

    def ready(self) -> str:
        """The version of pinchpoint there; folders of dead actors are removed."""
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}-*"):
            number = path.name.removeprefix(f"{_PREFIX}-").partition("-")[0]
            if number.isdecimal() and path.stat().st_uid == os.getuid() and self._host.signal([int(number)], 0):
                shutil.rmtree(path, ignore_errors=True)
        return __version__

    def start(self, order: Order) -> None:
        folder = RunFolder(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{os.getpid()}-")))
        for name, data in order.files.items():
            if "/" not in name:  # attachments are with the campaign
                folder.replace(name, data)
        # A run resumes only on the machine that its record describes: this node, not the lab's machine.
        host, versions = facts.host_facts(self._host), facts.versions(self._host)
        folder.write_info(replace(folder.read_info(), host=host, versions=versions))
        self._running = order, Attempt(folder, order)

    def poll(self) -> Sequence[Grown | Ended]:
        """What its files have grown by; once it is over, that alone, with all files."""
        assert self._running is not None, "it was started"
        (order, attempt), until_s = self._running, time.monotonic() + POLL_S
        while (code := attempt.ended()) is None and time.monotonic() < until_s:
            time.sleep(_POLL_S)
        if code is None:
            return [Grown(order.attempt, file, lines) for file, lines in attempt.grown().items()]
        ended = Ended(order.attempt, order.bench.name, code, files_of(attempt.folder), attempt.said())
        shutil.rmtree(attempt.folder.path, ignore_errors=True)
        self._running = None
        return [ended]

    def stop(self) -> None:
        if self._running is not None:
            self._running[1].stop()


@dataclass
class _Node:
    """A node as the lab sees it."""

    bench: Bench
    node_id: str
    actor: Any
    is_ready: bool = False
    order: Order | None = None
    asked: Any = None  # what the actor was asked last: an object reference


class Cluster:
    """The machines are the nodes that have a bench."""

    grace_s = 60.0
    absent_s = 300.0

    def __init__(self, address: str, campaign: Campaign) -> None:
        self._ray, self._address = _joined(address), address
        self._campaign = campaign
        self._nodes: dict[str, _Node] = {}
        self._deaths: dict[str, int] = {}  # by node: actors that died before one was ready
        self._next_s = 0.0
        self._head = str(self._ray.get_runtime_context().gcs_address)
        self._answered_s = time.monotonic()  # when the head did last

    def start(self, order: Order) -> None:
        node = self._nodes[order.bench.name]
        node.order = order
        with _told(self._ray, self._address):
            node.actor.start.remote(order)
            node.asked = node.actor.poll.remote()

    def wait(self, timeout_s: float) -> Sequence[Event]:
        with _told(self._ray, self._address):
            return self._waited(list(self._scan()), timeout_s)

    def _waited(self, events: list[Event], timeout_s: float) -> Sequence[Event]:
        """The same with what actors answer."""
        asked = {node.asked: name for name, node in self._nodes.items() if node.asked is not None}
        if not asked:
            if not events:
                time.sleep(min(timeout_s, SCAN_S / 4))
            return events
        ready, _ = self._ray.wait(list(asked), num_returns=1, timeout=0 if events else timeout_s)
        if ready:  # whoever else is ready by now comes at once
            ready, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0)
        for reference in ready:
            events += self._answered(asked[reference], reference)
        return events

    def _scan(self) -> Iterator[Event]:
        """Nodes that have come and gone. Raises RequirementError when the head is gone."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + SCAN_S
        if not self._head_answers():
            return
        alive = self._alive()
        for name, node in list(self._nodes.items()):
            if node.node_id not in alive:
                yield self._lost(name, "its node has vanished")
        known = {node.node_id for node in self._nodes.values()}
        for node_id, about in alive.items():
            bench = _bench_of(about, self._campaign)
            if bench is not None and node_id not in known and bench.name not in self._nodes:
                self._hold(bench, node_id)

    def _head_answers(self) -> bool:
        """Asked without Ray, whose calls wait for the head until the process is ended."""
        try:
            reach(self._head, SCAN_S)
        except OSError as error:
            if time.monotonic() - self._answered_s >= HEAD_S:
                raise _gone(self._address, f"its head {self._head} does not answer: {error}") from error
            return False
        self._answered_s = time.monotonic()
        return True

    def _alive(self) -> dict[str, Mapping[str, Any]]:
        return {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"]}

    def _hold(self, bench: Bench, node_id: str) -> None:
        strategies = import_module("ray.util.scheduling_strategies")
        options = {
            "num_cpus": 0,
            "resources": {RESOURCE: 1},
            "max_restarts": 0,
            "max_task_retries": 0,
            "scheduling_strategy": strategies.NodeAffinitySchedulingStrategy(node_id, soft=False),
        }
        actor = self._ray.remote(NodeBench).options(**options).remote()
        self._nodes[bench.name] = _Node(bench, node_id, actor, asked=actor.ready.remote())

    def _answered(self, name: str, reference: Any) -> Iterator[Event]:
        node = self._nodes[name]
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            node.asked = None
            yield self._lost(name, f"{node.bench.name}: {str(error).strip().splitlines()[-1]}", is_unusable=True)
            return
        except self._ray.exceptions.RayError as error:
            yield self._died(name, error)
            return
        if not node.is_ready:
            node.asked, node.is_ready = None, answer == __version__
            self._deaths.pop(node.node_id, None)
            if node.is_ready:
                yield Joined(node.bench)
            else:
                why = f"it has pinchpoint {answer}, and this is {__version__}"
                yield Gone(name, why, is_unusable=True)
            return
        yield from answer
        if any(isinstance(event, Ended) for event in answer):
            node.order = node.asked = None
        else:
            node.asked = node.actor.poll.remote()

    def _died(self, name: str, error: Exception) -> Gone:
        """An actor is dead: with its node, or because it cannot live there."""
        node = self._nodes[name]
        if not node.is_ready and self._head_answers() and node.node_id in self._alive():
            deaths = self._deaths[node.node_id] = self._deaths.get(node.node_id, 0) + 1
            if deaths >= MOST_DEATHS:
                reason = f"its actor died {deaths} times before it was ready: {_end_of(error)}"
                return self._lost(name, reason, is_unusable=True)
        return self._lost(name, f"its node has vanished ({type(error).__name__})")

    def _lost(self, name: str, reason: str, is_unusable: bool = False) -> Gone:
        node = self._nodes[name]
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(node.actor)
        if not is_unusable:  # it may come back
            del self._nodes[name]
        node.asked = node.order = None
        return Gone(name, reason, is_unusable)

    def stop(self) -> None:
        with _told(self._ray, self._address):
            for node in self._nodes.values():
                if node.order is not None:
                    node.actor.stop.remote()

    def close(self) -> None:
        """Give the benches back; whatever still runs is interrupted and waited for, also when the head is gone."""
        until_s = time.monotonic() + 60.0
        try:
            self.stop()
            while any(node.order for node in self._nodes.values()) and time.monotonic() < until_s:
                with _told(self._ray, self._address):
                    self._waited([], 1.0)
        finally:
            self._ray.shutdown()


def _bench_of(about: Mapping[str, Any], campaign: Campaign) -> Bench | None:
    """The machine that a node is; None if it has no bench, or the campaign does not name it."""
    if about.get("Resources", {}).get(RESOURCE, 0) < 1:
        return None
    labels = about.get("Labels") or {}
    name = str(labels.get(LABEL) or about["NodeManagerAddress"])
    cpus = int(about.get("Resources", {}).get("CPU", 0)) or None
    own = tuple(sorted(f"{key}-{value}" for key, value in labels.items() if not key.startswith("ray.io/")))
    if not campaign.benches:
        return Bench(name, labels=own, cpus=cpus)
    named = next((bench for bench in campaign.benches if bench.name == name), None)
    if named is None:
        return None
    return replace(named, address="", labels=(*named.labels, *own), cpus=named.cpus or cpus)


def nodes_of(address: str, campaign: Campaign) -> Sequence[Bench]:
    """The machines that a cluster has now, for a plan."""
    ray = _joined(address)
    try:
        with _told(ray, address):
            benches = [_bench_of(node, campaign) for node in ray.nodes() if node["Alive"]]
    finally:
        ray.shutdown()
    return [bench for bench in benches if bench is not None]
