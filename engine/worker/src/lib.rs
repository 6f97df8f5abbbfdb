//! A core for each worker, one state each, run to completion.
//!
//! [`Worker`] is the hot loop. What it does is a [`Workload`]'s: the loop
//! receives, hands over every frame, sends the answers and keeps its own time.
//!
//! | module | what it is |
//! |---|---|
//! | `turn` | the loop, [`Workload`], and the [`Core`] that a workload sees of it |
//! | [`replies`] | answers to the frames of a burst |
//! | [`standing`] | workloads that run until somebody stops them |
//! | [`watched`] | what these report of their loop and their ports |
//! | [`clock`] | nanoseconds, in the same order on all cores |
//! | [`witness`], [`probe`] | what the host and the cores add |

pub mod clock;
pub mod probe;
pub mod replies;
pub mod standing;
mod turn;
pub mod watched;
pub mod witness;

pub use clock::Clock;
pub use replies::Replies;
pub use turn::{Core, Idle, Received, Settings, Step, Worker, WorkerPort, Workload};
