"""Fields that earlier versions stored and that this one has no use for: read over, never written."""

from collections.abc import Mapping
from typing import Final

FORMER: Final[Mapping[str, Mapping[str, str]]] = {
    "Band": {"best_fps": "load that was reached for a tenth of the time"},
    "Rate": {"lapse": "share of the trials that the search left out of the rate"},
}
"""By the name of the dataclass: field -> what it held."""
