//! Keeping a program where running it costs little.

use super::{AttachMode, Link, Program};
use crate::interface;
use nix::sched::{CloneFlags, unshare};
use std::fs::File;
use std::io;

/// Keeps an XDP program in the kernel's dispatcher (Linux,
/// kernel/bpf/dispatcher.c), the code through which drivers call XDP programs
/// without an indirect jump.
///
/// `BPF_PROG_RUN` puts the program there and takes it out again, each of which
/// waits until no processor runs the old code: tens of milliseconds a call.
/// A program that is attached to any interface is there already, and a call
/// takes microseconds. So it is attached to the loopback interface of a
/// namespace made for this alone, where no frame ever comes. The dispatcher
/// has 48 places.
pub(crate) struct Resident {
    _link: Link,
    /// Keeps the namespace.
    _netns: File,
}

impl Resident {
    pub(crate) fn new(program: &Program) -> io::Result<Self> {
        let keep = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let netns = File::open("/proc/thread-self/ns/net")?;
            let link = program.attach_xdp(interface::index_of("lo")?, AttachMode::Generic)?;
            Ok(Self {
                _link: link,
                _netns: netns,
            })
        };
        // The namespace is the thread's, not the process's.
        let kept = std::thread::scope(|scope| scope.spawn(keep).join());
        kept.map_err(|_| {
            io::Error::other(
                "the thread that attaches the program failed; its message is on stderr",
            )
        })?
    }
}
