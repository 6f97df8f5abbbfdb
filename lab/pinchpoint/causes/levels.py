"""From where on a share counts: one constant for each idea, each with its reason. How busy is busy:
model/limits.py; what other parts share: model/levels.py.
"""

from typing import Final

NOTABLE: Final = 0.1  # of the losses, or of a thread's time: what explains less is not suspected
MOST: Final = 0.5
NEAR_LIMIT: Final = 1.1  # times the lowest load that counts: losing trials up to there are evidence of the same limit
EXHAUSTED: Final = 0.99  # of a table's places: it is read once, while entries come and go
