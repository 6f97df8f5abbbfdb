//! Network namespaces with a name (ip-netns(8)).

use crate::OpenError;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Moves the calling thread into the network namespace that `ip netns add`
/// made under the name `name`. Sockets made from then on belong to it, those
/// made before stay where they are.
///
/// # Errors
/// Of kind [`ErrorKind::InvalidFilename`] for what cannot be a name; else the
/// system's (setns(2)), of which [`hint`] knows what mends them.
pub fn enter(name: &str) -> io::Result<()> {
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
        let what = "not a name of a network namespace";
        return Err(io::Error::new(ErrorKind::InvalidFilename, what));
    }
    let file = File::open(Path::new("/run/netns").join(name))?;
    setns(file, CloneFlags::CLONE_NEWNET)?;
    Ok(())
}

/// What the user can do about an error of [`enter`].
pub fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => "run as root",
        _ => "list the existing ones: ip netns list",
    }
}

/// Runs `work` in a thread of its own inside the namespace `netns`, or here if
/// there is none.
///
/// # Errors
/// What `work` returns, or why the namespace cannot be entered.
pub(crate) fn within<T: Send>(
    netns: Option<&str>,
    work: impl FnOnce() -> Result<T, OpenError> + Send,
) -> Result<T, OpenError> {
    let Some(netns) = netns else {
        return work();
    };
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            enter(netns).map_err(|error| {
                let message = format!("network namespace '{netns}': {error}");
                OpenError::new(message).hint(hint(&error))
            })?;
            work()
        });
        let died =
            || OpenError::new("the thread that opens the port failed; its message is on stderr");
        there.join().map_err(|_| died())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_name_is_told_from_what_does_not_exist() {
        for name in ["", ".", "../net", "a/b", "a\0b"] {
            let error = enter(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidFilename, "{name:?}");
        }
        let error = enter("no-such-namespace").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(hint(&error).contains("ip netns list"));
    }

    #[test]
    fn without_a_namespace_work_stays_in_its_thread() {
        let here = std::thread::current().id();
        let there = within(None, || Ok(std::thread::current().id()));
        assert_eq!(there, Ok(here));
    }
}
