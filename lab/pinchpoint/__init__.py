"""Pinchpoint: a performance lab for virtual switches and layer-4 load balancers."""

import os

__version__ = "0.1.0"

# numpy's and scipy's OpenBLAS would start threads when they are imported. A signal that the main thread has
# blocked, so that an undo or a journal entry ends whole, would then be taken by one of those.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
