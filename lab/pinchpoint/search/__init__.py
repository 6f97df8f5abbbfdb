"""NDR and PDR: knows only `measure(duration_s, load_fps) -> Trial`.

`rates`    the rules: what may be called an NDR, and what is said when nothing may
`repeat`   invalid trials are repeated, within a bound, and never judged
`library`  MLRsearch (IETF BMWG), behind an interface of our own
"""

from pinchpoint.search.rates import SearchOutcome, find_rates
from pinchpoint.search.repeat import Measure, until_valid

__all__ = ["Measure", "SearchOutcome", "find_rates", "until_valid"]
