//! A core for each worker, one state each, run to completion.
//!
//! [`start`] takes the ports of a session and a [`plan`], runs one trial in
//! threads pinned to their cores and gives the ports back with the account.
//!
//! | module | what it is |
//! |---|---|
//! | [`plan`] | what a trial is to do, and each worker of it |
//! | `turn` | the hot loop, with `send` and `receive` for the frames of a burst, `ports` for what else ports do, `keep` for captures |
//! | [`slices`], [`hold`] | groups of streams that take turns in a trial, and processes stopped meanwhile |
//! | [`live`] | how a running trial is watched, stopped and kept in step |
//! | `merge`, [`outcome`] | the workers' parts, put together |
//! | [`relay`] | a loop of its own: ports joined in pairs, nothing measured but what did not get through |
//! | [`witness`], [`probe`], [`loopback`] | what the host, the cores and the engine itself add |

pub mod clock;
pub mod hold;
mod keep;
pub mod live;
pub mod loopback;
mod merge;
pub mod outcome;
pub mod plan;
mod ports;
pub mod probe;
mod receive;
pub mod relay;
mod send;
pub mod slices;
mod trial;
mod turn;
pub mod witness;

pub use clock::Clock;
pub use live::Live;
pub use outcome::Outcome;
pub use plan::{Plan, PlannedStream, WorkerPlan, WorkerPort};
pub use trial::{Running, WorkersPorts, start};
