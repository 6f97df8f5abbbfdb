"""What can happen to a switch while frames go through it: a closed list, each with its undoing."""

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pinchpoint.bench.actions import create, remove
from pinchpoint.bench.resource import AnyResource
from pinchpoint.bulk.making import Bulk, timed_make, timed_removal
from pinchpoint.dut.device import Action, Check
from pinchpoint.dut.ovs.bench import ends_with_the_switch
from pinchpoint.dut.ovs.bulk_flows import Flows
from pinchpoint.dut.ovs.bulk_ports import Ports
from pinchpoint.dut.ovs.daemons import vsctl
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.unixctl import Unixctl
from pinchpoint.model.scenario import Change, Scenario


class Called:
    """A command of the switch's control socket without a lasting effect; with none, nothing happens."""

    ends_processes: ClassVar[bool] = False

    def __init__(self, control: Unixctl, command: str = "") -> None:
        self._control, self._command = control, command

    def prepare(self, check: Check) -> None:
        """Nothing must be there before."""

    def act(self, check: Check) -> None:
        if self._command:
            self._control.call(self._command)

    def restore(self, check: Check) -> None:
        """Nothing lasts that is to be undone."""


class Made:
    """Items made in bulk, e.g. rules or ports, while frames go through."""

    ends_processes: ClassVar[bool] = False

    def __init__(self, bulk: Bulk, count: int) -> None:
        self._bulk, self._count = bulk, count

    def prepare(self, check: Check) -> None:
        """Nothing must be there before."""

    def act(self, check: Check) -> None:
        """Make all; returns when all show."""
        timed_make(self._bulk, self._count, check)

    def restore(self, check: Check) -> None:
        """Remove all; returns when none shows."""
        timed_removal(self._bulk, self._count, check)


class Removed:
    """Items made in bulk beforehand, removed while frames go through."""

    ends_processes: ClassVar[bool] = False

    def __init__(self, bulk: Bulk, count: int) -> None:
        self._bulk, self._count = bulk, count

    def prepare(self, check: Check) -> None:
        """Make all; returns when all show."""
        timed_make(self._bulk, self._count, check)

    def act(self, check: Check) -> None:
        """Remove all; returns when none shows."""
        timed_removal(self._bulk, self._count, check)

    def restore(self, check: Check) -> None:
        """Nothing is left to undo."""


class Set:
    """Settings of Open_vSwitch other_config; ovs-vsctl returns when the switch has taken them over."""

    ends_processes: ClassVar[bool] = False

    def __init__(self, places: OvsPlaces, settings: Mapping[str, str]) -> None:
        self._places, self._settings = places, settings
        self._before: Mapping[str, str] = {}

    def prepare(self, check: Check) -> None:
        """Remember what is set."""
        (((_, pairs),),) = json.loads(self._vsctl("--format=json", "--columns=other_config", "list", "Open_vSwitch"))[
            "data"
        ]
        self._before = dict(pairs)

    def act(self, check: Check) -> None:
        self._set(self._settings)

    def restore(self, check: Check) -> None:
        """Set what was set before, and remove keys that were not there."""
        self._set({key: self._before[key] for key in self._settings if key in self._before})
        for key in self._settings:
            if key not in self._before:
                self._vsctl("remove", "Open_vSwitch", ".", "other_config", key)

    def _set(self, settings: Mapping[str, str]) -> None:
        if settings:
            pairs = [f"other_config:{key}={json.dumps(value)}" for key, value in settings.items()]
            self._vsctl("set", "Open_vSwitch", ".", *pairs)

    def _vsctl(self, *words: str) -> str:
        return self._places.host.run(["ovs-vsctl", *vsctl(self._places), *words], environment=self._places.environment)


class Restarted:
    """The switch ends as on SIGTERM and starts again on its database; what that does not hold is made anew."""

    ends_processes: ClassVar[bool] = True

    def __init__(
        self, scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource], control: Unixctl
    ) -> None:
        self._host, self._anew = places.host, ends_with_the_switch(scenario, places, resources)
        self._control = control

    def prepare(self, check: Check) -> None:
        """Nothing must be there before."""

    def act(self, check: Check) -> None:
        """Restart it. The bench's journal names all of this already: nothing else is there meanwhile."""
        for resource in reversed(self._anew):
            remove(resource, self._host)
        self._control.close()  # the next question goes to the new process
        for resource in self._anew:
            check()
            create(resource, self._host)

    def restore(self, check: Check) -> None:
        """Nothing is left to undo: the switch runs again."""


def action_of(
    change: Change, scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource], control: Unixctl
) -> Action:
    """What the scenario wants to happen; `resources` are those of its bench."""
    count = change.count
    rules = Flows(places, control, count, "bundle", 1, "drop")
    ports = Ports(places, control, count, "transaction", 1)
    actions: Mapping[str, Action] = {
        "none": Called(control),
        "add-flows": Made(rules, count),
        "del-flows": Removed(rules, count),
        "add-ports": Made(ports, count),
        "del-ports": Removed(ports, count),
        "flush-flows": Called(control, "dpctl/del-flows"),
        "rebalance": Called(control, "dpif-netdev/pmd-rxq-rebalance"),
        "settings": Set(places, change.settings),
        "restart": Restarted(scenario, places, resources, control),
    }
    return actions[change.action]
