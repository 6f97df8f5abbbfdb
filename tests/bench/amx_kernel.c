/* To be preloaded: ptrace(2) as the kernel of a processor with AMX has it, whose extended state is LARGE bytes.
 *
 * What this machine's processor has of them is its own; the rest is kept here, and is at first all REST.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGE = 11008, REST = 0xa5 };
static unsigned char rest[LARGE];

__attribute__((constructor)) static void fill(void) {
    memset(rest, REST, sizeof rest);
}

static long get_state(pid_t process, void *kind, struct iovec *wanted) {
    size_t room = wanted->iov_len < LARGE ? wanted->iov_len : LARGE;
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, process, kind, wanted) < 0)
        return -1;
    size_t own = wanted->iov_len;
    memcpy((char *)wanted->iov_base + own, rest + own, room - own);
    wanted->iov_len = room;
    return 0;
}

static long set_state(pid_t process, void *kind, const struct iovec *whole) {
    unsigned char before[LARGE];
    struct iovec own = {before, LARGE};
    if (whole->iov_len != LARGE) {
        errno = EFAULT;
        return -1;
    }
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, process, kind, &own) < 0)
        return -1;
    memcpy(rest + own.iov_len, (char *)whole->iov_base + own.iov_len, LARGE - own.iov_len);
    own.iov_base = whole->iov_base;
    return syscall(SYS_ptrace, PTRACE_SETREGSET, process, kind, &own);
}

long ptrace(enum __ptrace_request request, ...) {
    va_list arguments;
    va_start(arguments, request);
    pid_t process = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
    va_end(arguments);
    if ((long)address == NT_X86_XSTATE && request == PTRACE_GETREGSET)
        return get_state(process, address, data);
    if ((long)address == NT_X86_XSTATE && request == PTRACE_SETREGSET)
        return set_state(process, address, data);
    if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
        long word; /* ptrace(2): the system call stores it, the library's function returns it */
        long result = syscall(SYS_ptrace, request, process, address, &word);
        return result < 0 ? result : word;
    }
    return syscall(SYS_ptrace, request, process, address, data);
}
