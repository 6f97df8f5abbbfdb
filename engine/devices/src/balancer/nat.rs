//! What a balancer makes of a frame.

use super::counts::{Drops, Tracked};
use super::index::NONE;
use super::packet::{ACK, FIN, Packet, RST, Rewrite, SYN, Unfit};
use super::pool::{Deal, Pool};
use super::settings::{Settings, Spot};
use super::table::{Connection, Stage, Table};
use pinchpoint_traffic::hash::Hash;
use pinchpoint_wire::ethernet::Mac;

/// Where a frame comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The port of the clients.
    Clients,
    /// The port of the backends.
    Servers,
}

/// Why a frame goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// See [`Drops`], as the others.
    Malformed,
    /// A wrong checksum of the IP header.
    Checksum,
    /// A fragment.
    Fragment,
    /// Time to live over.
    HopLimit,
    /// Nothing of the service.
    Other,
    /// Longer than the other port carries.
    TooLong,
    /// Of no connection that is remembered.
    NoConnection,
    /// No place for another connection.
    TableFull,
    /// No local end for another connection.
    NoLocalPort,
    /// Dropped on purpose.
    Planted,
}

impl Drops {
    /// One more.
    pub fn add(&mut self, why: Why) {
        *match why {
            Why::Malformed => &mut self.malformed,
            Why::Checksum => &mut self.checksum,
            Why::Fragment => &mut self.fragments,
            Why::HopLimit => &mut self.hop_limit,
            Why::Other => &mut self.other,
            Why::TooLong => &mut self.too_long,
            Why::NoConnection => &mut self.no_connection,
            Why::TableFull => &mut self.table_full,
            Why::NoLocalPort => &mut self.no_local_port,
            Why::Planted => &mut self.planted,
        } += 1;
    }
}

impl From<Unfit> for Why {
    fn from(why: Unfit) -> Self {
        match why {
            Unfit::Other => Self::Other,
            Unfit::Malformed => Self::Malformed,
            Unfit::Fragment => Self::Fragment,
            Unfit::Checksum => Self::Checksum,
            Unfit::HopLimit => Self::HopLimit,
        }
    }
}

/// A frame that is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Its bytes.
    pub len: usize,
    /// The backend that it goes to or comes from. A frame to one has no destination yet: its
    /// first six bytes are zero.
    pub backend: u16,
    /// Whether it opened a connection.
    pub is_new: bool,
}

/// The rewriting part: its connections and what they occupy.
#[derive(Debug)]
pub struct Nat {
    settings: Settings,
    /// Its own Ethernet addresses: among the clients, and among the backends.
    macs: [Mac; 2],
    /// Bytes of the longest frame that either port carries.
    longest: [usize; 2],
    table: Table,
    deal: Deal,
    pool: Option<Pool>,
    distances: Hash,
    /// Connections opened, by backend.
    dealt: Vec<u64>,
    syns: u64,
    payloads: u64,
    toa_omitted: u64,
    broken: u64,
}

impl Nat {
    /// A balancer of which `settings` hold, with these Ethernet addresses and longest frames
    /// towards clients and towards backends.
    pub fn new(settings: &Settings, macs: [Mac; 2], longest: [usize; 2]) -> Self {
        let hash = |purpose| Hash::new(settings.seed, purpose);
        let backends = settings.backends.len();
        let pool = |ends| Pool::new(ends, backends, settings.wrongs.reuse_after);
        Self {
            macs,
            longest,
            table: Table::new(settings.connections, settings.timeouts, hash(0)),
            deal: Deal::new(settings, hash(1)),
            pool: settings.local.map(pool),
            distances: hash(2),
            dealt: vec![0; backends],
            syns: 0,
            payloads: 0,
            toa_omitted: 0,
            broken: 0,
            settings: settings.clone(),
        }
    }

    /// Translates a frame into `out`, which holds the longest one.
    ///
    /// # Errors
    /// Why it goes no further.
    #[inline]
    pub fn translate(
        &mut self,
        from: Side,
        frame: &[u8],
        now_ns: u64,
        out: &mut [u8],
    ) -> Result<Passed, Why> {
        let packet = Packet::read(frame)?;
        match from {
            Side::Clients => self.send_to_backend(&packet, now_ns, out),
            Side::Servers => self.send_to_client(&packet, now_ns, out),
        }
    }

    fn send_to_backend(
        &mut self,
        packet: &Packet<'_>,
        now_ns: u64,
        out: &mut [u8],
    ) -> Result<Passed, Why> {
        if packet.dst != self.settings.service {
            return Err(Why::Other);
        }
        let opens = packet.has(SYN) && packet.flags & (ACK | RST) == 0;
        let known = self.table.of_client(packet.src);
        let (id, is_new) = match known {
            _ if opens && self.is_planted() => return Err(Why::Planted),
            Some(id) if opens && self.table.stage(id) == Stage::Closed => {
                let closed = self.table.replace(id);
                self.give_back(&closed);
                (self.open(packet, now_ns)?, true)
            }
            Some(id) => (id, false),
            None if opens => (self.open(packet, now_ns)?, true),
            None => return Err(Why::NoConnection),
        };
        let rewrite = self.towards_backend(packet, id);
        let len = written(packet, &rewrite, self.longest[1], out)?;
        if !is_new {
            self.advance(packet, id, 1, now_ns);
        }
        let backend = self.table.get(id).backend;
        Ok(Passed {
            len,
            backend,
            is_new,
        })
    }

    fn is_planted(&mut self) -> bool {
        self.syns += 1;
        let every = self.settings.wrongs.drop_syn_every;
        every.is_some_and(|every| self.syns.is_multiple_of(every))
    }

    fn towards_backend(&mut self, packet: &Packet<'_>, id: u32) -> Rewrite {
        let one = self.table.get(id);
        let is_first = packet.has(SYN) || (packet.has(ACK) && one.first_ack == Some(packet.ack));
        let is_told = self.settings.toa && self.pool.is_some() && is_first && !packet.has(RST);
        let has_room = packet.has_room_for_toa(self.longest[1]);
        self.toa_omitted += u64::from(is_told && !has_room);
        Rewrite {
            macs: (self.macs[1], Mac::default()),
            src: one.seen,
            dst: one.at,
            seq_by: one.seq_by,
            ack_by: 0,
            toa: (is_told && has_room).then_some(one.client),
            no_sack: self.settings.rewrites_seq,
            breaks: false,
        }
    }

    /// Enters a connection into the table.
    fn open(&mut self, packet: &Packet<'_>, now_ns: u64) -> Result<u32, Why> {
        if self.table.is_full() && !self.expire_one(now_ns) {
            return Err(Why::TableFull);
        }
        let backend = self.deal.backend(packet.src);
        let (local, seen) = match &mut self.pool {
            Some(pool) => pool.take(backend).ok_or(Why::NoLocalPort)?,
            None => (NONE, packet.src),
        };
        self.deal.opened();
        let number = &mut self.dealt[usize::from(backend)];
        *number += 1;
        let seq_by = if self.settings.rewrites_seq {
            self.distances
                .number(*number << 16 | u64::from(packet.src.port)) as u32
        } else {
            0
        };
        let connection = Connection {
            client: packet.src,
            seen,
            backend,
            at: if self.settings.direct {
                self.settings.service
            } else {
                self.settings.backends[usize::from(backend)]
            },
            local,
            mac: packet.from,
            seq_by,
            first_ack: None,
            fins: 0,
        };
        Ok(self.table.open(connection, now_ns))
    }

    fn send_to_client(
        &mut self,
        packet: &Packet<'_>,
        now_ns: u64,
        out: &mut [u8],
    ) -> Result<Passed, Why> {
        if self.settings.direct {
            return Err(Why::Other);
        }
        let Some(id) = self.table.of_backend(packet.src, packet.dst) else {
            let is_backend = self.settings.backends.contains(&packet.src);
            return Err(if is_backend {
                Why::NoConnection
            } else {
                Why::Other
            });
        };
        let one = self.table.get_mut(id);
        if packet.has(SYN | ACK) {
            one.first_ack = Some(packet.seq.wrapping_add(1));
        }
        let (client, backend) = (one.client, one.backend);
        let mut rewrite = Rewrite {
            macs: (self.macs[0], one.mac),
            src: self.settings.service,
            dst: client,
            seq_by: 0,
            ack_by: one.seq_by.wrapping_neg(),
            toa: None,
            no_sack: false,
            breaks: false,
        };
        if packet.has_payload() {
            self.payloads += 1;
            let every = self.settings.wrongs.break_every;
            rewrite.breaks = every.is_some_and(|every| self.payloads.is_multiple_of(every));
            self.broken += u64::from(rewrite.breaks);
        }
        let len = written(packet, &rewrite, self.longest[0], out)?;
        self.advance(packet, id, 2, now_ns);
        Ok(Passed {
            len,
            backend,
            is_new: false,
        })
    }

    /// What a segment of `side` (1: the client, 2: the backend) makes of its connection.
    #[inline]
    fn advance(&mut self, packet: &Packet<'_>, id: u32, side: u8, now_ns: u64) {
        let before = self.table.stage(id);
        let one = self.table.get_mut(id);
        if packet.has(FIN) {
            one.fins |= side;
        }
        // Of a direct return it sees the client's segments alone.
        let is_direct = self.settings.direct;
        let is_over = packet.has(RST) || one.fins == if is_direct { 1 } else { 3 };
        let is_open = side == 1 && packet.has(ACK) && (is_direct || one.first_ack.is_some());
        let stage = match before {
            _ if is_over => Stage::Closed,
            Stage::Opening if is_open => Stage::Established,
            stage => stage,
        };
        self.table.touch(id, stage, now_ns);
    }

    fn give_back(&mut self, connection: &Connection) {
        if let Some(pool) = &mut self.pool {
            pool.give_back(connection.backend, connection.local);
        }
    }

    fn expire_one(&mut self, now_ns: u64) -> bool {
        if self.settings.wrongs.leaks {
            return false;
        }
        let expired = self.table.expire(now_ns);
        if let Some(one) = &expired {
            self.give_back(one);
        }
        expired.is_some()
    }

    /// Forgets connections whose time is over, at most `most` of them.
    pub fn expire(&mut self, now_ns: u64, most: usize) {
        for _ in 0..most {
            if !self.expire_one(now_ns) {
                return;
            }
        }
    }

    /// Forgets all connections.
    pub fn flush(&mut self) {
        while let Some(one) = self.table.flush() {
            self.give_back(&one);
        }
    }

    /// What became of connections.
    pub fn tracked(&self) -> Tracked {
        Tracked {
            toa_omitted: self.toa_omitted,
            broken: self.broken,
            ..self.table.counts()
        }
    }

    /// Connections opened, by backend.
    pub fn dealt(&self) -> &[u64] {
        &self.dealt
    }

    /// Local ends in use and in all, of all backends together; none without full-NAT.
    pub fn local_ends(&self) -> Option<(u64, u64)> {
        let pool = self.pool.as_ref()?;
        Some((pool.used(), pool.size()))
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An address of its own, for which it answers.
    pub(super) fn has(&self, address: std::net::IpAddr) -> bool {
        let Settings { service, local, .. } = &self.settings;
        service.ip() == address || local.is_some_and(|local| local.has(address))
    }

    pub(super) fn mac(&self, port: usize) -> Mac {
        self.macs[port]
    }

    /// The address from which it asks where backends are.
    pub(super) fn asks_from(&self) -> Spot {
        let local = self.settings.local.map(|local| local.spot(0));
        local.unwrap_or(self.settings.service)
    }
}

fn written(
    packet: &Packet<'_>,
    rewrite: &Rewrite,
    longest: usize,
    out: &mut [u8],
) -> Result<usize, Why> {
    let len = packet.written_len(rewrite);
    if len > longest {
        return Err(Why::TooLong);
    }
    let out = out.get_mut(..len).ok_or(Why::TooLong)?;
    packet.write(rewrite, out);
    Ok(len)
}
