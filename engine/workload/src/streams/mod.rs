//! Streams: frames of known content, sent at their time and accounted where
//! they arrive.
//!
//! [`start`] takes the ports of a session and a [`plan`], runs one trial in
//! threads pinned to their cores and gives the ports back with the account.
//!
//! | module | what it is |
//! |---|---|
//! | [`plan`] | what a trial is to do, and each worker of it |
//! | `work` | the workload, with `drain` for its end, `send` for the frames of a burst, `ports` for what else ports do, `keep` for captures |
//! | [`slices`], [`hold`] | groups of streams that take turns in a trial, and processes stopped meanwhile |
//! | [`live`] | how a running trial is watched, stopped and kept in step |
//! | `merge`, [`outcome`] | the workers' parts, put together |
//! | `stage` | how far a trial has come |
//! | [`loopback`] | what the engine itself adds to a latency |

mod drain;
pub mod hold;
mod keep;
pub mod live;
pub mod loopback;
mod merge;
pub mod outcome;
pub mod plan;
mod ports;
mod send;
mod sliced;
pub mod slices;
mod stage;
mod trial;
mod work;

pub use live::Live;
pub use outcome::Outcome;
pub use plan::{Plan, PlannedStream, WorkerPlan};
pub use stage::Stage;
pub use trial::{Running, WorkersPorts, start};
