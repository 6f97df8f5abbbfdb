//! Packet formats as views over bytes.
//!
//! Each protocol has one file with two types: a *view* that borrows bytes and
//! reads fields at their offsets, and a *value* (`Header`) that can be written
//! into a buffer. A view is only made by `new_checked`, which refuses a slice
//! too short for the header it announces; every later access is then in
//! bounds, whatever the bytes are.
//!
//! The crate does no I/O, allocates nothing and needs no standard library.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod answer;
pub mod arp;
pub mod ask;
pub mod checksum;
pub mod end;
pub mod esp;
pub mod ethernet;
pub mod geneve;
pub mod gre;
pub mod gtpu;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod nsh;
pub mod pppoe;
pub mod signature;
pub mod tcp;
pub mod tuple;
pub mod udp;
pub mod verify;
pub mod vlan;
pub mod vxlan;

/// The bytes are too few, or announce lengths that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("truncated or malformed packet")
    }
}

impl core::error::Error for Malformed {}

/// Bytes of the frame check sequence, which a buffer never holds but
/// `frame_bytes` counts (RFC 1242 usage).
pub const FCS_LEN: usize = 4;

#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A 24-bit number, as virtual network identifiers are.
#[inline(always)]
pub(crate) fn be24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

/// The front of `out`, `len` bytes.
pub(crate) fn front(out: &mut [u8], len: usize) -> Result<&mut [u8], Malformed> {
    out.get_mut(..len).ok_or(Malformed)
}
