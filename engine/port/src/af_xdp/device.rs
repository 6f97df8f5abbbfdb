//! What the user says about the device.

use crate::OpenError;
use crate::bpf::AttachMode;
use crate::options::Options;

const EXPECTED: &str = "NAME,mode=native|generic|auto,copy=auto|copy|zero,queue=N,need_wakeup=0|1,\
                        rx=0|1";

/// Whether frames are copied between the device's memory and ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copy {
    /// If they must be.
    Auto,
    Always,
    Never,
}

/// A device string, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device<'a> {
    pub(super) name: &'a str,
    /// Where the program runs; none for the better one that works.
    pub(super) mode: Option<AttachMode>,
    pub(super) copy: Copy,
    /// The first queue.
    pub(super) queue: u32,
    pub(super) need_wakeup: bool,
    /// Whether a program is attached; a port that only sends needs none.
    pub(super) receives: bool,
}

impl<'a> Device<'a> {
    /// Reads `veth0` or, with every option,
    /// `veth0,mode=native,copy=copy,queue=0,need_wakeup=1,rx=1`.
    pub(super) fn parse(device: &'a str) -> Result<Self, OpenError> {
        let mut options = Options::parse("af_xdp", device, EXPECTED)?;
        let mode = options.take("mode", None, |value| match value {
            "auto" => Some(None),
            "native" => Some(Some(AttachMode::Native)),
            "generic" => Some(Some(AttachMode::Generic)),
            _ => None,
        })?;
        let copy = options.take("copy", Copy::Auto, |value| match value {
            "auto" => Some(Copy::Auto),
            "copy" => Some(Copy::Always),
            "zero" => Some(Copy::Never),
            _ => None,
        })?;
        let device = Self {
            name: options.name,
            mode,
            copy,
            queue: options.number("queue", 0u16)?.into(),
            need_wakeup: options.switch("need_wakeup", true)?,
            receives: options.switch("rx", true)?,
        };
        options.finish()?;
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_better_mode_and_the_first_queue() {
        let device = Device::parse("veth0").unwrap();
        let expected = Device {
            name: "veth0",
            mode: None,
            copy: Copy::Auto,
            queue: 0,
            need_wakeup: true,
            receives: true,
        };
        assert_eq!(device, expected);
    }

    #[test]
    fn every_option_is_read() {
        let device = Device::parse("e0,mode=generic,copy=zero,queue=3,need_wakeup=0,rx=0");
        let expected = Device {
            name: "e0",
            mode: Some(AttachMode::Generic),
            copy: Copy::Never,
            queue: 3,
            need_wakeup: false,
            receives: false,
        };
        assert_eq!(device, Ok(expected));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_was_expected() {
        for bad in [
            "mode=fast",
            "queue=-1",
            "queue=99999",
            "speed=1",
            "rx",
            "rx=2",
        ] {
            let error = Device::parse(&format!("e0,{bad}")).unwrap_err();
            assert!(error.message.contains(&format!("'{bad}'")), "{error}");
            assert!(error.hint.unwrap().contains("mode=native|generic|auto"));
        }
    }
}
