"""Scenario files: TOML text to `model.scenario.Scenario`, with errors that name file, line and key.

`keys` is the one table that drives parsing, validation and docs/scenario.md.
"""

from pinchpoint.scenario.read import load, parse

__all__ = ["load", "parse"]
