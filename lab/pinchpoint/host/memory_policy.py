"""On which NUMA nodes the memory of this thread is taken, and of what it starts (set_mempolicy(2))."""

import ctypes
import os
import platform
from collections.abc import Collection, Mapping

from pinchpoint.model.errors import RequirementError

_MPOL_DEFAULT, _MPOL_BIND = 0, 2
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236, "riscv64": 236, "ppc64le": 260, "s390x": 269}
_MASK_BITS = 1024  # nodes that a kernel can be built for
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)


def bind(nodes: Collection[int]) -> None:
    """From now on, what this thread starts takes memory from these nodes alone; no nodes: the default policy.

    Raises RequirementError if the kernel refuses, e.g. a node that does not exist.
    """
    set_to(_MPOL_BIND if nodes else _MPOL_DEFAULT, nodes)


def current() -> tuple[int, tuple[int, ...]]:
    """(mode, nodes) of the calling thread, as `set_to` takes them."""
    mode, mask = ctypes.c_int(), _mask(())
    _system_call(_GET_MEMPOLICY, ctypes.byref(mode), mask, _MASK_BITS, None, 0)
    nodes = tuple(bit for bit in range(_MASK_BITS) if mask[bit // _WORD_BITS] >> bit % _WORD_BITS & 1)
    return mode.value, nodes


def set_to(mode: int, nodes: Collection[int]) -> None:
    """A policy for the calling thread, and what it starts. Raises RequirementError."""
    if mode == _MPOL_DEFAULT or not nodes:
        _system_call(_SET_MEMPOLICY, mode, None, 0)
    else:
        # The kernel reads one bit less than the length passed to it.
        _system_call(_SET_MEMPOLICY, mode, _mask(nodes), _MASK_BITS + 1)


def _mask(nodes: Collection[int]) -> "ctypes.Array[ctypes.c_ulong]":
    words = (ctypes.c_ulong * (_MASK_BITS // _WORD_BITS + 1))()
    for node in nodes:
        words[node // _WORD_BITS] |= 1 << node % _WORD_BITS
    return words


def _system_call(numbers: Mapping[str, int], *arguments: object) -> None:
    machine = platform.machine()
    if machine not in numbers:
        raise RequirementError(f"binding memory to NUMA nodes is not known for {machine}", 'numa = "any"')
    call = ctypes.CDLL(None, use_errno=True).syscall
    # Each of the arguments is as wide as a register.
    wide = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    if call(ctypes.c_long(numbers[machine]), *wide) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise RequirementError(f"the kernel does not bind memory to a NUMA node: {reason}", 'numa = "any"')
