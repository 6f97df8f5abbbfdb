"""What starts the agent on a host reached by ssh. Its text is python3's -c there; nothing of Pinchpoint is installed.

The first line of standard input is the length in bytes of what follows: a JSON object with the text of every module
that the agent needs, and the module that runs. Standard input and output are then the agent's line.
"""

from __future__ import annotations  # an older python3 must come as far as `main`

import importlib.abc
import importlib.util
import json
import os
import runpy
import sys
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

LEAST = (3, 11)


class Sent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that were sent."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Of a module or package among them."""
        is_package = name + ".__init__" in self.texts
        if is_package or name in self.texts:
            return importlib.util.spec_from_loader(name, self, origin=name, is_package=is_package)
        return None

    def get_code(self, name: str) -> CodeType:
        """As runpy asks for it."""
        text = self.texts.get(name) or self.texts.get(name + ".__init__", "")
        return compile(text, f"<{name}>", "exec")

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's text in its namespace."""
        exec(self.get_code(module.__name__), module.__dict__)


def received() -> dict[str, Any]:
    """What was sent; no byte after it is taken."""
    length = b""
    while not length.endswith(b"\n"):
        length += os.read(0, 1) or sys.exit("no modules came")
    data = b""
    while len(data) < int(length):
        data += os.read(0, int(length) - len(data)) or sys.exit("the modules were cut short")
    return dict(json.loads(data))


def main() -> None:
    """Run the agent from the modules that were sent; exit 96 where this Python is too old."""
    if sys.version_info < LEAST:
        sys.exit(96)
    sent = received()
    sys.meta_path.insert(0, Sent(sent["modules"]))
    runpy.run_module(sent["main"], run_name="__main__")


if __name__ == "__main__":
    main()
