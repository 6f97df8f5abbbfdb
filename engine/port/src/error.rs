use std::fmt;

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenErrorKind {
    /// The port itself cannot be had.
    Port,
    /// The other end of its link did not appear in time.
    Link,
    /// DPDK did not get the hugepages that it was to take.
    Memory,
}

/// A port that could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError {
    /// What kind of thing went wrong.
    pub kind: OpenErrorKind,
    /// What failed, and why.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl OpenError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            kind: OpenErrorKind::Port,
            message: message.into(),
            hint: None,
        }
    }

    /// An error of kind [`OpenErrorKind::Link`], without a hint.
    pub fn link(message: impl Into<String>) -> Self {
        Self {
            kind: OpenErrorKind::Link,
            ..Self::new(message)
        }
    }

    /// An error of kind [`OpenErrorKind::Memory`], without a hint.
    pub fn memory(message: impl Into<String>) -> Self {
        Self {
            kind: OpenErrorKind::Memory,
            ..Self::new(message)
        }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with the name of the port in front.
    #[must_use]
    pub(crate) fn at(mut self, port: &str) -> Self {
        self.message = format!("{port}: {}", self.message);
        self
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OpenError {}
