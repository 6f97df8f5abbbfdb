//! What the user says about the interface.

use crate::OpenError;
use crate::options::Options;

const EXPECTED: &str = "NAME,fanout=hash|lb|cpu,mmap=0|1";

/// How the kernel spreads arriving frames over the queues of a port
/// (packet(7), `PACKET_FANOUT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fanout {
    /// By flow: the same five-tuple, either way round, meets the same queue.
    Hash,
    /// In turn, whatever the flow.
    Balance,
    /// By the processor that the frame arrived on.
    Cpu,
}

/// A device string, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Device<'a> {
    pub(super) name: &'a str,
    pub(super) fanout: Fanout,
    /// Rings shared with the kernel, or else messages copied by system calls.
    pub(super) mmap: bool,
}

impl<'a> Device<'a> {
    /// Reads `eth0` or, with every option, `eth0,fanout=hash,mmap=1`.
    pub(super) fn parse(device: &'a str) -> Result<Self, OpenError> {
        let mut options = Options::parse("af_packet", device, EXPECTED)?;
        let fanout = options.take("fanout", Fanout::Hash, |value| match value {
            "hash" => Some(Fanout::Hash),
            "lb" => Some(Fanout::Balance),
            "cpu" => Some(Fanout::Cpu),
            _ => None,
        })?;
        let device = Self {
            name: options.name,
            fanout,
            mmap: options.switch("mmap", true)?,
        };
        options.finish()?;
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_means_rings_and_spreading_by_flow() {
        let expected = Device {
            name: "eth0",
            fanout: Fanout::Hash,
            mmap: true,
        };
        assert_eq!(Device::parse("eth0"), Ok(expected));
    }

    #[test]
    fn options_follow_commas_in_any_order() {
        let expected = Device {
            name: "eth0.7",
            fanout: Fanout::Cpu,
            mmap: false,
        };
        assert_eq!(Device::parse("eth0.7,mmap=0,fanout=cpu"), Ok(expected));
        let balanced = Device::parse("eth0,fanout=lb,mmap=1").unwrap();
        assert_eq!((balanced.fanout, balanced.mmap), (Fanout::Balance, true));
    }

    #[test]
    fn an_unknown_option_is_named() {
        for part in ["fanout=random", "mmap=2", "mmap", "queue=1", ""] {
            let error = Device::parse(&format!("eth0,{part}")).unwrap_err();
            let message = format!("af_packet device 'eth0,{part}': cannot read '{part}'");
            assert_eq!(error.message, message);
            assert!(error.hint.unwrap().contains("fanout=hash|lb|cpu"));
        }
    }
}
