//! `balance-xdp`: a balancer in XDP, attached until somebody says stop.

use super::standing::missing;
use super::{Failure, print, print_json, ranges};
use crate::usage;
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use pinchpoint_port::{Virtual, XdpBalancer};
use pinchpoint_wire::ethernet::Mac;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::net::SocketAddrV4;

/// What stands behind the options of `balance-xdp --help`.
const EXAMPLES: &str = "\
Two backends behind the interface b, clients behind a; the kernel answers who asks for
10.0.0.100 where that is an address of a:
    pinchpoint-engine balance-xdp --from a --to b --service 10.0.0.100:80 \\
        --own 02:00:00:00:0a:01 --backend 02:00:00:00:0b:00 --backend 02:00:00:00:0b:01

A table of Maglev's hash, without state: segments of TCP over IPv4 get another Ethernet
address and leave by --to; backends answer the client themselves (direct return).
Prints 'ready' once it is attached. SIGTERM and Ctrl-C end it: it prints its account
and exits with 0. SIGUSR1 prints the account so far.
Exit status otherwise: 2 bad command line, 3 it could not be attached.";

/// `balance-xdp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BalanceXdpArgs {
    /// The interface to which clients' frames come
    #[arg(long, value_name = "INTERFACE")]
    pub from: String,
    /// The interface by which they leave
    #[arg(long, value_name = "INTERFACE")]
    pub to: String,
    /// The network namespace of both [default: this one]
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// The virtual server
    #[arg(long, value_name = "IP:PORT")]
    pub service: SocketAddrV4,
    /// The Ethernet address from which frames leave
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub own: Mac,
    /// Ethernet address of a backend; several are numbered from 0 on, in this order
    #[arg(long, value_name = "MAC", required = true, value_parser = mac)]
    pub backend: Vec<Mac>,
}

/// What it did so far.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "balance-xdp")]
struct Told {
    /// Segments that were sent to a backend.
    balanced: u64,
}

/// Runs `balance-xdp`; returns the exit status.
///
/// # Errors
/// Why it could not be attached.
pub(super) fn run(args: &BalanceXdpArgs, out: &mut File) -> Result<u8, Failure> {
    let mut awaited = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
        awaited.add(signal);
    }
    awaited.thread_block().map_err(io::Error::from)?;
    let wanted = Virtual {
        service: args.service,
        own: args.own,
        backends: args.backend.clone(),
    };
    let netns = args.netns.as_deref();
    let balancer = XdpBalancer::attach(&args.from, &args.to, netns, &wanted).map_err(missing)?;
    print(out, "ready\n");
    loop {
        let signal = awaited.wait().map_err(io::Error::from)?;
        let told = Told {
            balanced: balancer.balanced(),
        };
        print_json(out, &told);
        if signal != Signal::SIGUSR1 {
            return Ok(usage::EXIT_DONE);
        }
    }
}

fn mac(text: &str) -> Result<Mac, String> {
    ranges::mac(text).map(|mac| mac.0)
}
