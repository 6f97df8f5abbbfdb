"""Sets 2,696 bytes of a stopped process's extended state, as user-mode Linux does, and prints what came of it, as JSON.

It calls the ptrace(2) of its own process: that of what is preloaded.
"""

import ctypes
import json
import os
import signal

SHORT, ROOM = 2696, 65536
XSTATE, TRACEME, PEEKDATA, GETREGSET, SETREGSET = 0x202, 0, 2, 0x4204, 0x4205  # elf.h, sys/ptrace.h
XMM0, LEGACY_BITS = 160, 512  # bytes into the state: a register; which parts of the state are in use (XSTATE_BV)
WORD = ctypes.c_long(0x5AFE_C0DE)

library = ctypes.CDLL(None, use_errno=True)
library.ptrace.restype = ctypes.c_long
library.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def ask(request, process, length, data):
    """What ptrace says, as 0 or a number of errno, and how long the state was."""
    vector = IoVec(ctypes.cast(data, ctypes.c_void_p), length)
    failed = library.ptrace(request, process, XSTATE, ctypes.addressof(vector)) < 0
    return ctypes.get_errno() if failed else 0, vector.length


child = os.fork()
if not child:
    library.ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(child, 0)
try:
    state = ctypes.create_string_buffer(ROOM)
    ask(GETREGSET, child, SHORT, state)
    state[XMM0] = b"\x42"
    state[LEGACY_BITS] = bytes([state[LEGACY_BITS][0] | 2])
    error, _ = ask(SETREGSET, child, SHORT, state)
    whole = ctypes.create_string_buffer(ROOM)
    _, length = ask(GETREGSET, child, ROOM, whole)
    ctypes.set_errno(0)
    peeked = library.ptrace(PEEKDATA, child, ctypes.addressof(WORD), None)
    told = {"error": error, "length": length, "register": whole[XMM0][0], "rest": sorted(set(whole.raw[SHORT:length]))}
    print(json.dumps({**told, "peeked": peeked, "errno": ctypes.get_errno()}))
finally:
    os.kill(child, signal.SIGKILL)
