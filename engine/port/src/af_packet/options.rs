use crate::OpenError;

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

/// An interface and how to drive it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options<'a> {
    pub(super) interface: &'a str,
    pub(super) fanout: Fanout,
    /// Rings shared with the kernel, or else messages copied by system calls.
    pub(super) mmap: bool,
}

impl<'a> Options<'a> {
    /// Reads `eth0` or `eth0,fanout=hash|lb|cpu,mmap=0|1`.
    pub(super) fn parse(device: &'a str) -> Result<Self, OpenError> {
        let mut parts = device.split(',');
        let mut options = Self {
            interface: parts.next().unwrap_or_default(),
            fanout: Fanout::Hash,
            mmap: true,
        };
        for part in parts {
            match part {
                "fanout=hash" => options.fanout = Fanout::Hash,
                "fanout=lb" => options.fanout = Fanout::Balance,
                "fanout=cpu" => options.fanout = Fanout::Cpu,
                "mmap=0" => options.mmap = false,
                "mmap=1" => options.mmap = true,
                _ => {
                    return Err(OpenError::new(format!(
                        "af_packet device '{device}': cannot read '{part}'"
                    ))
                    .hint("expected fanout=hash, fanout=lb, fanout=cpu, mmap=0 or mmap=1"));
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_means_rings_and_spreading_by_flow() {
        let expected = Options {
            interface: "eth0",
            fanout: Fanout::Hash,
            mmap: true,
        };
        assert_eq!(Options::parse("eth0"), Ok(expected));
    }

    #[test]
    fn options_follow_commas_in_any_order() {
        let expected = Options {
            interface: "eth0.7",
            fanout: Fanout::Cpu,
            mmap: false,
        };
        assert_eq!(Options::parse("eth0.7,mmap=0,fanout=cpu"), Ok(expected));
        let balanced = Options::parse("eth0,fanout=lb,mmap=1").unwrap();
        assert_eq!((balanced.fanout, balanced.mmap), (Fanout::Balance, true));
    }

    #[test]
    fn an_unknown_option_is_named() {
        for part in ["fanout=random", "mmap=2", "mmap", "queue=1", ""] {
            let error = Options::parse(&format!("eth0,{part}")).unwrap_err();
            let message = format!("af_packet device 'eth0,{part}': cannot read '{part}'");
            assert_eq!(error.message, message);
        }
    }
}
