//! What the user says about the interface.

use crate::options::Options;
use crate::{OpenError, Stamps};

const EXPECTED: &str = "NAME,fanout=hash|lb|cpu,mmap=0|1,stamps=engine|kernel|nic";

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
    /// Whose clock says when a frame arrived.
    pub(super) stamps: Stamps,
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
        let stamps = options.take("stamps", Stamps::Engine, |value| match value {
            "engine" => Some(Stamps::Engine),
            "kernel" => Some(Stamps::Kernel),
            "nic" => Some(Stamps::Nic),
            _ => None,
        })?;
        let device = Self {
            name: options.name,
            fanout,
            mmap: options.switch("mmap", true)?,
            stamps,
        };
        options.finish()?;
        if stamps != Stamps::Engine && !device.mmap {
            let message = format!("{}: only frames of a ring have time stamps", device.name);
            return Err(OpenError::new(message).hint("leave out mmap=0, or stamps"));
        }
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
            stamps: Stamps::Engine,
        };
        assert_eq!(Device::parse("eth0"), Ok(expected));
    }

    #[test]
    fn options_follow_commas_in_any_order() {
        let expected = Device {
            name: "eth0.7",
            fanout: Fanout::Cpu,
            mmap: false,
            stamps: Stamps::Engine,
        };
        assert_eq!(Device::parse("eth0.7,mmap=0,fanout=cpu"), Ok(expected));
        let balanced = Device::parse("eth0,fanout=lb,mmap=1").unwrap();
        assert_eq!((balanced.fanout, balanced.mmap), (Fanout::Balance, true));
        let stamped = Device::parse("eth0,stamps=kernel").unwrap();
        assert_eq!(stamped.stamps, Stamps::Kernel);
    }

    #[test]
    fn an_unknown_option_is_named() {
        for part in [
            "fanout=random",
            "mmap=2",
            "mmap",
            "queue=1",
            "stamps=ptp",
            "",
        ] {
            let error = Device::parse(&format!("eth0,{part}")).unwrap_err();
            let message = format!("af_packet device 'eth0,{part}': cannot read '{part}'");
            assert_eq!(error.message, message);
            assert!(error.hint.unwrap().contains("fanout=hash|lb|cpu"));
        }
    }

    #[test]
    fn stamps_need_the_ring() {
        let error = Device::parse("eth0,mmap=0,stamps=nic").unwrap_err();
        assert!(error.message.contains("only frames of a ring"));
        assert!(Device::parse("eth0,mmap=0,stamps=engine").is_ok());
    }
}
