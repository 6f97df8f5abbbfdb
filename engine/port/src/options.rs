//! The options behind a device's name, as in `eth0,queue=2`.

use crate::OpenError;
use std::str::FromStr;

/// A device string taken apart.
pub(crate) struct Options<'a> {
    backend: &'static str,
    device: &'a str,
    /// What the options may be, for the user.
    expected: &'static str,
    /// The device's name.
    pub(crate) name: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Takes `device` apart.
    ///
    /// # Errors
    /// Names the part that is not `key=value`.
    pub(crate) fn parse(
        backend: &'static str,
        device: &'a str,
        expected: &'static str,
    ) -> Result<Self, OpenError> {
        let mut parts = device.split(',');
        let mut options = Self {
            backend,
            device,
            expected,
            name: parts.next().unwrap_or_default(),
            pairs: Vec::new(),
        };
        for part in parts {
            let pair = part.split_once('=');
            options.pairs.push(pair.ok_or_else(|| options.bad(part))?);
        }
        Ok(options)
    }

    fn bad(&self, part: &str) -> OpenError {
        let Self {
            backend, device, ..
        } = self;
        OpenError::new(format!("{backend} device '{device}': cannot read '{part}'"))
            .hint(format!("expected {}", self.expected))
    }

    /// Takes the option `key` out; `read` makes its value of it, or none.
    pub(crate) fn take<T>(
        &mut self,
        key: &str,
        default: T,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, OpenError> {
        let Some(at) = self.pairs.iter().position(|(name, _)| *name == key) else {
            return Ok(default);
        };
        let (_, value) = self.pairs.remove(at);
        read(value).ok_or_else(|| self.bad(&format!("{key}={value}")))
    }

    /// Takes out a number.
    pub(crate) fn number<T: FromStr>(&mut self, key: &str, default: T) -> Result<T, OpenError> {
        self.take(key, default, |value| value.parse().ok())
    }

    /// Takes out a switch, 0 or 1.
    pub(crate) fn switch(&mut self, key: &str, default: bool) -> Result<bool, OpenError> {
        self.take(key, default, |value| match value {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })
    }

    /// Refuses what nobody has taken out.
    pub(crate) fn finish(self) -> Result<(), OpenError> {
        match self.pairs.first() {
            Some((key, value)) => Err(self.bad(&format!("{key}={value}"))),
            None => Ok(()),
        }
    }
}
