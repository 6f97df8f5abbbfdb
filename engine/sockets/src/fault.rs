//! Why a transaction failed.

use rustix::io::Errno;

/// What ended one transaction, or the connection it was on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens there (ECONNREFUSED).
    Refused,
    /// No source port is left (EADDRNOTAVAIL, EADDRINUSE).
    AddressUnavailable,
    /// It took longer than the workload's timeout, or the kernel's (ETIMEDOUT).
    Timeout,
    /// The other side cut the connection (ECONNRESET, EPIPE, ECONNABORTED).
    Reset,
    /// The connection ended, or a datagram did, before all bytes had come.
    Short,
    /// No way leads there (ENETUNREACH, EHOSTUNREACH).
    Unreachable,
    /// Any other error number (errno(3)).
    Other(i32),
    /// The workload was ended meanwhile: no failure of the transaction.
    Ended,
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED => Self::Refused,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::AddressUnavailable,
            Errno::TIMEDOUT => Self::Timeout,
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Self::Reset,
            Errno::NETUNREACH | Errno::HOSTUNREACH => Self::Unreachable,
            other => Self::Other(other.raw_os_error()),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Refused => "connection refused",
            Self::AddressUnavailable => "no source port left (EADDRNOTAVAIL)",
            Self::Timeout => "timeout",
            Self::Reset => "connection reset",
            Self::Short => "the connection ended early",
            Self::Unreachable => "network unreachable",
            Self::Ended => "ended",
            Self::Other(number) => {
                return std::io::Error::from_raw_os_error(*number).fmt(f);
            }
        };
        f.write_str(text)
    }
}

/// Failed transactions by kind; see [`Fault`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// [`Fault::Refused`].
    pub refused: u64,
    /// [`Fault::AddressUnavailable`].
    pub address_unavailable: u64,
    /// [`Fault::Timeout`].
    pub timeout: u64,
    /// [`Fault::Reset`].
    pub reset: u64,
    /// [`Fault::Short`].
    pub short: u64,
    /// [`Fault::Unreachable`].
    pub unreachable: u64,
    /// [`Fault::Other`].
    pub other: u64,
    /// The number of the first [`Fault::Other`].
    pub first_other: Option<i32>,
}

impl Faults {
    /// Counts one.
    pub fn count(&mut self, fault: Fault) {
        match fault {
            Fault::Refused => self.refused += 1,
            Fault::AddressUnavailable => self.address_unavailable += 1,
            Fault::Timeout => self.timeout += 1,
            Fault::Reset => self.reset += 1,
            Fault::Short => self.short += 1,
            Fault::Unreachable => self.unreachable += 1,
            Fault::Other(number) => {
                self.other += 1;
                self.first_other.get_or_insert(number);
            }
            Fault::Ended => {}
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.refused
            + self.address_unavailable
            + self.timeout
            + self.reset
            + self.short
            + self.unreachable
            + self.other
    }
}
