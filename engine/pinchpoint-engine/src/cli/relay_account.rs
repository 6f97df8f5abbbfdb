//! A relay's account, as JSON and as tables.

use super::numbers::grouped;
use super::standing_account::port_table;
use super::table::{Paint, Table};
use crate::protocol::connections::{PortTold, Ran};
use pinchpoint_devices::relay::{Account, Direction};
use pinchpoint_worker::watched::PortAccount;
use serde::Serialize;

/// The account on the wire; `type` is `relay`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "relay")]
pub(super) struct Told {
    #[serde(flatten)]
    ran: Ran,
    ports: Vec<PortTold>,
    directions: Vec<DirectionTold>,
}

/// One direction of a pair of ports.
#[derive(Debug, Serialize)]
pub(super) struct DirectionTold {
    from: String,
    to: String,
    received: u64,
    received_bytes: u64,
    sent: u64,
    dropped: u64,
    too_long: u64,
    waiting: u64,
    held_bursts: u64,
    largest_burst: u64,
}

impl Told {
    pub(super) fn new(account: &Account, core: usize, idle: String) -> Self {
        let directions = account.directions.iter();
        Self {
            ran: Ran::new(&account.ran, core, idle),
            ports: account.ports.iter().map(PortTold::new).collect(),
            directions: directions
                .map(|direction| direction_told(direction, &account.ports))
                .collect(),
        }
    }

    /// As tables.
    pub(super) fn tables(&self, paint: Paint) -> String {
        format!(
            "{}\n{}\n{}\n",
            direction_table(&self.directions, paint),
            port_table(&self.ports, paint),
            self.ran.line()
        )
    }
}

/// The directions as a table.
pub(super) fn direction_table(directions: &[DirectionTold], paint: Paint) -> String {
    let mut ways = Table::new(&[
        "direction",
        "received",
        "sent",
        "dropped",
        "too long",
        "waiting",
        "held bursts",
        "largest burst",
    ]);
    for way in directions {
        let counts = [
            way.received,
            way.sent,
            way.dropped,
            way.too_long,
            way.waiting,
            way.held_bursts,
            way.largest_burst,
        ];
        let name = format!("{} > {}", way.from, way.to);
        ways.row([name].into_iter().chain(counts.map(grouped)));
    }
    ways.render(paint)
}

pub(super) fn direction_told(direction: &Direction, ports: &[PortAccount]) -> DirectionTold {
    let name = |index: usize| ports[index].name.clone();
    DirectionTold {
        from: name(direction.from),
        to: name(direction.to),
        received: direction.received,
        received_bytes: direction.received_bytes,
        sent: direction.sent,
        dropped: direction.dropped,
        too_long: direction.too_long,
        waiting: direction.waiting,
        held_bursts: direction.held,
        largest_burst: direction.largest_burst,
    }
}
