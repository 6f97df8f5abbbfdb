//! Making a device appear, also one that waits for its other end.
//!
//! A vhost-user port in server mode listens on a socket and, in its driver's
//! probe, blocks until a client connects. So the probe runs in a thread of its
//! own, and after the deadline a client that hangs up at once makes it fail.
//! A client that hangs up before that, as a busy switch does, connects again:
//! the probe is repeated until the deadline.

use super::{eal, ffi, strerror};
use crate::{Deadline, OpenError};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, UnixAddr, accept, getsockname, getsockopt,
    shutdown, socket, sockopt,
};
use std::ffi::{CString, c_int};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(2);
const HANG_UP_EVERY: Duration = Duration::from_millis(50);
/// How long a driver may take beside any wait for its other end: those of NICs
/// load firmware.
const PROBE: Duration = Duration::from_secs(5);
/// How long a driver may take to notice that its probe is to end.
const ENDING: Duration = Duration::from_secs(1);

/// Probes the device `devargs`; returns its ethdev port id.
pub(super) fn attach(devargs: &str, deadline: Deadline<'_>) -> Result<u16, OpenError> {
    let text = CString::new(devargs).map_err(|_| OpenError::new("device contains a zero byte"))?;
    let socket = server_socket(devargs);
    if let Some(path) = socket {
        remove_stale(path);
    }
    loop {
        let probed = probe(devargs, text.clone(), socket, deadline)?;
        match (probed, socket) {
            (Ok(id), _) => return Ok(id),
            (Err(_), Some(path)) if !deadline.is_over() => {
                stop_listening(path);
                std::thread::sleep(HANG_UP_EVERY);
            }
            (Err(rc), _) => return Err(failure(devargs, rc)),
        }
    }
}

/// One probe of the device; returns its port, or the driver's failure. An error
/// once the deadline has passed.
fn probe(
    devargs: &str,
    text: CString,
    socket: Option<&Path>,
    deadline: Deadline<'_>,
) -> Result<Result<u16, c_int>, OpenError> {
    let probe = std::thread::spawn(move || {
        let mut id = 0;
        // SAFETY: the string and `id` outlive the call.
        let rc = unsafe { ffi::pp_attach(text.as_ptr(), &raw mut id) };
        (rc, id)
    });
    let begun = Instant::now();
    let mut gave_up = None;
    while !probe.is_finished() {
        std::thread::sleep(POLL);
        let leaving = deadline.cancelled.load(Ordering::Relaxed);
        let in_time = socket.is_none() && begun.elapsed() < PROBE && !leaving;
        if !deadline.is_over() || in_time {
            continue;
        }
        let since = *gave_up.get_or_insert_with(Instant::now);
        if since.elapsed() > ENDING {
            // It cannot be ended. Its thread ends with the process.
            eal::leave_waiting(devargs);
            return Err(no_answer(devargs, begun.elapsed()));
        }
        if let Some(path) = socket {
            drop(connect(path));
            std::thread::sleep(HANG_UP_EVERY);
        }
    }
    match probe.join() {
        Ok((0, id)) => Ok(Ok(id)),
        Ok(_) if gave_up.is_some() && socket.is_some() => {
            socket.map(stop_listening);
            Err(OpenError::link(format!("no client connected to {devargs}"))
                .hint("the switch connects to this socket: check that it runs and that its port is added"))
        }
        Ok((rc, _)) => Ok(Err(rc)),
        Err(_) => Err(OpenError::new(
            "the thread that opens the port failed; its message is on stderr",
        )),
    }
}

fn no_answer(devargs: &str, after: Duration) -> OpenError {
    let seconds = after.as_secs_f64();
    OpenError::link(format!(
        "{devargs}: its driver has not returned after {seconds:.1} s"
    ))
    .hint("check whether the process at the other end is stopped, then restart the engine")
}

fn failure(devargs: &str, rc: c_int) -> OpenError {
    OpenError::new(format!("cannot attach {devargs}: {}", strerror(rc)))
        .hint("see DPDK's log on stderr for the reason")
}

/// After a failed probe the driver keeps listening on the socket, which is no
/// longer served: removes it, so that no client connects, and hangs up on those
/// that had connected, since they would wait for ever instead of trying again.
fn stop_listening(path: &Path) {
    let _ = std::fs::remove_file(path);
    for listener in listeners(path) {
        // A client that had found the socket before it was removed is refused,
        // and accepting no longer waits.
        let _ = shutdown(listener, Shutdown::Read);
        while let Ok(client) = accept(listener) {
            // SAFETY: a new descriptor that nothing else knows.
            drop(unsafe { OwnedFd::from_raw_fd(client) });
        }
    }
}

/// This process's descriptors that listen at `path`.
fn listeners(path: &Path) -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let listens = |fd: &RawFd| {
        let own = getsockname::<UnixAddr>(*fd);
        // SAFETY: a descriptor closed meanwhile is an error of the call, no more.
        let borrowed = unsafe { BorrowedFd::borrow_raw(*fd) };
        own.is_ok_and(|own| own.path() == Some(path))
            && getsockopt(&borrowed, sockopt::AcceptConn).unwrap_or(false)
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(listens).collect()
}

/// Whether the driver of a device knows the state of its link. That of `net_virtio_user`
/// over vhost-vdpa does not ask for it, and says "down" of every device that could tell.
pub(super) fn knows_link(devargs: &str) -> bool {
    !devargs
        .split(',')
        .any(|part| part.starts_with("path=/dev/vhost-vdpa"))
}

/// The socket that a `net_virtio_user` device in server mode listens on.
fn server_socket(devargs: &str) -> Option<&Path> {
    let is_server = devargs.split(',').any(|part| part == "server=1");
    let path = devargs
        .split(',')
        .find_map(|part| part.strip_prefix("path="));
    path.filter(|_| is_server).map(Path::new)
}

/// Removes a socket that nobody listens on, as an engine that was killed leaves
/// it behind: it would keep the driver from listening.
fn remove_stale(path: &Path) {
    if connect(path).is_err_and(|errno| errno == Errno::ECONNREFUSED) {
        // The driver says why, should this not have worked.
        let _ = std::fs::remove_file(path);
    }
}

/// Connects without waiting: a driver that holds one client and accepts no
/// other leaves the socket's short queue full, and connecting would block.
fn connect(path: &Path) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let client = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    nix::sys::socket::connect(client.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind, listen};

    #[test]
    fn connecting_to_a_full_queue_does_not_wait() {
        let path = std::env::temp_dir().join(format!("pp-full-{}.sock", std::process::id()));
        let flags = SockFlag::SOCK_CLOEXEC;
        let server = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        bind(server.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&server, Backlog::new(1).unwrap()).unwrap();
        let clients: Vec<_> = (0..4).map(|_| connect(&path)).collect();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(clients[3].as_ref().err(), Some(&Errno::EAGAIN));
    }

    #[test]
    fn the_link_of_a_vhost_vdpa_device_is_not_known() {
        assert!(!knows_link(
            "net_virtio_user0,path=/dev/vhost-vdpa-0,queue_size=256"
        ));
        assert!(knows_link("net_virtio_user0,path=/run/x.sock,server=1"));
        assert!(knows_link("0000:01:00.0"));
    }

    #[test]
    fn only_a_server_has_a_socket_to_wait_on() {
        let server = "net_virtio_user0,path=/run/x.sock,server=1,queues=1";
        assert_eq!(server_socket(server), Some(Path::new("/run/x.sock")));
        assert_eq!(server_socket("net_virtio_user0,path=/run/x.sock"), None);
        assert_eq!(server_socket("net_null0,no-rx=1"), None);
    }
}
