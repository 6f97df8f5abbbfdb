//! TCP options: how the engine writes its own, and reads those of others.

use super::end::End;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a time stamp, with the two before it that align it.
pub const STAMP_LEN: usize = 12;
/// Bytes of the longest options that the engine sends.
pub(super) const MOST_LEN: usize = MSS_V4.len() + STAMP_LEN;

/// Maximum segment size 1,460, and 1,440 over IPv6 (RFC 9293 section 3.7.1).
const MSS_V4: [u8; 4] = [2, 4, 0x05, 0xb4];
const MSS_V6: [u8; 4] = [2, 4, 0x05, 0xa0];
const NOP: u8 = 1;
const STAMP: u8 = 8;
/// The option in which a full-NAT balancer tells a backend the client's address.
const TOA: u8 = 254;

/// A time stamp (RFC 7323 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The sender's time.
    pub value: u32,
    /// The other side's latest value; 0 in a SYN.
    pub echo: u32,
}

/// The time of an end's stamps, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct StampClock {
    base: u32,
    now: u32,
}

impl StampClock {
    /// It shows `base` when the engine's own clock shows 0.
    pub fn new(base: u32) -> Self {
        Self { base, now: base }
    }

    /// The engine's own clock shows `now_ns`. No stamp is 0, which stands for none.
    #[inline(always)]
    pub fn set(&mut self, now_ns: u64) {
        let now = self.base.wrapping_add((now_ns / 1_000_000) as u32);
        self.now = now.max(1);
    }

    /// A stamp of now, which answers `echo`.
    #[inline(always)]
    pub fn stamp(&self, echo: u32) -> Stamp {
        Stamp {
            value: self.now,
            echo,
        }
    }
}

/// Options as they stand on the wire: each one's kind, and what follows its length. Ends at the first that does not fit.
#[derive(Debug, Clone)]
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.0 {
                [NOP, ref after @ ..] => self.0 = after,
                [kind, len, ..] if kind > NOP && len >= 2 => {
                    let option = self.0.get(2..usize::from(len))?;
                    self.0 = &self.0[usize::from(len)..];
                    return Some((kind, option));
                }
                _ => return None,
            }
        }
    }
}

/// The client's end in a TOA option; none if there is none.
pub(super) fn toa(options: &[u8]) -> Option<End> {
    let (_, told) = Options(options).find(|&(kind, told)| kind == TOA && is_toa(told))?;
    let (port, address) = told.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    Some(match *address {
        [a, b, c, d] => End::new(Ipv4Addr::new(a, b, c, d), port),
        _ => End::new(Ipv6Addr::from(*address.first_chunk::<16>()?), port),
    })
}

fn is_toa(told: &[u8]) -> bool {
    matches!(told.len(), 6 | 18)
}

/// The time stamp; none if there is none.
#[inline(always)]
pub(super) fn stamp(options: &[u8]) -> Option<Stamp> {
    let told = match options {
        [] => return None,
        [NOP, NOP, STAMP, 10, told @ ..] => told,
        _ => Options(options).find(|&(kind, _)| kind == STAMP)?.1,
    };
    let four = |at: usize| Some(u32::from_be_bytes(*told.get(at..)?.first_chunk()?));
    Some(Stamp {
        value: four(0)?,
        echo: four(4)?,
    })
}

/// Bytes of the options of a SYN, or of another segment, with a time stamp or without.
#[inline(always)]
pub(super) fn len(is_syn: bool, stamp: Option<Stamp>) -> usize {
    let mss = if is_syn { MSS_V4.len() } else { 0 };
    mss + if stamp.is_some() { STAMP_LEN } else { 0 }
}

/// The only option of a SYN without a time stamp.
#[inline(always)]
pub(super) const fn mss(is_v4: bool) -> &'static [u8; 4] {
    if is_v4 { &MSS_V4 } else { &MSS_V6 }
}

/// Writes them to the front of `out`: as many bytes as [`len`] says.
#[inline(always)]
pub(super) fn write(is_syn: bool, is_v4: bool, stamp: Option<Stamp>, out: &mut [u8; MOST_LEN]) {
    let mut at = 0;
    if is_syn {
        let mss = mss(is_v4);
        out[..mss.len()].copy_from_slice(mss);
        at = mss.len();
    }
    if let Some(Stamp { value, echo }) = stamp {
        out[at..at + 4].copy_from_slice(&[NOP, NOP, STAMP, 10]);
        out[at + 4..at + 8].copy_from_slice(&value.to_be_bytes());
        out[at + 8..at + 12].copy_from_slice(&echo.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stamp_is_found_among_the_options_of_a_kernel_s_syn() {
        let linux = [
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 1, 2, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let found = stamp(&linux);
        assert_eq!(
            found,
            Some(Stamp {
                value: 0x102,
                echo: 0
            })
        );
        assert_eq!(stamp(&linux[..12]), None, "cut off");
        assert_eq!(stamp(&[2, 4, 5, 0xb4]), None);
    }

    #[test]
    fn a_client_s_end_is_found_behind_a_stamp() {
        let mut room = [0; MOST_LEN];
        write(false, true, Some(StampClock::new(5).stamp(6)), &mut room);
        let options = [&room[..STAMP_LEN], &[TOA, 8, 0, 80, 10, 0, 0, 1]].concat();
        assert_eq!(
            toa(&options),
            Some(End::new(Ipv4Addr::new(10, 0, 0, 1), 80))
        );
        assert_eq!(toa(&options[..STAMP_LEN]), None);
        assert_eq!(toa(&[TOA, 7, 0, 80, 10, 0, 0]), None);
    }

    #[test]
    fn milliseconds_go_on_from_the_base_and_round() {
        let mut clock = StampClock::new(u32::MAX);
        for now_ns in [1_999_999, 2_999_999] {
            clock.set(now_ns);
            assert_eq!(clock.stamp(9), Stamp { value: 1, echo: 9 });
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: u32, echo: u32, is_syn: bool, is_v4: bool) {
            let (mut room, written) = ([0; MOST_LEN], Some(Stamp { value, echo }));
            write(is_syn, is_v4, written, &mut room);
            prop_assert_eq!(stamp(&room[..len(is_syn, written)]), written);
        }

        #[test]
        fn options_of_any_bytes_are_read_to_their_end(bytes: Vec<u8>) {
            let (_, _) = (toa(&bytes), stamp(&bytes));
            prop_assert!(Options(&bytes).count() <= bytes.len());
        }
    }
}
