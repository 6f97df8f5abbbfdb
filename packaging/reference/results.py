"""The JSON Schema of run.json, result.json, comparison.json, and of a line of each .jsonl of a run folder.

`python packaging/reference/results.py > docs/results.schema.json`.
"""

import json
import sys

import msgspec

from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import COMPARISON, INFO, MEASUREMENT, RESULT, STRETCH, TRIAL


def results_schema() -> dict[str, object]:
    """JSON Schema (2020-12); `$defs` holds the type of each file, and the root accepts any of them."""
    roots, definitions = msgspec.json.schema_components(
        (INFO.stored, TRIAL.stored, MEASUREMENT.stored, STRETCH.stored, RESULT.stored, COMPARISON.stored),
        ref_template="#/$defs/{name}",
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Pinchpoint results, schema {SCHEMA}",
        "description": "run.json is a RunInfo, each line of trials.jsonl a Trial, of measurements.jsonl a Measurement, "
        "of slices.jsonl a Stretch, result.json a RunResult, comparison.json a Comparison.",
        "oneOf": list(roots),
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it is written to docs/results.schema.json."""
    return json.dumps(results_schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
