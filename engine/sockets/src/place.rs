//! Where a thread runs.

use crate::failure::Failure;
use crate::spec::Place;
use pinchpoint_port::{netns, sched};
use std::io::ErrorKind;

/// Moves the calling thread to its namespace and its core, or cores; `side` is
/// the key that errors name.
///
/// # Errors
/// Kind `Setup`: no such namespace, no such core, or no right to enter.
pub(crate) fn enter(place: &Place, side: &str) -> Result<(), Failure> {
    if let Some(name) = &place.netns {
        enter_netns(name, side)?;
    }
    if place.cpus.is_empty() {
        return sched::pin(place.core)
            .map_err(|error| Failure::setup(&format!("{side}.core {}", place.core), error));
    }
    sched::keep_to(&place.cpus).map_err(|error| Failure::setup(&format!("{side}.cpus"), error))
}

fn enter_netns(name: &str, side: &str) -> Result<(), Failure> {
    let what = format!("{side}.netns '{name}'");
    netns::enter(name).map_err(|error| match error.kind() {
        ErrorKind::InvalidFilename => Failure::invalid(&what, error),
        _ => Failure::setup(&what, &error).hint(netns::hint(&error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    #[test]
    fn a_namespace_or_core_that_does_not_exist_is_named() {
        let place = |netns: Option<&str>, core| Place {
            netns: netns.map(str::to_owned),
            core,
            cpus: Vec::new(),
        };
        let message = |place| enter(&place, "client").unwrap_err().message;
        let missing = message(place(Some("no-such-namespace"), 0));
        assert!(
            missing.starts_with("client.netns 'no-such-namespace': "),
            "{missing}"
        );
        let wrong = enter(&place(Some("../x"), 0), "client").unwrap_err();
        assert!(wrong.message.starts_with("client.netns '../x': "));
        assert_eq!(wrong.kind, FailureKind::Invalid);
        assert!(message(place(None, 1023)).starts_with("client.core 1023: "));
        let among = Place {
            cpus: vec![1023],
            ..place(None, 0)
        };
        assert!(message(among).starts_with("client.cpus: "));
    }
}
