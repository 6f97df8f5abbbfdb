//! What of a capture is replayed: the frames of one side, with their times.

use crate::pcap::{self, CapturedFrame, Options};
use pinchpoint_wire::ethernet::{self, Mac};
use pinchpoint_wire::{arp, ipv4, ipv6};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

/// Who sent a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An address with this many leading bits, of IP or of the sender of ARP.
    Network(IpAddr, u8),
    /// An Ethernet address.
    Mac(Mac),
    /// The interface of a pcapng file that captured it, from 0 in each section.
    Interface(u32),
}

impl FromStr for Source {
    type Err = String;

    /// `10.0.0.1`, `10.0.0.0/24`, `2001:db8::/64`, `02:00:00:00:00:01` or
    /// `interface:0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected an IP address or network such as 10.0.0.0/24, an Ethernet address or \
                 interface:N, got '{}'",
                text.chars().take(64).collect::<String>()
            )
        };
        if let Some(number) = text.strip_prefix("interface:") {
            return number.parse().map(Self::Interface).map_err(|_| expected());
        }
        if let Ok(mac) = text.parse() {
            return Ok(Self::Mac(mac));
        }
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            "" if !text.contains('/') => most,
            bits => bits.parse().map_err(|_| expected())?,
        };
        if bits > most {
            return Err(expected());
        }
        Ok(Self::Network(address, bits))
    }
}

impl Source {
    fn sent(&self, frame: &CapturedFrame) -> bool {
        match *self {
            Self::Interface(number) => frame.interface == number,
            Self::Mac(mac) => {
                ethernet::Frame::new_checked(&frame.bytes).is_ok_and(|view| view.src() == mac)
            }
            Self::Network(network, bits) => {
                sender(&frame.bytes).is_some_and(|address| is_within(address, network, bits))
            }
        }
    }
}

fn sender(bytes: &[u8]) -> Option<IpAddr> {
    let frame = ethernet::Frame::new_checked(bytes).ok()?;
    let payload = frame.payload();
    match frame.ethertype() {
        ethernet::ETHERTYPE_IPV4 => Some(ipv4::Packet::new_checked(payload).ok()?.src().into()),
        ethernet::ETHERTYPE_IPV6 => Some(ipv6::Packet::new_checked(payload).ok()?.src().into()),
        ethernet::ETHERTYPE_ARP => {
            let packet = arp::Packet::new_checked(payload).ok()?;
            Some(packet.sender_ip().into())
        }
        _ => None,
    }
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= bits
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= bits
        }
        _ => false,
    }
}

/// The frames of one side of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Their bytes, without check sequence.
    pub frames: Vec<Vec<u8>>,
    /// Their numbers in the capture, from 1 as Wireshark counts.
    pub numbers: Vec<usize>,
    /// Their times after the first frame of the capture, in order.
    pub offsets_ns: Vec<u64>,
    /// When the capture begins again: its length and one mean distance of its
    /// frames, those of all sides. Zero if they all have one time.
    pub period_ns: u64,
}

/// Reads the frames of the capture at `path` that `source` sent, or with
/// `others` those that it did not; all frames without a source.
///
/// # Errors
/// A line that names the file and the frame: as [`pcap::read`], and if times run
/// backwards or there is no such frame.
pub fn read(path: &Path, source: Option<&Source>, others: bool) -> Result<Side, String> {
    let captured = pcap::read(path, &Options::default()).map_err(|error| error.to_string())?;
    side(&path.display().to_string(), captured, source, others)
}

/// The same of frames that were read from `file`.
///
/// # Errors
/// As [`read`].
pub fn side(
    file: &str,
    captured: Vec<CapturedFrame>,
    source: Option<&Source>,
    others: bool,
) -> Result<Side, String> {
    let (Some(first), Some(last)) = (captured.first(), captured.last()) else {
        return Err(format!("{file}: the capture holds no frame"));
    };
    for (k, pair) in captured.windows(2).enumerate() {
        if let Some(back_ns) = pair[0].time_ns.checked_sub(pair[1].time_ns)
            && back_ns > 0
        {
            return Err(format!(
                "{file}: frame {}: captured {back_ns} ns before frame {}; sort the capture \
                 (reordercap)",
                k + 2,
                k + 1
            ));
        }
    }
    let (first_ns, span_ns) = (first.time_ns, last.time_ns - first.time_ns);
    let distances = captured.len() as u64 - 1;
    let mut side = Side {
        frames: Vec::new(),
        numbers: Vec::new(),
        offsets_ns: Vec::new(),
        period_ns: match distances {
            0 => 0,
            distances => span_ns.saturating_add(span_ns.div_ceil(distances)),
        },
    };
    for (k, frame) in captured.into_iter().enumerate() {
        if source.is_none_or(|source| source.sent(&frame)) != others {
            side.offsets_ns.push(frame.time_ns - first_ns);
            side.numbers.push(k + 1);
            side.frames.push(frame.bytes);
        }
    }
    if side.frames.is_empty() {
        return Err(format!("{file}: the capture holds no frame of that side"));
    }
    Ok(side)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 frame from this address, captured then on this interface.
    fn frame(time_ns: u64, last: u8, interface: u32) -> CapturedFrame {
        let mut bytes = vec![last; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend([10, 0, 0, last, 10, 0, 1, 1]);
        CapturedFrame {
            time_ns,
            original_len: bytes.len() as u32,
            bytes,
            interface,
        }
    }

    fn captured() -> Vec<CapturedFrame> {
        vec![frame(1000, 2, 0), frame(1100, 4, 1), frame(1600, 2, 0)]
    }

    #[test]
    fn a_side_is_told_by_address_or_interface_and_the_other_side_is_the_rest() {
        for text in [
            "10.0.0.2",
            "10.0.0.2/31",
            "02:02:02:02:02:02",
            "interface:0",
        ] {
            let source = text.parse().unwrap();
            let own = side("f", captured(), Some(&source), false).unwrap();
            assert_eq!(
                (own.numbers, own.offsets_ns),
                (vec![1, 3], vec![0, 600]),
                "{text}"
            );
            let other = side("f", captured(), Some(&source), true).unwrap();
            assert_eq!((other.numbers, other.offsets_ns), (vec![2], vec![100]));
            assert_eq!((own.period_ns, other.period_ns), (900, 900));
        }
        let all = side("f", captured(), None, false).unwrap();
        assert_eq!(all.numbers, [1, 2, 3]);
        let source = "0.0.0.0/0".parse().unwrap();
        assert_eq!(side("f", captured(), Some(&source), false).unwrap(), all);
    }

    #[test]
    fn what_cannot_be_replayed_is_one_line_with_file_and_frame() {
        let mut backwards = captured();
        backwards[2].time_ns = 1093;
        let none = "2001:db8::/32".parse().unwrap();
        for (captured, source, told) in [
            (vec![], None, "f: the capture holds no frame"),
            (
                backwards,
                None,
                "f: frame 3: captured 7 ns before frame 2; sort",
            ),
            (
                captured(),
                Some(&none),
                "f: the capture holds no frame of that side",
            ),
        ] {
            let error = side("f", captured, source, false).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn frames_of_one_time_have_no_period() {
        let frames = vec![frame(5, 1, 0), frame(5, 2, 0)];
        assert_eq!(side("f", frames, None, false).unwrap().period_ns, 0);
        let alone = vec![frame(5, 1, 0)];
        assert_eq!(side("f", alone, None, false).unwrap().period_ns, 0);
    }

    #[test]
    fn what_names_no_source_is_refused() {
        for text in [
            "",
            "x",
            "10.0.0.0/33",
            "10.0.0.0/",
            "interface:-1",
            "::/129",
        ] {
            let told = text.parse::<Source>().unwrap_err();
            assert!(
                told.starts_with("expected an IP address or network"),
                "{told}"
            );
        }
    }
}
