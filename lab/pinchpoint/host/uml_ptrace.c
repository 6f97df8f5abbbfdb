/* A preloaded ptrace(2) with which user-mode Linux runs on processors with AMX.
 *
 * A kernel sets extended processor state only as a whole (xstateregs_set(), arch/x86/kernel/fpu/regset.c: EFAULT). With
 * AMX that is 11 kB, and user-mode Linux hands over the 2.7 kB that it knows. So where the kernel refuses, the
 * process's whole state is read, the shorter one laid over its beginning, and the whole set.
 *
 * Where it is built to: pinchpoint/host/guest_kernels.py. It is harmless on other processors: nothing is refused there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long ptrace_call(enum __ptrace_request request, pid_t process, void *address, void *data);

/* Found before user-mode Linux runs on stacks of its own; these have 16 KiB, so the state is not on them either. */
static ptrace_call *next;
static char state[64 * 1024];

__attribute__((constructor)) static void find_next(void) {
    next = (ptrace_call *)dlsym(RTLD_NEXT, "ptrace");
}

static long set_whole_state(pid_t process, void *address, const struct iovec *part) {
    struct iovec whole = {state, sizeof state};
    if (next(PTRACE_GETREGSET, process, address, &whole) < 0)
        return -1;
    if (whole.iov_len <= part->iov_len) { /* it was not refused for its length */
        errno = EFAULT;
        return -1;
    }
    memcpy(state, part->iov_base, part->iov_len);
    return next(PTRACE_SETREGSET, process, address, &whole);
}

long ptrace(enum __ptrace_request request, ...) {
    va_list arguments;
    va_start(arguments, request);
    pid_t process = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
    va_end(arguments);
    long result = next(request, process, address, data);
    if (result < 0 && errno == EFAULT && request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE)
        return set_whole_state(process, address, data);
    return result;
}
