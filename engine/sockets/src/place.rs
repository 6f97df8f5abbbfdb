//! Where a thread runs.

use crate::failure::Failure;
use crate::spec::Place;
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::Path;

/// Moves the calling thread to its namespace and core; `side` is the key that
/// errors name.
///
/// # Errors
/// Kind `Setup`: no such namespace, no such core, or no right to enter.
pub(crate) fn enter(place: &Place, side: &str) -> Result<(), Failure> {
    if let Some(name) = &place.netns {
        enter_netns(name, side)?;
    }
    let mut set = CpuSet::new();
    set.set(place.core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| Failure::setup(&format!("{side}.core {}", place.core), error))
}

fn enter_netns(name: &str, side: &str) -> Result<(), Failure> {
    let key = format!("{side}.netns");
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(Failure::invalid(
            &key,
            format!("'{name}' is no name of a namespace"),
        ));
    }
    let what = format!("{key} '{name}'");
    let file = File::open(Path::new("/run/netns").join(name))
        .map_err(|error| Failure::setup(&what, error).hint("`ip netns list` shows what exists"))?;
    setns(file, CloneFlags::CLONE_NEWNET)
        .map_err(|error| Failure::setup(&what, error).hint("run as root"))
}

/// The NUMA node of a core; none if the kernel does not tell.
pub(crate) fn numa_node(core: usize) -> Option<usize> {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        entry
            .file_name()
            .to_str()?
            .strip_prefix("node")?
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_or_core_that_does_not_exist_is_named() {
        let place = |netns: Option<&str>, core| Place {
            netns: netns.map(str::to_owned),
            core,
        };
        let message = |place| enter(&place, "client").unwrap_err().message;
        let missing = message(place(Some("no-such-namespace"), 0));
        assert!(
            missing.starts_with("client.netns 'no-such-namespace': "),
            "{missing}"
        );
        assert!(message(place(Some("../x"), 0)).starts_with("client.netns: "));
        assert!(message(place(None, 1023)).starts_with("client.core 1023: "));
    }
}
