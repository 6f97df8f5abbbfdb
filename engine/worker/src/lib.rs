//! One core, one state, run to completion.
//!
//! [`start`] takes the ports of a session and a [`plan`], runs one
//! trial in a thread pinned to its core and gives the ports back with the
//! account. Beside it stand the witnesses of the measuring host itself:
//! [`witness`] and the cache-line [`probe`].

pub mod clock;
pub mod outcome;
pub mod plan;
pub mod probe;
mod trial;
pub mod witness;

pub use clock::Clock;
pub use outcome::Outcome;
pub use plan::{Live, Plan, PlannedStream};
pub use trial::{Running, start};
