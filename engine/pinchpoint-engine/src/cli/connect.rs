//! `connect` and `serve`: TCP connections over frames.

use super::Failure;
use super::connect_args::{ConnectArgs, ServeArgs};
use super::connect_samples::Printed;
use super::refusal::refused_load;
use super::standing::{self, Cores};
use super::standing_args::{CoreList, StandingArgs};
use crate::convert::Load;
use pinchpoint_worker::WorkerPort;
use pinchpoint_workload::connections::work::Connections;
use std::fs::File;
use std::sync::mpsc::channel;

/// A reply that does not fit is lost, as in a device: nothing waits for it.
const REPLY_TIMEOUT_NS: u64 = 0;

/// Runs `connect`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn connect(args: &ConnectArgs, out: &mut File) -> Result<u8, Failure> {
    let workers = args.cores.as_ref().map_or(1, |cores| cores.0.len());
    let load = Load::new(&args.request(), workers).map_err(|error| refused_load(&error))?;
    let (to, samples) = channel();
    let samples = load.is_sampled().then_some(samples);
    let make = load.makers(&to);
    let printed = Printed::new(&args.standing, make.len(), samples);
    let cores = Cores {
        numbers: cores(args.cores.as_ref(), &args.standing),
        linked: make.len() > 1,
    };
    standing::run_on(&args.standing, &cores, REPLY_TIMEOUT_NS, out, make, printed)
}

/// Runs `serve`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn serve(args: &ServeArgs, out: &mut File) -> Result<u8, Failure> {
    let servers = (args.servers.servers()?)
        .ok_or_else(|| Failure::usage("no backend: add --backend IP:PORT"))?;
    let cores = cores(args.cores.as_ref(), &args.standing);
    let make = (0..cores.len().max(1)).map(|_| {
        let servers = servers.clone();
        move |ports: &[WorkerPort], now_ns: u64| {
            Connections::new(None, Some(servers.at(&ports[0])), ports.len(), now_ns)
        }
    });
    let make: Vec<_> = make.collect();
    let printed = Printed::new(&args.standing, make.len(), None);
    let cores = Cores {
        numbers: cores,
        linked: false,
    };
    standing::run_on(&args.standing, &cores, REPLY_TIMEOUT_NS, out, make, printed)
}

/// The cores that the command line names.
fn cores<'a>(several: Option<&'a CoreList>, args: &'a StandingArgs) -> &'a [usize] {
    let single = || args.core.as_slice();
    several.map_or_else(single, |cores| cores.0.as_slice())
}
