use std::fmt;

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A key of the workload has a value that cannot be met.
    Invalid,
    /// A namespace, a core or an address is not to be had.
    Setup,
    /// The server was not reached by the first connection.
    Unreachable,
    /// One of the workload's own threads failed.
    Internal,
}

/// A workload that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of thing went wrong.
    pub kind: FailureKind,
    /// What failed, and why; begins with the key when one is at fault.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn invalid(key: &str, what: impl fmt::Display) -> Self {
        Self::new(FailureKind::Invalid, format!("{key}: {what}"))
    }

    pub(crate) fn setup(what: &str, error: impl fmt::Display) -> Self {
        Self::new(FailureKind::Setup, format!("{what}: {error}"))
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
