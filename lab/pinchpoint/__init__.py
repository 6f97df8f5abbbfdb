"""Pinchpoint: a performance lab for virtual switches and layer-4 load balancers.

From Python: `load`, `run` and `measure` of `pinchpoint.api`, imported when they are first called.
"""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinchpoint.api import Rate, Result, Run, load
    from pinchpoint.export import Frame

__all__ = ["Frame", "Rate", "Result", "Run", "__version__", "load"]
__version__ = "0.1.0"

# numpy's and scipy's OpenBLAS would start threads when they are imported. A signal that the main thread has
# blocked, so that an undo or a journal entry ends whole, would then be taken by one of those.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_NAMES = ("load", "Run", "Result", "Rate", "Frame")
_CALLED = ("run", "measure")  # packages of the lab, too


class _Called(ModuleType):
    """A package of the lab that is called as the function of its name of `pinchpoint.api`."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        return getattr(import_module("pinchpoint.api"), self.__name__.rpartition(".")[2])(*args, **named)


class _Lab(ModuleType):
    """The package: what it offers is imported when it is asked for, so that the command starts as fast as without."""

    def __getattr__(self, name: str) -> Any:
        if name in _CALLED:
            return import_module(f"pinchpoint.{name}")
        if name in _NAMES:
            return getattr(import_module("pinchpoint.export" if name == "Frame" else "pinchpoint.api"), name)
        raise AttributeError(f"module 'pinchpoint' has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CALLED and isinstance(value, ModuleType):  # the import system has imported the package
            value.__class__ = _Called
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_NAMES, *_CALLED})


sys.modules[__name__].__class__ = _Lab
