"""What a process does to itself before it runs code that nobody has looked at. Python's standard library alone.

Without links, sockets, writable files, privileges and children: namespaces(7), mount_setattr(2), setrlimit(2),
prctl(2), seccomp(2).
"""

import ctypes
import os
import resource
import struct
import sys
from contextlib import suppress
from typing import Final

CPU_S: Final = 3
MEMORY_BYTES: Final = 512 << 20
OUTPUT_BYTES: Final = 4 << 20
FILES: Final = 64
NOBODY: Final = 65534
CPU_SPENT, NO_NAMESPACES, KILLED = 90, 91, 92
"""Exit codes by which the watching process says how the confined one ended."""

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_MS_RDONLY, _MS_REC, _MS_PRIVATE = 1, 0x4000, 0x40000
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_SYS_MOUNT_SETATTR: Final = 442  # the same on all architectures
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 22, 38, 9
# Machine -> its AUDIT_ARCH, and its numbers of socket, socketpair and io_uring_setup (asm/unistd.h).
_CALLS: Final = {"x86_64": (0xC000003E, (41, 53, 425)), "aarch64": (0xC00000B7, (198, 199, 425))}
_OTHER_ABI: Final = 0x40000000  # the bit of x32


def enter() -> None:
    """Go on as a confined child; the caller's process waits for it and ends with its exit code, or one of the above.

    Afterwards there are no links and no sockets, no file can be written but those already open, up to OUTPUT_BYTES, no
    process can be started, and CPU time and memory are limited.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    spaces = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    try:
        if libc.unshare(spaces) != 0:
            _check(libc.unshare(spaces | _NEWUSER))
        _check(libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None))
        with suppress(OSError):  # sockets of daemons; a file system of its own, so that their paths lead nowhere
            _check(libc.mount(b"none", b"/run", b"tmpfs", ctypes.c_ulong(_MS_RDONLY), None))
        read_only = struct.pack("4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)  # set, clear, propagation, user namespace
        _check(libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, read_only, len(read_only)))
        child = os.fork()
        if child:
            _watch(child)
        _give_up(libc)
        _refuse_sockets(libc)
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        sys.stderr.flush()
        os._exit(NO_NAMESPACES)


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _watch(child: int) -> None:
    """Wait for the child and end as it did. Ticks of the account of CPU time are not those of the limit."""
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        code = CPU_SPENT if usage.ru_utime + usage.ru_stime >= CPU_S / 2 else KILLED
    os._exit(code)


def _give_up(libc: ctypes.CDLL) -> None:
    limits = {
        resource.RLIMIT_CPU: CPU_S, resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_FSIZE: OUTPUT_BYTES,
        resource.RLIMIT_NOFILE: FILES, resource.RLIMIT_NPROC: 0, resource.RLIMIT_CORE: 0,
    }  # fmt: skip
    for which, most in limits.items():
        resource.setrlimit(which, (most, most))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    header = struct.pack("Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3: two sets of three words; this process
    _check(libc.capset(header, bytes(2 * 3 * 4)))
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check(libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))


def _refuse_sockets(libc: ctypes.CDLL) -> None:
    """No socket can be made, so that none of a file's name is reached either. Raises OSError on other machines."""
    machine = os.uname().machine
    if machine not in _CALLS:
        raise OSError(0, f"no filter of system calls is known for {machine}")
    architecture, calls = _CALLS[machine]
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JGE|K, BPF_RET|K
    allow, refuse = 0x7FFF0000, 0x00050000 | 1  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with EPERM
    lines = [(load, 0, 0, 4), (equal, 0, len(calls) + 3, architecture), (load, 0, 0, 0)]
    lines.append((at_least, len(calls) + 1, 0, _OTHER_ABI))
    lines += [(equal, len(calls) - number, 0, call) for number, call in enumerate(calls)]
    lines += [(end, 0, 0, allow), (end, 0, 0, refuse)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))  # code, yes, no, k
    program = struct.pack("HP", len(lines), ctypes.addressof(filters))
    _check(libc.prctl(_PR_SET_SECCOMP, 2, program, 0, 0))
