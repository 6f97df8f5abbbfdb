//! What is sent and what came back: pure state machines without I/O.
//!
//! * [`spec`], [`program`]: a stream's frames, written one after another into buffers;
//! * [`recipe`]: the same, described for something else that makes them;
//! * [`replay`], [`recorded`]: the frames of a capture, and their times;
//! * [`pacer`]: which of them are due; [`pace`]: which connections and transactions;
//! * [`account`]: loss, duplication, reordering, damage, latency and jitter of
//!   what was received, also of each flow ([`flows`]);
//! * [`gaps`]: how evenly the loop that drives all this came round.
//!
//! Nothing here allocates after construction, and nothing panics on the
//! content of a frame.

pub mod account;
mod arrivals;
mod build;
pub mod counts;
mod digits;
mod dissect;
mod field;
pub mod flows;
pub mod gaps;
mod general;
pub mod hash;
pub mod latency;
mod layer;
mod layout;
mod limits;
mod order;
pub mod pace;
pub mod pacer;
mod plain;
pub mod powers;
pub mod program;
pub mod recipe;
pub mod recorded;
pub mod replay;
pub mod sent_bound;
mod sizes;
pub mod spec;
pub mod window;
mod writer;
mod zipf;
