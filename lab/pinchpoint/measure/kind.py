"""What a measure declares, all that the rest of the lab asks of one, and checks across keys that several make."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pinchpoint.dut.device import Keys
from pinchpoint.keys.key import Table
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.standing import Standing
from pinchpoint.model.errors import InputError
from pinchpoint.model.limits import Wanted
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Measure, Scenario

TWO_PORTS: Final = {"port": 2, "stream": 1}
TWO_HOSTS: Final = {"host": 2}
TRIAL_S: Final = 0.25  # around a trial, for estimates: settling, counters read twice, the record synced

Arrays = Mapping[str, Sequence[Element]]
"""The elements of a file's arrays of tables, by their names."""
Check = Callable[[Source, Values, Arrays, Keys], None]
AnyMeasure = TypeVar("AnyMeasure")


@dataclass(frozen=True)
class MeasureKind:
    """One value of the key `measure`."""

    made: type[Measure]  # what a scenario says of it
    finds: str  # for docs/scenario.md
    table: Callable[[Keys], Table]  # its own, on a device with these keys; the name is that of the stored values, too
    run: Callable[[Standing], ScenarioResult]
    expected_s: Callable[[Scenario], float]  # seconds on a bench that stands
    main: tuple[str, ...]  # metrics, the first most; a name that ends in a space begins the name of several
    columns: tuple[str, ...] = ()  # metrics that a table of points has beside the first, however many
    judged_by: str = ""  # the metric by which a budget takes two points for alike; empty: the first of `main`
    needs: Mapping[str, int] = field(default_factory=lambda: TWO_PORTS)  # array of tables -> at least so many of them
    check: Check = lambda *_: None  # across keys; notes problems in the source
    made_of: str = "trial"
    has_limit: bool = True  # something pinches its number
    is_search: bool = False  # its numbers are NDR and PDRs of frames, with what is known beside them
    is_served: bool = False  # it opens connections to a [service]
    wanted: Callable[[Values], Wanted | None] = lambda _: None  # of its table: the connections that all must succeed
    over_engines: bool = False  # its trials may be sent by one engine and received by another
    by_any_engine: bool = False  # or at least by one engine that has both ends, on any host
    through_service: bool = False  # its frames may be those of connections to a [service]
    paces: bool = False  # it says itself when frames fall due

    @property
    def name(self) -> str:
        """The value of `measure`."""
        return str(self.made.kind)


def asked(scenario: Scenario, wanted: type[AnyMeasure]) -> AnyMeasure:
    """What the scenario says of its measure. Raises InputError where it has another one."""
    if not isinstance(scenario.measure, wanted):
        kind = getattr(wanted, "kind", wanted.__name__)
        raise InputError(f'{scenario.path}: measure = "{scenario.measure.kind}", expected "{kind}"')
    return scenario.measure


def needed(source: Source, needs: Mapping[str, int], arrays: Arrays) -> None:
    """Notes where there are fewer ports, streams or hosts than a measure needs."""
    for name, fewest in needs.items():
        count = len(arrays[name])
        if count < fewest:
            source.problem((name,), f"expected at least {fewest} [[{name}]], found {count or 'none'}")


def one_queue(source: Source, measure: str, arrays: Arrays) -> None:
    """Notes every port that has more than one queue."""
    for port in arrays["port"]:
        if (queues := port.values.get("queues", 1)) > 1:
            expected = f'1 with measure = "{measure}": of several queues nobody knows when a frame was lost'
            source.mismatch((*port.at, "queues"), expected, queues)
