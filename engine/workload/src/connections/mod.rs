//! TCP connections, and requests in datagrams, over frames, without a socket for each.
//!
//! | module | what it is |
//! |---|---|
//! | [`plan`] | connection number *n*: its tuple, its first sequence number, its time |
//! | [`end`] | an address and a port |
//! | [`segment`], [`payload`] | segments and what they carry, read and written |
//! | [`schedule`] | when each is due |
//! | [`sender`] | the segments that a client sends of it |
//! | [`outstanding`] | two bits for each connection that has not ended |
//! | [`timers`] | what becomes due for each without being asked for |
//! | [`counts`] | what became of them |
//! | [`answered`] | which backend answered them |
//! | [`order`] | which backend each reached, in the order of opening |
//! | [`client`] | opens connections and accounts for each |
//! | `reuse` | whether a backend cannot tell two of them apart |
//! | [`server`] | answers every segment from the segment alone |
//! | [`parts`] | the connections of one client on several cores |
//! | [`outages`] | when backends are down |
//! | [`samples`] | counts at regular times |
//! | [`work`] | both as a workload of one core |
//! | `account` | the accounts of several cores as one |
//!
//! Either end knows how far a connection is from the acknowledgment of its own
//! sequence numbers, and trusts no others: a balancer in full-NAT rewrites those
//! of the client. All else crosses in the payload.
//!
//! It is not a TCP for general use: a request and an answer are one segment each, there
//! is no congestion control and no window scale, the server never retransmits, and the
//! client only where it was told to. A lost segment that is not repeated ends its
//! connection by time-out, at the stage that lost it.

mod account;
pub mod answered;
pub mod client;
pub mod counts;
pub mod order;
pub mod outages;
pub mod outstanding;
pub mod parts;
pub mod payload;
pub mod plan;
mod reuse;
pub mod samples;
pub mod schedule;
pub mod segment;
pub mod sender;
pub mod server;
pub mod timers;
pub mod work;

pub use pinchpoint_wire::end;

#[cfg(test)]
mod datagram_tests;
#[cfg(test)]
pub(crate) mod doubles;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod tests;
