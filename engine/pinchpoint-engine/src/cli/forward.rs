//! `forward`: a device of known truth, until somebody says stop.

use super::forward_args::{ForwardArgs, Place};
use super::numbers::grouped;
use super::standing_account::port_table;
use super::table::{Paint, Table};
use super::{Failure, print, print_json, standing};
use crate::protocol::connections::{PortTold, Ran};
use crate::report::standing::idle_word;
use pinchpoint_devices::reference::{Account, Counts, Drops, Reference};
use pinchpoint_port::Port;
use pinchpoint_worker::WorkerPort;
use serde::Serialize;
use std::fs::File;
use std::io::IsTerminal;

/// The account on the wire; `type` is `forward`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "forward")]
struct Told {
    #[serde(flatten)]
    ran: Ran,
    /// What the device says.
    offloaded: bool,
    ports: Vec<PortTold>,
    /// As the device says.
    directions: Vec<DirectionTold>,
    /// As it is.
    truth: Vec<DirectionTold>,
}

/// `received` is `sent`, `waiting` and all of `drops`.
#[derive(Debug, Serialize)]
struct DirectionTold {
    from: String,
    to: String,
    received: u64,
    received_bytes: u64,
    sent: u64,
    waiting: u64,
    drops: DropsTold,
    new_flows: u64,
    software_frames: u64,
}

#[derive(Debug, Serialize)]
struct DropsTold {
    rx: u64,
    too_long: u64,
    ring: u64,
    table: u64,
    rules: Vec<u64>,
    tx: u64,
    full: u64,
}

/// Runs `forward`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run(args: &ForwardArgs, out: &mut File) -> Result<u8, Failure> {
    let standing = &args.standing;
    if standing.ports.len() != 2 {
        return Err(Failure::usage(format!(
            "{} ports: expected two, since frames are forwarded from one to the other",
            standing.ports.len()
        )));
    }
    let truth = args.truth();
    let make = move |ports: &[WorkerPort], now_ns: u64| {
        let rings = [0, 1].map(|port: usize| ports[port].port.rings().0);
        let longest = [0, 1].map(|port: usize| ports[port].port.max_len());
        Reference::new(&truth, rings, longest, now_ns)
    };
    let report = |account: &Account, core: usize, out: &mut File| {
        let told = Told::new(account, args, core);
        if standing.json {
            print_json(out, &told);
        } else {
            print(out, &told.tables(Paint::of(out.is_terminal())));
        }
    };
    standing::run(standing, 0, out, make, report)
}

impl Told {
    fn new(account: &Account, args: &ForwardArgs, core: usize) -> Self {
        let directions = |hidden: &[Place]| {
            let told = |from: usize| direction(account, from, hidden);
            vec![told(0), told(1)]
        };
        Self {
            ran: Ran::new(&account.ran, core, idle_word(args.standing.idle)),
            offloaded: args.offloaded,
            ports: account.ports.iter().map(PortTold::new).collect(),
            directions: directions(&args.hide),
            truth: directions(&[]),
        }
    }

    fn tables(&self, paint: Paint) -> String {
        let mut table = Table::new(&[
            "direction",
            "received",
            "sent",
            "waiting",
            "rx",
            "ring",
            "table",
            "rules",
            "tx",
            "full",
            "new flows",
        ]);
        for way in &self.truth {
            let drops = &way.drops;
            let counts = [
                way.received,
                way.sent,
                way.waiting,
                drops.rx + drops.too_long,
                drops.ring,
                drops.table,
                drops.rules.iter().sum(),
                drops.tx,
                drops.full,
                way.new_flows,
            ];
            let name = format!("{} > {}", way.from, way.to);
            table.row([name].into_iter().chain(counts.map(grouped)));
        }
        let ports = port_table(&self.ports, paint);
        format!("{}\n{ports}\n{}\n", table.render(paint), self.ran.line())
    }
}

fn direction(account: &Account, from: usize, hidden: &[Place]) -> DirectionTold {
    let name = |port: usize| account.ports[port].name.clone();
    let Counts {
        received,
        received_bytes,
        sent,
        waiting,
        drops,
        new_flows,
        software_frames,
    } = account.directions[from].clone();
    DirectionTold {
        from: name(from),
        to: name(1 - from),
        received,
        received_bytes,
        sent,
        waiting,
        drops: drops_told(&drops, hidden),
        new_flows,
        software_frames,
    }
}

fn drops_told(drops: &Drops, hidden: &[Place]) -> DropsTold {
    let shown = |place: Place, count: u64| if hidden.contains(&place) { 0 } else { count };
    let rules = drops.rules.iter();
    DropsTold {
        rx: shown(Place::Rx, drops.rx),
        too_long: shown(Place::Rx, drops.too_long),
        ring: shown(Place::Ring, drops.ring),
        table: shown(Place::Table, drops.table),
        rules: rules.map(|&count| shown(Place::Rules, count)).collect(),
        tx: shown(Place::Tx, drops.tx),
        full: shown(Place::Tx, drops.full),
    }
}
