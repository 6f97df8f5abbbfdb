"""Levels that several parts share: each idea has one, with its reason. How busy is busy: model/limits.py."""

from typing import Final

FAR_BELOW_MRR: Final = 0.9
"""Of what a device forwards at most. A rate without loss from there on is its own speed; one below is a matter of
pauses or bursts: an NDR's own interval and a host's moving level make smaller differences.
"""

OVERLOADED: Final = 0.03
"""Share of the offered frames that is not forwarded, from which a trial or a slice was an overload. Pauses that the
rings do not bear cost less; a device that forwards more may be able to carry all of it.
"""
