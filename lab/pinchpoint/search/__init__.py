"""NDR and PDR: knows only `measure(duration_s, load_fps) -> Trial`.

`rates`      the entrance: one call, by the method that is asked for; `reach`: the highest load that may be tried
`threshold`  our own search: loads, and rates from `track`, the model of the thresholds that trials meet
`slices`     what a losing trial says beyond that it lost; `claims`, `memory`: what is held against a rate
`mlrsearch`  MLRsearch (IETF BMWG), the cross-check; `burst`: the longest burst without loss
"""

from pinchpoint.search.rates import Measure, SearchOutcome, find_rates, until_valid

__all__ = ["Measure", "SearchOutcome", "find_rates", "until_valid"]
