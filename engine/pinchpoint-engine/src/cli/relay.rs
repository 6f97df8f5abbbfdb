//! `relay`: ports joined in pairs until somebody says stop.

use super::relay_account::Told;
use super::relay_args::RelayArgs;
use super::table::Paint;
use super::{Failure, print, print_json, standing};
use crate::report::standing::idle_word;
use pinchpoint_devices::relay::{Account, Relay};
use pinchpoint_port::Port;
use pinchpoint_worker::WorkerPort;
use std::fs::File;
use std::io::IsTerminal;

/// Runs `relay`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run(args: &RelayArgs, out: &mut File) -> Result<u8, Failure> {
    let standing = &args.standing;
    if !standing.ports.len().is_multiple_of(2) {
        return Err(Failure::usage(format!(
            "{} ports: expected an even number, since a relay joins ports in pairs",
            standing.ports.len()
        )));
    }
    let make = |ports: &[WorkerPort], now_ns: u64| {
        let longest = ports.iter().map(|own| own.port.max_len());
        Relay::new(longest.collect(), now_ns)
    };
    let report = |account: &Account, core: usize, out: &mut File| {
        let told = Told::new(account, core, idle_word(standing.idle));
        if standing.json {
            print_json(out, &told);
        } else {
            print(out, &told.tables(Paint::of(out.is_terminal())));
        }
    };
    let reply_timeout_ns = (args.patience * 1e9) as u64;
    standing::run(standing, reply_timeout_ns, out, make, report)
}
