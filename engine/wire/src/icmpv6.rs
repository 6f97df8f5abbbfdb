//! ICMPv6 (RFC 4443) and neighbour discovery (RFC 4861).

use crate::checksum::{self, Address};
use crate::ethernet::Mac;
use crate::{Malformed, icmp, ipv4};
use core::net::Ipv6Addr;

/// Bytes of a header.
pub const HEADER_LEN: usize = icmp::HEADER_LEN;
/// Type of an echo request.
pub const ECHO: u8 = 128;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type of a neighbour solicitation.
pub const SOLICITATION: u8 = 135;
/// Type of a neighbour advertisement.
pub const ADVERTISEMENT: u8 = 136;
/// The message is ICMP's but for its checksum.
pub use icmp::Header;

/// View of a message.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    message: icmp::Message<'a>,
    bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// A view of `bytes`, an IPv6 packet's payload.
    ///
    /// # Errors
    /// [`Malformed`] if the header does not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let message = icmp::Message::new_checked(bytes)?;
        Ok(Self { message, bytes })
    }

    /// Type, code and the four bytes after the checksum.
    pub fn header(&self) -> Header {
        Header::parse(&self.message)
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.message.payload()
    }

    /// Whether the checksum is right for these addresses.
    pub fn verify_checksum(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        checksum::fold(pseudo_sum(src, dst, self.bytes.len()) + checksum::sum(self.bytes)) == 0xffff
    }
}

fn pseudo_sum<A: Address>(src: A, dst: A, len: usize) -> u64 {
    checksum::pseudo_sum(src, dst, ipv4::PROTOCOL_ICMPV6, len as u32)
}

/// Writes header and checksum into the front of `message`, whose payload must
/// already stand behind it.
///
/// # Errors
/// [`Malformed`] if `message` is shorter than a header.
pub fn emit(
    header: &Header,
    message: &mut [u8],
    src: Ipv6Addr,
    dst: Ipv6Addr,
) -> Result<(), Malformed> {
    header.emit_without_checksum(message)?;
    let total = pseudo_sum(src, dst, message.len()) + checksum::sum(message);
    message[2..4].copy_from_slice(&checksum::finish(total).to_be_bytes());
    Ok(())
}

/// Bytes of a neighbour message with one link-layer address.
pub const NEIGHBOUR_LEN: usize = HEADER_LEN + 16 + 8;
/// Flag of an advertisement: it answers a solicitation.
pub const SOLICITED: u8 = 0x40;
/// Flag of an advertisement: what is known already is to be replaced.
pub const OVERRIDE: u8 = 0x20;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// A neighbour solicitation or advertisement as a value (RFC 4861 sections 4.3
/// and 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// Who has `target`?
    Solicitation {
        /// The address asked for.
        target: Ipv6Addr,
        /// Where the one who asks is reached, unless it has no address yet.
        source: Option<Mac>,
    },
    /// `target` is at `link`.
    Advertisement {
        /// The address told about.
        target: Ipv6Addr,
        /// [`SOLICITED`], [`OVERRIDE`] and 0x80 for a router.
        flags: u8,
        /// Where it is.
        link: Option<Mac>,
    },
}

impl Neighbour {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed`] if it is of another type or code, too short, about a
    /// multicast address, or has an option of no length (RFC 4861 sections
    /// 7.1.1 and 7.1.2; the checksum and the hop limit are the caller's).
    pub fn parse(message: &Message<'_>) -> Result<Self, Malformed> {
        let header = message.header();
        let (target, options) = message.payload().split_first_chunk().ok_or(Malformed)?;
        let target = Ipv6Addr::from(*target);
        if header.code != 0 || target.is_multicast() {
            return Err(Malformed);
        }
        match header.kind {
            SOLICITATION => Ok(Self::Solicitation {
                target,
                source: link_layer(options, SOURCE_LINK_LAYER)?,
            }),
            ADVERTISEMENT => Ok(Self::Advertisement {
                target,
                flags: (header.identifier >> 8) as u8,
                link: link_layer(options, TARGET_LINK_LAYER)?,
            }),
            _ => Err(Malformed),
        }
    }

    /// Writes the message with its checksum; returns its bytes.
    pub fn emit(&self, out: &mut [u8; NEIGHBOUR_LEN], src: Ipv6Addr, dst: Ipv6Addr) -> usize {
        let (kind, flags, target, option, mac) = match *self {
            Self::Solicitation { target, source } => {
                (SOLICITATION, 0, target, SOURCE_LINK_LAYER, source)
            }
            Self::Advertisement {
                target,
                flags,
                link,
            } => (ADVERTISEMENT, flags, target, TARGET_LINK_LAYER, link),
        };
        let len = if mac.is_some() { NEIGHBOUR_LEN } else { 24 };
        out[8..24].copy_from_slice(&target.octets());
        out[24..26].copy_from_slice(&[option, 1]);
        out[26..].copy_from_slice(&mac.unwrap_or_default().0);
        let header = Header {
            kind,
            code: 0,
            identifier: u16::from(flags) << 8,
            sequence: 0,
        };
        // The buffer is longer than a header.
        let _ = emit(&header, &mut out[..len], src, dst);
        len
    }
}

/// The Ethernet address of an option of type `wanted` (RFC 4861 section 4.6).
fn link_layer(mut options: &[u8], wanted: u8) -> Result<Option<Mac>, Malformed> {
    let mut found = None;
    while let Some((head, _)) = options.split_first_chunk::<2>() {
        let len = usize::from(head[1]) * 8;
        if len == 0 || len > options.len() {
            return Err(Malformed);
        }
        if head[0] == wanted && len == 8 {
            let mut mac = Mac::default();
            mac.0.copy_from_slice(&options[2..8]);
            found = Some(mac);
        }
        options = &options[len..];
    }
    if options.is_empty() {
        Ok(found)
    } else {
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn message_round_trips(
            kind: u8, code: u8, identifier: u16, sequence: u16, addresses: (u128, u128),
            payload_len in 0usize..99,
        ) {
            let (src, dst) = (Ipv6Addr::from(addresses.0), Ipv6Addr::from(addresses.1));
            let header = Header { kind, code, identifier, sequence };
            let mut bytes = vec![3; HEADER_LEN + payload_len];
            emit(&header, &mut bytes, src, dst).unwrap();
            let message = Message::new_checked(&bytes).unwrap();
            prop_assert_eq!(message.header(), header);
            prop_assert!(message.verify_checksum(src, dst));
            bytes[0] ^= 1;
            prop_assert!(!Message::new_checked(&bytes).unwrap().verify_checksum(src, dst));
        }

        #[test]
        fn neighbour_messages_round_trip(
            advertised: bool, target in 0u128..0xff << 120, flags in 0u8..8, mac: Option<[u8; 6]>,
        ) {
            let (target, mac) = (Ipv6Addr::from(target), mac.map(Mac));
            let message = if advertised {
                Neighbour::Advertisement { target, flags: flags << 5, link: mac }
            } else {
                Neighbour::Solicitation { target, source: mac }
            };
            let (src, dst) = (Ipv6Addr::LOCALHOST, target);
            let mut bytes = [0; NEIGHBOUR_LEN];
            let len = message.emit(&mut bytes, src, dst);
            let view = Message::new_checked(&bytes[..len]).unwrap();
            prop_assert!(view.verify_checksum(src, dst));
            prop_assert_eq!(Neighbour::parse(&view), Ok(message));
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 2..80)) {
            bytes[0] = SOLICITATION;
            bytes[1] = 0;
            if let Ok(message) = Message::new_checked(&bytes) {
                let _ = (message.header(), message.payload(), Neighbour::parse(&message));
                let _ = message.verify_checksum(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            }
        }
    }
}
