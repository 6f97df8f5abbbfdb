//! What is sent and what came back: pure state machines without I/O.
//!
//! * [`spec`], [`program`]: a stream's frames, written one after another into buffers;
//! * [`pacer`]: which of them are due;
//! * [`account`]: loss, duplication, reordering, damage and latency of what
//!   was received;
//! * [`gaps`]: how evenly the loop that drives all this came round.
//!
//! Nothing here allocates after construction, and nothing panics on the
//! content of a frame.

pub mod account;
pub mod gaps;
pub mod latency;
mod order;
pub mod pacer;
pub mod program;
pub mod spec;
pub mod window;
