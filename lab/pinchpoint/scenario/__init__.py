"""Scenario files: TOML text to `model.scenario.Scenario`, with errors that name file, line and key.

`keys` is the one table that drives parsing, validation and docs/scenario.md.
"""

from pinchpoint.scenario.read import load, parse
from pinchpoint.scenario.study import load_study
from pinchpoint.scenario.sweep import load_sweep

__all__ = ["load", "load_study", "load_sweep", "parse"]
