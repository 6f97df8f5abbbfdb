//! TCP_INFO of a connection, which no safe crate in use offers.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Segments that the kernel sent again on this connection since it was
/// opened (`tcpi_total_retrans` of `TCP_INFO`, tcp(7)).
///
/// # Errors
/// The system's, when `socket` is not a TCP socket.
pub fn retransmits(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: `tcp_info` is a plain C structure of integers, valid when zero.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut len = mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: pointer and length describe `info`, the structure that the
    // option documents; a kernel with a shorter one writes less.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info.tcpi_total_retrans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn a_fresh_connection_sent_nothing_again_and_a_datagram_socket_cannot_tell() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(retransmits(stream.as_fd()).unwrap(), 0);
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(retransmits(datagrams.as_fd()).is_err());
    }
}
