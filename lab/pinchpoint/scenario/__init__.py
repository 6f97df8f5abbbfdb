"""Scenario files: TOML text to `model.scenario.Scenario`, with errors that name file, line and key.

`load`        a file that makes one scenario
`load_sweep`  any file: a scenario for each combination of its levels
`load_study`  a folder: its sweeps, the published curves, the findings asked for

`keys` is the one table that drives parsing, validation and docs/scenario.md; what a
sweep or study may say stands in `sweep_keys`. A level is put into the parsed file, which is
then read as any other (`sweep`), so there is one set of checks (`checks`, `bridges`).
"""

from pinchpoint.scenario.read import load, parse
from pinchpoint.scenario.study import load_study
from pinchpoint.scenario.sweep import load_sweep

__all__ = ["load", "load_study", "load_sweep", "parse"]
