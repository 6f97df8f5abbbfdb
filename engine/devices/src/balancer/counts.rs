//! What a balancer counts.

/// Frames that were dropped, by place and reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// Found the ring full.
    pub ring: u64,
    /// A header does not fit.
    pub malformed: u64,
    /// A wrong checksum of the IP header; that of the segment is its receiver's business.
    pub checksum: u64,
    /// Fragments.
    pub fragments: u64,
    /// Time to live over.
    pub hop_limit: u64,
    /// No TCP over IP, or not from or to the service.
    pub other: u64,
    /// Longer than the other port carries.
    pub too_long: u64,
    /// Of no connection that is remembered.
    pub no_connection: u64,
    /// A SYN that found the table full.
    pub table_full: u64,
    /// A SYN that found all local ends of its backend in use.
    pub no_local_port: u64,
    /// A SYN that was dropped on purpose.
    pub planted: u64,
    /// The backend's Ethernet address was not told in time.
    pub no_next_hop: u64,
    /// Not taken by the other port.
    pub full: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.ring
            + self.malformed
            + self.checksum
            + self.fragments
            + self.hop_limit
            + self.other
            + self.too_long
            + self.no_connection
            + self.table_full
            + self.no_local_port
            + self.planted
            + self.no_next_hop
            + self.full
    }
}

/// What happened to the frames that came in one direction:
/// received = sent + consumed + waiting + all [`Drops`], always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that left the receive ring of the port.
    pub received: u64,
    /// Frames that the other port took.
    pub sent: u64,
    /// ARP and neighbour discovery that was for it.
    pub consumed: u64,
    /// Frames that wait to be served, or for where to go.
    pub waiting: u64,
    /// Frames that were dropped.
    pub drops: Drops,
}

/// What became of connections:
/// created = opening + established + closed + expired + replaced + flushed, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Connections that were entered into the table.
    pub created: u64,
    /// Those whose client has not acknowledged the backend's SYN.
    pub opening: u64,
    /// Those that are open.
    pub established: u64,
    /// Those that have closed and are remembered.
    pub closed: u64,
    /// Those that were forgotten, by what they were.
    pub expired_opening: u64,
    /// See `expired_opening`.
    pub expired_established: u64,
    /// See `expired_opening`.
    pub expired_closed: u64,
    /// Closed ones whose client opened another.
    pub replaced: u64,
    /// Those that were forgotten on request.
    pub flushed: u64,
    /// Segments without the TOA option that was due, for want of room.
    pub toa_omitted: u64,
    /// Segments whose payload was broken on purpose.
    pub broken: u64,
}

impl Tracked {
    /// Places of the table that are occupied.
    pub fn live(&self) -> u64 {
        self.opening + self.established + self.closed
    }
}
