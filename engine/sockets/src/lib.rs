//! Workloads over kernel sockets, as an application would use them: streams,
//! requests on a standing connection, and connections themselves.
//!
//! [`run()`] starts one client thread and one server thread, each in its
//! namespace and on its core, for the duration of one [`Workload`]. With one
//! connection both threads use plain blocking calls, the fewest there can be;
//! with several, epoll. A planned rate makes an open loop: latency counts from
//! the planned instant, so a stall is not forgiven to the transactions that
//! had to wait for it.
//!
//! An end may be another engine's: [`run()`] is then the client's alone, and
//! [`serve()`] the server's.

mod alone;
mod client;
mod convert;
mod counters;
mod course;
mod datagrams;
mod failure;
mod fault;
mod live;
mod many;
pub mod message;
mod outcome;
mod place;
mod ports;
mod record;
mod run;
mod schedule;
mod server;
mod server_many;
mod shared;
mod single;
mod socket;
mod spec;
mod stats;
mod stream;
mod trend;
mod usage;
mod watch;

pub use alone::serve;
pub use convert::{latency, listening, result, sample, served};
pub use failure::{Failure, FailureKind};
pub use fault::{Fault, Faults};
pub use live::{Live, Sample};
pub use outcome::{
    Connection, Outcome, PlaceFacts, Run, Served, ServedWindow, Status, ThreadFacts,
};
pub use run::run;
pub use spec::{
    Close, Kind, MAX_BYTES, MAX_CONNECTIONS, MAX_DATAGRAM, MAX_DURATION, MAX_RATE_TPS, MAX_REPEATS,
    MAX_TIMEOUT, Place, Side, Transport, Wait, Workload,
};
pub use stats::{Summary, summarise};
pub use trend::{Change, Trend};
pub use usage::Usage;
