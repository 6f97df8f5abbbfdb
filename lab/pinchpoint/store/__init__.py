"""Run folders: what a run measured, kept so that a crash loses at most the line being written.

`folder`  RunFolder: create, open, append, rewrite atomically
`codec`   dataclasses <-> JSON, strict in both directions
`schema`  the JSON Schema of the three files
"""

from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder

__all__ = ["SCHEMA", "RunFolder"]
