"""What Open vSwitch reports of its NICs: driver, link speed, queues, NUMA node, offloads, flow control.

Source: ovs-vswitchd.conf.db(5), Interface, `status` and `options`.
"""

import json
from collections.abc import Iterator

from pinchpoint.dut.ovs.daemons import vsctl
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.model.errors import DutError
from pinchpoint.model.scenario import Scenario

_SHOWN = ("driver_name", "link_speed", "max_rx_queues", "max_tx_queues", "numa_id")
_FLOW = ("rx-flow-ctrl", "tx-flow-ctrl", "flow-ctrl-autoneg")


def nics(scenario: Scenario, places: OvsPlaces) -> Iterator[tuple[str, str]]:
    """(name, words) of each port that is a NIC. Raises DutError where the database has another form."""
    for port in scenario.ports:
        if port.pci:
            columns = ["--format=json", "--columns=status,options", "list", "Interface", port.name]
            argv = ["ovs-vsctl", *vsctl(places), *columns]
            yield (
                f"NIC of {port.name}, by the switch",
                words(places.host.run(argv, environment=places.environment)),
            )


def words(text: str) -> str:
    """Of the row that `ovs-vsctl --format=json list Interface NAME` prints; what it lacks is called not reported."""
    try:
        (((_, status), (_, options)),) = json.loads(text)["data"]
        told, asked = dict(status), dict(options)
    except (ValueError, KeyError, TypeError) as error:
        raise DutError(f"the database shows an interface in an unknown form: {text[:200]!r}") from error
    parts = [f"{name.replace('_', ' ')} {told.get(name, 'not reported')}" for name in _SHOWN]
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in sorted(told.items()) if name.endswith("_offload")]
    flow = [f"{name} {asked[name]}" for name in _FLOW if name in asked]
    return ", ".join(str(part) for part in (*parts, *(flow or ["flow control not set"])))
