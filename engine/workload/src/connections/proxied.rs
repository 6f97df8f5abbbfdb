//! The header of the PROXY protocol, in which a proxy tells a backend its client: either form, and the clients told
//! so far (haproxy.org, proxy-protocol.txt, sections 2.1 and 2.2).

use super::end::{End, MOST_SOURCES};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TEXT: &[u8] = b"PROXY ";
const TEXT_MOST: usize = 107;
const BINARY: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the command PROXY.
const PROXY: u8 = 0x21;
const TCP_V4: u8 = 0x11;
const TCP_V6: u8 = 0x21;

/// The client in the header at the front of `bytes`, if it names one, and what follows the header; none where there
/// is no whole header.
#[inline]
pub(super) fn split(bytes: &[u8]) -> Option<(Option<End>, &[u8])> {
    match bytes.first() {
        Some(b'P') if bytes.starts_with(TEXT) => split_text(bytes),
        Some(b'\r') => split_binary(bytes.strip_prefix(BINARY)?),
        _ => None,
    }
}

/// `PROXY TCP4 SOURCE DESTINATION PORT PORT`, or `PROXY UNKNOWN`.
#[inline(never)]
fn split_text(bytes: &[u8]) -> Option<(Option<End>, &[u8])> {
    let front = &bytes[..bytes.len().min(TEXT_MOST)];
    let end = front.windows(2).position(|two| two == b"\r\n")?;
    let line = std::str::from_utf8(&front[..end]).ok()?;
    let mut words = line.split(' ').skip(2);
    let (ip, _, port) = (words.next(), words.next(), words.next());
    let ip = ip.and_then(|word| word.parse::<IpAddr>().ok());
    let port = port.and_then(|word| word.parse::<u16>().ok());
    let client = ip.zip(port).map(|(ip, port)| End::new(ip, port));
    Some((client, &bytes[end + 2..]))
}

#[inline(never)]
fn split_binary(bytes: &[u8]) -> Option<(Option<End>, &[u8])> {
    let (&[command, family, high, low], rest) = bytes.split_first_chunk::<4>()?;
    let len = usize::from(u16::from_be_bytes([high, low]));
    let (addresses, rest) = rest.split_at_checked(len)?;
    let client = match (command, family) {
        (PROXY, TCP_V4) => addresses.first_chunk::<12>().map(|all| {
            let [a, b, c, d, _, _, _, _, high, low, ..] = *all;
            End::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]))
        }),
        (PROXY, TCP_V6) => addresses.first_chunk::<36>().and_then(|all| {
            let ip = Ipv6Addr::from(*all.first_chunk::<16>()?);
            Some(End::new(ip, u16::from_be_bytes([all[32], all[33]])))
        }),
        _ => None,
    };
    Some((client, rest))
}

/// Clients that headers in segments of their own have told, by the end that sent them and the backend: a request
/// comes later. At most [`MOST_SOURCES`].
#[derive(Debug, Clone, Default)]
pub(super) struct Told(HashMap<(End, u16), End, RandomState>);

impl Told {
    /// The header of a connection's only segment so far.
    pub(super) fn note(&mut self, from: End, backend: u16, client: Option<End>) {
        if let Some(client) = client.filter(|_| self.0.len() < MOST_SOURCES) {
            self.0.insert((from, backend), client);
        }
    }

    /// Whose connection it is; none where no header has told.
    #[inline(always)]
    pub(super) fn client(&self, from: End, backend: u16) -> Option<End> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(from, backend)).copied()
    }

    /// A connection from there begins or ends.
    #[inline(always)]
    pub(super) fn forget(&mut self, from: End, backend: u16) {
        if !self.0.is_empty() {
            self.0.remove(&(from, backend));
        }
    }
}
