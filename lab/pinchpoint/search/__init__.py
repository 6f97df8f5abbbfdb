"""NDR and PDR: knows only `measure(duration_s, load_fps) -> Trial`.

`rates`      the entrance: one call, by the method that is asked for
`reach`      the highest load that may be tried: what the generator can offer
`repeat`     which trials are usable; invalid ones repeated, within a bound
`mlrsearch`  MLRsearch (IETF BMWG), the cross-check
`threshold`  our own search: which load to try next, and rates from what is known
`slices`     what a losing trial says beyond that it lost
`track`      the statistical model of the thresholds that trials meet
`claims`     shares of losing trials, held against what is claimed
`memory`     whether the load before a trial matters
`burst`      the longest burst without loss
"""

from pinchpoint.search.rates import SearchOutcome, find_rates
from pinchpoint.search.repeat import Measure, until_valid

__all__ = ["Measure", "SearchOutcome", "find_rates", "until_valid"]
