"""NDR and PDR: knows only `measure(duration_s, load_fps) -> Trial`.

`rates`      the entrance: one call, by the method that is asked for
`watch`      valid trials only, and in time
`reach`      the highest load that may be tried: what the generator can offer
`repeat`     invalid trials are repeated, within a bound, and never judged
`library`    MLRsearch (IETF BMWG), behind an interface of our own
`mlrsearch`  what its bounds mean, and what is said when there are none
`threshold`  our own search: which load to try next, and rates from what is known
`slices`     what an overloaded trial measures
`track`      the statistical model of one threshold that moves
`floor`      whether frames are lost at any load
`burst`      the longest burst without loss
"""

from pinchpoint.search.rates import SearchOutcome, find_rates
from pinchpoint.search.repeat import Measure, until_valid

__all__ = ["Measure", "SearchOutcome", "find_rates", "until_valid"]
