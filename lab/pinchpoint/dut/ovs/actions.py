"""What can happen to a switch while frames go through it: a closed list, each with its undoing."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from pinchpoint.bench.actions import create, remove
from pinchpoint.bench.resource import AnyResource
from pinchpoint.bulk.making import timed_make, timed_removal
from pinchpoint.dut.device import Action, Check
from pinchpoint.dut.ovs.bench import ends_with_the_switch
from pinchpoint.dut.ovs.bulk import Flows, Ports
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.rpc import Unixctl
from pinchpoint.dut.ovs.settings import other_config
from pinchpoint.model.scenario import Change, Scenario

Step = Callable[[Check], object]


def _nothing(check: Check) -> None:
    """Nothing to do."""


class Steps:
    """An action of steps, each of which returns when what it does shows."""

    ends_processes: ClassVar[bool] = False

    def __init__(self, act: Step = _nothing, prepare: Step = _nothing, restore: Step = _nothing) -> None:
        self._act, self._prepare, self._restore = act, prepare, restore

    def prepare(self, check: Check) -> None:
        """What must be there before."""
        self._prepare(check)

    def act(self, check: Check) -> None:
        """Let it happen."""
        self._act(check)

    def restore(self, check: Check) -> None:
        """Undo what lasts."""
        self._restore(check)


class Set:
    """Settings of Open_vSwitch other_config; ovs-vsctl returns when the switch has taken them over."""

    ends_processes: ClassVar[bool] = False

    def __init__(self, places: OvsPlaces, settings: Mapping[str, str]) -> None:
        self._places, self._settings = places, settings
        self._before: Mapping[str, str] = {}

    def prepare(self, check: Check) -> None:
        """Remember what is set."""
        self._before = other_config(self._places)

    def act(self, check: Check) -> None:
        self._set(self._settings)

    def restore(self, check: Check) -> None:
        """Set what was set before, and remove keys that were not there."""
        self._set({key: self._before[key] for key in self._settings if key in self._before})
        for key in self._settings:
            if key not in self._before:
                self._places.ask_vsctl("remove", "Open_vSwitch", ".", "other_config", key)

    def _set(self, settings: Mapping[str, str]) -> None:
        if settings:
            pairs = [f"other_config:{key}={json.dumps(value)}" for key, value in settings.items()]
            self._places.ask_vsctl("set", "Open_vSwitch", ".", *pairs)


class Restarted(Steps):
    """The switch ends as on SIGTERM and starts again on its database; what that does not hold is made anew.

    The bench's journal names all of this already: nothing else is there meanwhile.
    """

    ends_processes: ClassVar[bool] = True

    def __init__(
        self, scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource], control: Unixctl
    ) -> None:
        super().__init__(self._restart)
        self._host, self._anew = places.host, ends_with_the_switch(scenario, places, resources)
        self._control = control

    def _restart(self, check: Check) -> None:
        for resource in reversed(self._anew):
            remove(resource, self._host)
        self._control.close()  # the next question goes to the new process
        for resource in self._anew:
            check()
            create(resource, self._host)


def action_of(
    change: Change, scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource], control: Unixctl
) -> Action:
    """What the scenario wants to happen; `resources` are those of its bench."""
    count = change.count
    flows, ports = Flows(places, control, count, "bundle", 1, "drop"), Ports(places, control, count, "transaction", 1)
    make_flows, remove_flows = partial(timed_make, flows, count), partial(timed_removal, flows, count)
    make_ports, remove_ports = partial(timed_make, ports, count), partial(timed_removal, ports, count)
    actions: Mapping[str, Action] = {
        "none": Steps(),
        "add-flows": Steps(make_flows, restore=remove_flows),
        "del-flows": Steps(remove_flows, prepare=make_flows),
        "add-ports": Steps(make_ports, restore=remove_ports),
        "del-ports": Steps(remove_ports, prepare=make_ports),
        "flush-flows": Steps(lambda check: control.call("dpctl/del-flows")),
        "rebalance": Steps(lambda check: control.call("dpif-netdev/pmd-rxq-rebalance")),
        "settings": Set(places, change.settings),
        "restart": Restarted(scenario, places, resources, control),
    }
    return actions[change.action]
