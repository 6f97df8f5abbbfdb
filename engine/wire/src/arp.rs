//! ARP for IPv4 over Ethernet (RFC 826).

use crate::ethernet::Mac;
use crate::{Malformed, be16};
use core::net::Ipv4Addr;

/// Bytes of a packet.
pub const LEN: usize = 28;
/// Operation of a request.
pub const REQUEST: u16 = 1;
/// Operation of a reply.
pub const REPLY: u16 = 2;
/// Hardware type Ethernet, protocol type IPv4, and the lengths of both.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// View of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8; LEN],
}

impl<'a> Packet<'a> {
    /// A view of the packet at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] if it does not fit or is not of IPv4 over Ethernet.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let bytes = bytes.first_chunk::<LEN>().ok_or(Malformed)?;
        if bytes[..6] != ETHERNET_IPV4 {
            return Err(Malformed);
        }
        Ok(Self { bytes })
    }

    /// What is asked or told.
    pub fn operation(&self) -> u16 {
        be16(self.bytes, 6)
    }

    /// Ethernet address of who sent this.
    pub fn sender_mac(&self) -> Mac {
        self.mac(8)
    }

    /// IPv4 address of who sent this.
    pub fn sender_ip(&self) -> Ipv4Addr {
        self.ip(14)
    }

    /// Ethernet address of who is asked; unknown in a request.
    pub fn target_mac(&self) -> Mac {
        self.mac(18)
    }

    /// IPv4 address of who is asked.
    pub fn target_ip(&self) -> Ipv4Addr {
        self.ip(24)
    }

    fn mac(self, at: usize) -> Mac {
        let mut mac = Mac::default();
        mac.0.copy_from_slice(&self.bytes[at..at + 6]);
        mac
    }

    fn ip(self, at: usize) -> Ipv4Addr {
        Ipv4Addr::from_bits(crate::be32(self.bytes, at))
    }
}

/// A packet as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What is asked or told.
    pub operation: u16,
    /// Ethernet address of the sender.
    pub sender_mac: Mac,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Ethernet address of the target; zero in a request.
    pub target_mac: Mac,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl Header {
    /// Reads the value back.
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        }
    }

    /// Writes the packet.
    pub fn emit(&self, out: &mut [u8; LEN]) {
        out[..6].copy_from_slice(&ETHERNET_IPV4);
        out[6..8].copy_from_slice(&self.operation.to_be_bytes());
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..].copy_from_slice(&self.target_ip.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packet_round_trips(operation: u16, macs: ([u8; 6], [u8; 6]), ips: (u32, u32)) {
            let header = Header {
                operation,
                sender_mac: Mac(macs.0), sender_ip: ips.0.into(),
                target_mac: Mac(macs.1), target_ip: ips.1.into(),
            };
            let mut bytes = [0; LEN];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&Packet::new_checked(&bytes).unwrap()), header);
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Packet::new_checked(&bytes).is_ok();
            if bytes.len() >= 6 {
                bytes[..6].copy_from_slice(&ETHERNET_IPV4);
                let _ = Packet::new_checked(&bytes).map(|packet| Header::parse(&packet));
            }
        }
    }
}
