"""The lab from Python: runs read as typed objects and frames, scenarios run from a notebook.

`load`     a run folder or a bundle as a `Run`
`run`      run scenarios as `pinchpoint run` does; returns the `Run`
`measure`  run one scenario; returns its `Result`
`results`  the typed objects
"""

from pinchpoint.api.calls import load, measure, run
from pinchpoint.api.results import Rate, Result, Run

__all__ = ["Rate", "Result", "Run", "load", "measure", "run"]
