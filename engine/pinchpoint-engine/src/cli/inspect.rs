//! `inspect`: says what arrives, until somebody says stop.

use super::numbers::{duration, grouped};
use super::relay_account::{DirectionTold, direction_table, direction_told};
use super::standing_account::port_table;
use super::standing_args::StandingArgs;
use super::table::{Paint, Table};
use super::{Failure, print, print_json, standing};
use crate::protocol::connections::{PortTold, Ran};
use crate::report::standing::idle_word;
use clap::Args;
use pinchpoint_devices::inspector::{Account, Inspector, LONG_NS, MOST_FLOWS, SHORT_NS, Seen};
use pinchpoint_port::Port;
use pinchpoint_worker::WorkerPort;
use serde::Serialize;
use std::fs::File;
use std::io::IsTerminal;

/// How long a frame that the other port does not accept is retried: a generator
/// that receives nothing shall not be held back.
const REPLY_TIMEOUT_NS: u64 = 0;
const SECOND_NS: f64 = 1e9;

/// What stands behind the options of `inspect --help`.
const EXAMPLES: &str = "\
What another generator sends into one end of a link, seen at the other:
    pinchpoint-engine inspect af_packet:veth1@ns2

In a device's place between the two vhost-user ports of a DPDK generator:
    pinchpoint-engine inspect dpdk:net_vhost0,iface=/run/a.sock,client=1 \\
        dpdk:net_vhost1,iface=/run/b.sock,client=1 --forward

Prints 'ready' once all links are up. SIGTERM and Ctrl-C end it: it prints its
account and exits with 0. SIGUSR1 prints the account so far, and it continues.
Exit status otherwise: 2 bad command line, 3 a port could not be opened.";

/// `inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InspectArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub standing: StandingArgs,
    /// Join the ports in pairs, too: what arrives at one leaves through the other
    #[arg(long)]
    pub forward: bool,
    /// Look into every N-th frame only; all are counted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
}

/// The account on the wire; `type` is `inspect`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "inspect")]
struct Told {
    #[serde(flatten)]
    ran: Ran,
    ports: Vec<PortTold>,
    seen: Vec<SeenTold>,
    directions: Vec<DirectionTold>,
}

#[derive(Debug, Serialize)]
struct SeenTold {
    port: String,
    frames: u64,
    bytes: u64,
    shortest: usize,
    longest: usize,
    /// Since the start; null before the first frame.
    first_s: Option<f64>,
    last_s: Option<f64>,
    longest_silence_s: f64,
    /// Of the periods by which bursts are judged.
    short_period_s: f64,
    most_in_short_period: u64,
    /// Variance over mean of the frames in a short period; null if unknown.
    dispersion: Option<f64>,
    long_period_s: f64,
    /// Frames in each long period from the first frame on.
    by_long_period: Vec<u64>,
    checked: u64,
    wrong_checksums: u64,
    not_ip: u64,
    flows: usize,
    /// Whether there may be more flows than were counted.
    flows_at_least: bool,
    answered_flows: usize,
}

/// Runs `inspect`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run(args: &InspectArgs, out: &mut File) -> Result<u8, Failure> {
    let (forward, every) = (args.forward, args.every);
    if forward && !args.standing.ports.len().is_multiple_of(2) {
        return Err(Failure::usage(format!(
            "{} ports: expected an even number with --forward, which joins ports in pairs",
            args.standing.ports.len()
        )));
    }
    let make = move |ports: &[WorkerPort], now_ns: u64| {
        let longest = ports.iter().map(|own| own.port.max_len());
        Inspector::new(longest.collect(), every, forward, now_ns)
    };
    let report = |account: &Account, core: usize, out: &mut File| {
        let told = Told::new(account, core, idle_word(args.standing.idle));
        if args.standing.json {
            print_json(out, &told);
        } else {
            print(out, &told.tables(Paint::of(out.is_terminal())));
        }
    };
    standing::run(&args.standing, REPLY_TIMEOUT_NS, out, make, report)
}

impl SeenTold {
    fn new(port: &str, seen: &Seen) -> Self {
        let at_s = |ns: u64| (seen.frames > 0).then_some(ns as f64 / SECOND_NS);
        Self {
            port: port.to_owned(),
            frames: seen.frames,
            bytes: seen.bytes,
            shortest: seen.shortest,
            longest: seen.longest,
            first_s: at_s(seen.first_ns),
            last_s: at_s(seen.last_ns),
            longest_silence_s: seen.silence_ns as f64 / SECOND_NS,
            short_period_s: SHORT_NS as f64 / SECOND_NS,
            most_in_short_period: seen.short.most,
            dispersion: seen.short.dispersion(),
            long_period_s: LONG_NS as f64 / SECOND_NS,
            by_long_period: seen.long.clone(),
            checked: seen.checked,
            wrong_checksums: seen.wrong,
            not_ip: seen.not_ip,
            flows: seen.flows,
            flows_at_least: seen.flows == MOST_FLOWS,
            answered_flows: seen.answered,
        }
    }
}

impl Told {
    fn new(account: &Account, core: usize, idle: String) -> Self {
        let seen = account.ports.iter().zip(&account.seen);
        let ways = account.directions.iter();
        Self {
            ran: Ran::new(&account.ran, core, idle),
            ports: account.ports.iter().map(PortTold::new).collect(),
            seen: seen
                .map(|(port, seen)| SeenTold::new(&port.name, seen))
                .collect(),
            directions: ways
                .map(|way| direction_told(way, &account.ports))
                .collect(),
        }
    }

    fn tables(&self, paint: Paint) -> String {
        let mut table = Table::new(&[
            "port",
            "frames",
            "frames/s",
            "bytes",
            "most in 1 ms",
            "dispersion",
            "longest silence",
            "flows",
            "answered",
            "wrong checksums",
            "not IP",
        ]);
        for seen in &self.seen {
            let lasted_s = seen.last_s.unwrap_or(0.0) - seen.first_s.unwrap_or(0.0);
            let rate = (lasted_s > 0.0).then(|| grouped((seen.frames as f64 / lasted_s) as u64));
            let least = if seen.flows_at_least { ">= " } else { "" };
            table.row([
                seen.port.clone(),
                grouped(seen.frames),
                rate.unwrap_or_else(|| "-".to_owned()),
                format!("{}..{}", seen.shortest, seen.longest),
                grouped(seen.most_in_short_period),
                seen.dispersion
                    .map_or_else(|| "-".to_owned(), |one| format!("{one:.1}")),
                duration(seen.longest_silence_s * SECOND_NS),
                format!("{least}{}", grouped(seen.flows as u64)),
                grouped(seen.answered_flows as u64),
                format!(
                    "{} of {}",
                    grouped(seen.wrong_checksums),
                    grouped(seen.checked)
                ),
                grouped(seen.not_ip),
            ]);
        }
        let ports = port_table(&self.ports, paint);
        let ways = match &self.directions[..] {
            [] => String::new(),
            some => format!("{}\n", direction_table(some, paint)),
        };
        format!(
            "{}\n{ways}{ports}\n{}\n",
            table.render(paint),
            self.ran.line()
        )
    }
}
