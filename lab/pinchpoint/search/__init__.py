"""NDR and PDR: knows only `measure(duration_s, load_fps) -> Trial`.

`rates`      the entrance: one call, by the method that is asked for
`watch`      valid trials only, and in time
`reach`      the highest load that may be tried: what the generator can offer in a mode of the cores
`repeat`     invalid trials are repeated, within a bound, and never judged
`library`    MLRsearch (IETF BMWG), behind an interface of our own
`mlrsearch`  what its bounds mean, and what is said when there are none
`threshold`  our own search: from what is known to rates, each with an interval
`mode`       what is known in one mode of the cores, and the load to try next
`floor`      whether there is a rate without loss at all
`goal`       one loss ratio: its interval, and when that is enough
`posterior`  the statistical model of one threshold
"""

from pinchpoint.search.rates import SearchOutcome, find_rates
from pinchpoint.search.repeat import Measure, until_valid

__all__ = ["Measure", "SearchOutcome", "find_rates", "until_valid"]
