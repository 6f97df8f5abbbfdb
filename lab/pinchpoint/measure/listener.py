"""What is happening, for whoever wants to show it. Every method may be ignored."""

from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial


class Listener:
    """Does nothing; the progress display overrides what it shows."""

    def scenario_begins(self, scenario: Scenario, number: int, total: int) -> None:
        """`number` of `total` scenarios starts."""

    def building(self, number: int, total: int, what: str) -> None:
        """One action of the bench's plan starts."""

    def phase(self, name: str, expected_trials: int) -> None:
        """A phase starts that will take about `expected_trials` more trials."""

    def trial_begins(self, trial_id: str, duration_s: float, load_fps: float) -> None:
        """The engine starts to send."""

    def trial_ends(self, trial: Trial) -> None:
        """A trial is judged and stored."""

    def measurement_begins(self, name: str, expected_s: float) -> None:
        """A workload or a build starts that will take about `expected_s`; `name` is its id."""

    def measurement_ends(self, measurement: Measurement) -> None:
        """A workload or a build is accounted for and stored."""

    def scenario_ends(self, result: ScenarioResult) -> None:
        """Everything about a scenario is known, also that it is impossible, needless or failed."""

    def run_left(self, left_s: float) -> None:
        """What the rest of the whole run will take, as estimated now."""
