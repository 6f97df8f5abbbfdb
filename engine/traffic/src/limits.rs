//! What a frame can be at most, and how a specification is refused that asks for more.

use pinchpoint_wire::FCS_LEN;
use std::fmt;

/// Bytes in the buffer of the shortest frame (64 with its check sequence).
pub const MIN_LEN: usize = 64 - FCS_LEN;
/// Bytes in the buffer of the longest frame (9,022 with its check sequence).
pub const MAX_LEN: usize = 9022 - FCS_LEN;

/// A specification that describes no stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The key at fault, relative to the stream, as in `fields[1].op.count`.
    pub key: String,
    /// What is wrong and what was expected.
    pub what: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)
    }
}

impl std::error::Error for SpecError {}

pub(crate) fn check(
    good: bool,
    key: impl Into<String>,
    what: impl Into<String>,
) -> Result<(), SpecError> {
    if good {
        return Ok(());
    }
    Err(SpecError {
        key: key.into(),
        what: what.into(),
    })
}
