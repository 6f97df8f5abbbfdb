//! TCP connections, and requests in datagrams, over frames, without a socket for each.
//!
//! | module | what it is |
//! |---|---|
//! | [`plan`] | connection number *n*: its tuple, its first sequence number, its time |
//! | [`end`] | an address and a port |
//! | [`segment`], [`options`], [`payload`] | segments, their options and what they carry, read and written |
//! | [`schedule`] | when each is due |
//! | [`sender`] | the segments that a client sends of it |
//! | [`outstanding`] | two bits for each connection that has not ended |
//! | [`timers`] | what becomes due for each without being asked for |
//! | [`counts`] | what became of them |
//! | [`answered`] | which backend answered them |
//! | [`order`] | which backend each reached, in the order of opening |
//! | [`client`] | opens connections and accounts for each |
//! | `proxied` | the header in which a proxy tells a backend its client |
//! | `reuse` | whether a backend cannot tell two of them apart |
//! | [`server`] | answers every segment from the segment alone |
//! | [`sources`] | how many segments came from each address |
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
//! It is not a TCP for general use: a request is one segment, there is no window scale and
//! no selective acknowledgment. Time stamps are sent on request, and not judged. The server never
//! repeats an answer of one segment; the client repeats segments only with `--retry`. A lost segment
//! that is not repeated ends its connection by time-out, at the stage that lost it. Longer answers
//! are segments within the client's window, which the server repeats after a time-out; of congestion
//! control they have a first window of ten segments, which each acknowledgment widens.

mod account;
pub mod answered;
pub mod client;
pub mod counts;
pub mod options;
pub mod order;
pub mod outages;
pub mod outstanding;
pub mod parts;
pub mod payload;
pub mod plan;
mod proxied;
mod reuse;
pub mod samples;
pub mod schedule;
pub mod segment;
pub mod sender;
pub mod server;
pub mod sources;
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
mod proxied_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod tests;
