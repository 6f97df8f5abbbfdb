//! `balance`: a balancer of known truth, until somebody says stop.

use super::balance_args::BalanceArgs;
use super::numbers::grouped;
use super::standing_account::port_table;
use super::table::{Paint, Table};
use super::{Failure, print, print_json, standing};
use crate::protocol::connections::{PortTold, Ran};
use crate::report::standing::idle_word;
use pinchpoint_devices::balancer::counts::{Counts, Drops, Tracked};
use pinchpoint_devices::balancer::settings::Settings;
use pinchpoint_devices::balancer::{Account, Attached, Balancer};
use pinchpoint_port::Port;
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_worker::WorkerPort;
use serde::Serialize;
use std::fs::File;
use std::io::IsTerminal;

const SECOND_NS: f64 = 1e9;

/// The account on the wire; `type` is `balance`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "balance")]
struct Told {
    #[serde(flatten)]
    ran: Ran,
    ports: Vec<PortTold>,
    directions: Vec<DirectionTold>,
    connections: ConnectionsTold,
    table: PlacesTold,
    /// Null without full-NAT.
    local_ends: Option<PlacesTold>,
    /// Connections opened, by the backend's number.
    dealt: Vec<u64>,
    /// Backends' addresses that nobody has told yet.
    unknown_hops: u64,
    opening_timeout_s: f64,
    established_timeout_s: f64,
    closed_timeout_s: f64,
}

/// `received` is `sent`, `consumed`, `waiting` and all of `drops`.
#[derive(Debug, Serialize)]
struct DirectionTold {
    from: String,
    to: String,
    received: u64,
    sent: u64,
    consumed: u64,
    waiting: u64,
    drops: DropsTold,
}

#[derive(Debug, Serialize)]
struct DropsTold {
    ring: u64,
    malformed: u64,
    checksum: u64,
    fragments: u64,
    hop_limit: u64,
    other: u64,
    too_long: u64,
    no_connection: u64,
    table_full: u64,
    no_local_port: u64,
    planted: u64,
    no_next_hop: u64,
    full: u64,
}

/// `created` is all others but the last two.
#[derive(Debug, Serialize)]
struct ConnectionsTold {
    created: u64,
    opening: u64,
    established: u64,
    closed: u64,
    expired_opening: u64,
    expired_established: u64,
    expired_closed: u64,
    replaced: u64,
    flushed: u64,
    toa_omitted: u64,
    broken: u64,
}

#[derive(Debug, Serialize)]
struct PlacesTold {
    size: u64,
    used: u64,
}

/// Runs `balance`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run(args: &BalanceArgs, out: &mut File) -> Result<u8, Failure> {
    let standing = &args.standing;
    if standing.ports.len() != 2 {
        return Err(Failure::usage(format!(
            "{} ports: expected two, one among the clients and one among the backends",
            standing.ports.len()
        )));
    }
    let settings = args.settings()?;
    let told = settings.clone();
    let make = move |ports: &[WorkerPort], now_ns: u64| {
        let attached = [0, 1].map(|number: usize| {
            let port = &ports[number].port;
            // A port without an address of its own has this (locally administered).
            let made = Mac([0x02, 0, 0, 0, 1, number as u8]);
            Attached {
                mac: port.mac().unwrap_or(made),
                ring: port.rings().0,
                longest: port.max_len(),
            }
        });
        Balancer::new(&settings, attached, now_ns)
    };
    let report = |account: &Account, core: usize, out: &mut File| {
        let told = Told::new(account, &told, core, idle_word(standing.idle));
        if standing.json {
            print_json(out, &told);
        } else {
            print(out, &told.tables(Paint::of(out.is_terminal())));
        }
    };
    standing::run(standing, 0, out, make, report)
}

impl Told {
    fn new(account: &Account, settings: &Settings, core: usize, idle: String) -> Self {
        let seconds = |ns: u64| ns as f64 / SECOND_NS;
        let places = |(used, size)| PlacesTold { size, used };
        Self {
            ran: Ran::new(&account.ran, core, idle),
            ports: account.ports.iter().map(PortTold::new).collect(),
            directions: vec![direction(account, 0), direction(account, 1)],
            connections: connections(&account.tracked),
            table: places((account.tracked.live(), account.places)),
            local_ends: account.local_ends.map(places),
            dealt: account.dealt.clone(),
            unknown_hops: account.unknown_hops,
            opening_timeout_s: seconds(settings.timeouts.opening_ns),
            established_timeout_s: seconds(settings.timeouts.established_ns),
            closed_timeout_s: seconds(settings.timeouts.closed_ns),
        }
    }

    fn tables(&self, paint: Paint) -> String {
        let mut frames = Table::new(&[
            "direction",
            "received",
            "sent",
            "waiting",
            "ring",
            "unfit",
            "no connection",
            "refused",
            "planted",
            "full",
        ]);
        for way in &self.directions {
            let drops = &way.drops;
            let unfit = drops.malformed + drops.checksum + drops.fragments + drops.hop_limit;
            let counts = [
                way.received,
                way.sent,
                way.waiting,
                drops.ring,
                unfit + drops.other + drops.too_long,
                drops.no_connection,
                drops.table_full + drops.no_local_port + drops.no_next_hop,
                drops.planted,
                drops.full,
            ];
            let name = format!("{} > {}", way.from, way.to);
            frames.row([name].into_iter().chain(counts.map(grouped)));
        }
        let ports = port_table(&self.ports, paint);
        format!(
            "{}\n{}\n{ports}\n{}\n",
            frames.render(paint),
            self.connection_table(paint),
            self.ran.line()
        )
    }

    fn connection_table(&self, paint: Paint) -> String {
        let mut table = Table::new(&["connections", "count"]);
        let one = &self.connections;
        let dealt = self.dealt.iter().enumerate();
        let rows = [
            ("created", one.created),
            ("opening", one.opening),
            ("established", one.established),
            ("closed", one.closed),
            (
                "expired",
                one.expired_opening + one.expired_established + one.expired_closed,
            ),
            ("replaced", one.replaced),
            ("flushed", one.flushed),
        ];
        for (name, count) in rows {
            table.row([name.to_owned(), grouped(count)]);
        }
        for (number, &count) in dealt {
            table.row([format!("backend {number}"), grouped(count)]);
        }
        table.render(paint)
    }
}

fn direction(account: &Account, from: usize) -> DirectionTold {
    let name = |port: usize| account.ports[port].name.clone();
    let Counts {
        received,
        sent,
        consumed,
        waiting,
        drops,
    } = account.directions[from];
    DirectionTold {
        from: name(from),
        to: name(1 - from),
        received,
        sent,
        consumed,
        waiting,
        drops: drops_told(&drops),
    }
}

fn drops_told(drops: &Drops) -> DropsTold {
    let &Drops {
        ring,
        malformed,
        checksum,
        fragments,
        hop_limit,
        other,
        too_long,
        no_connection,
        table_full,
        no_local_port,
        planted,
        no_next_hop,
        full,
    } = drops;
    DropsTold {
        ring,
        malformed,
        checksum,
        fragments,
        hop_limit,
        other,
        too_long,
        no_connection,
        table_full,
        no_local_port,
        planted,
        no_next_hop,
        full,
    }
}

fn connections(tracked: &Tracked) -> ConnectionsTold {
    let &Tracked {
        created,
        opening,
        established,
        closed,
        expired_opening,
        expired_established,
        expired_closed,
        replaced,
        flushed,
        toa_omitted,
        broken,
    } = tracked;
    ConnectionsTold {
        created,
        opening,
        established,
        closed,
        expired_opening,
        expired_established,
        expired_closed,
        replaced,
        flushed,
        toa_omitted,
        broken,
    }
}
