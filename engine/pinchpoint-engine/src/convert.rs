//! From requests to what the workers run, with every check of their values.

mod connections;
mod elsewhere;
mod known;
mod replay;
mod session;
mod slices;
mod stream;
mod template;
mod trial;

pub use connections::{Load, Servers, connections};
pub use known::{Known, KnownPort};
pub use session::{session, shared_session};
pub use slices::hold;
pub use trial::plan;

use crate::protocol::{ErrorCode, ErrorReply};

/// Longest name of a port or a trial, in bytes.
const MAX_NAME: usize = 256;

fn check(good: bool, key: impl AsRef<str>, what: impl AsRef<str>) -> Result<(), ErrorReply> {
    if good {
        return Ok(());
    }
    Err(invalid(key, what))
}

fn invalid(key: impl AsRef<str>, what: impl AsRef<str>) -> ErrorReply {
    ErrorReply {
        code: ErrorCode::Invalid,
        message: format!("{}: {}", key.as_ref(), what.as_ref()),
        hint: None,
    }
}

fn check_core(core: usize, key: &str, allowed: &[usize]) -> Result<(), ErrorReply> {
    check(
        allowed.contains(&core),
        key,
        format!("core {core} is not one of this process's cores {allowed:?}"),
    )
}
