//! `reflect`: sends frames back until somebody says stop.

use super::numbers::grouped;
use super::standing_account::port_table;
use super::standing_args::StandingArgs;
use super::table::{Paint, Table};
use super::{Failure, print, print_json, standing};
use crate::protocol::connections::{PortTold, Ran};
use crate::report::standing::idle_word;
use clap::{Args, ValueEnum};
use pinchpoint_devices::reflector::{Account, Reflector, Swap};
use pinchpoint_port::Port;
use pinchpoint_worker::WorkerPort;
use serde::Serialize;
use std::fs::File;
use std::io::IsTerminal;

/// What stands behind the options of `reflect --help`.
const EXAMPLES: &str = "\
A neighbour that sends every frame back to the switch:
    pinchpoint-engine reflect af_packet:veth1@ns2 --swap ip --json

Prints 'ready' once all links are up. SIGTERM and Ctrl-C end it: it prints its
account and exits with 0. SIGUSR1 prints the account so far.
Exit status otherwise: 2 bad command line, 3 a port could not be opened.";

/// `reflect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReflectArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub standing: StandingArgs,
    /// Up to which header source and destination are swapped
    #[arg(long, value_enum, default_value_t = SwapArg::Mac)]
    pub swap: SwapArg,
}

/// Up to which header source and destination are swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SwapArg {
    /// Ethernet addresses
    Mac,
    /// Ethernet and IP addresses
    Ip,
    /// Addresses, and the ports of TCP, UDP and SCTP
    Ports,
}

/// The account on the wire; `type` is `reflect`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "reflect")]
struct Told {
    #[serde(flatten)]
    ran: Ran,
    ports: Vec<PortTold>,
    reflected: Vec<ReflectedTold>,
}

#[derive(Debug, Serialize)]
struct ReflectedTold {
    port: String,
    received: u64,
    sent: u64,
    dropped: u64,
    unfit: u64,
}

/// Runs `reflect`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run(args: &ReflectArgs, out: &mut File) -> Result<u8, Failure> {
    let swap = match args.swap {
        SwapArg::Mac => Swap::Mac,
        SwapArg::Ip => Swap::Ip,
        SwapArg::Ports => Swap::Ports,
    };
    let make = move |ports: &[WorkerPort], now_ns: u64| {
        let longest = ports.iter().map(|own| own.port.max_len());
        Reflector::new(swap, longest.collect(), now_ns)
    };
    let report = |account: &Account, core: usize, out: &mut File| {
        let told = Told::new(account, core, idle_word(args.standing.idle));
        if args.standing.json {
            print_json(out, &told);
        } else {
            print(out, &told.tables(Paint::of(out.is_terminal())));
        }
    };
    standing::run(&args.standing, 0, out, make, report)
}

impl Told {
    fn new(account: &Account, core: usize, idle: String) -> Self {
        let reflected = account.ports.iter().zip(&account.reflected);
        Self {
            ran: Ran::new(&account.ran, core, idle),
            ports: account.ports.iter().map(PortTold::new).collect(),
            reflected: reflected
                .map(|(port, counts)| ReflectedTold {
                    port: port.name.clone(),
                    received: counts.received,
                    sent: counts.sent,
                    dropped: counts.dropped,
                    unfit: counts.unfit,
                })
                .collect(),
        }
    }

    fn tables(&self, paint: Paint) -> String {
        let mut table = Table::new(&["port", "received", "sent back", "dropped", "unfit"]);
        for port in &self.reflected {
            let counts = [port.received, port.sent, port.dropped, port.unfit];
            table.row([port.port.clone()].into_iter().chain(counts.map(grouped)));
        }
        let ports = port_table(&self.ports, paint);
        format!("{}\n{ports}\n{}\n", table.render(paint), self.ran.line())
    }
}
